#pragma once
// A program's single connection to the API server, shared by all its parts. The access is looked up and libcurl loaded
// on the worker, so the loop does not wait. Without an API server it stays closed, with the reason. Loop thread only.
// Users of the client must be destroyed before the link.
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "config/resolve.h"
#include "kube/client/kube_client.h"
#include "os/worker/worker.h"

namespace tranche::kube {

class KubeLink {
 public:
  // `kubeconfig` "" = the service account of this pod.
  KubeLink(os::Loop& loop, os::Worker& worker, std::string kubeconfig, config::Environment environment);
  ~KubeLink();
  KubeLink(const KubeLink&) = delete;
  KubeLink& operator=(const KubeLink&) = delete;

  // Runs the callback separately on the loop once the link is open or finally closed, also if it already is.
  void when_settled(std::function<void()> callback);

  bool settled() const { return settled_; }
  KubeClient* client() { return client_.get(); }              // nullptr: not open
  const std::string& closed_because() const { return why_; }  // set once settled without a client
  const std::string& server() const { return server_; }       // "https://…"
  const std::string& source() const { return source_; }       // where the access was found

 private:
  void settle(const std::vector<Problem>& problems, const Result<Access>& access);

  os::Loop& loop_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
  bool settled_ = false;
  std::string why_, server_, source_;
  std::unique_ptr<KubeClient> client_;
  std::vector<std::function<void()>> waiting_;
};

}  // namespace tranche::kube
