#pragma once
// The one connection of a program to the API server, for all its parts: how this process may talk to it is found out
// and libcurl is loaded on the worker, so that nothing waits for it. Without an API server it stays closed, with the
// reason. Loop thread only. Whoever uses the client must be gone before the link.
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "config/resolve.h"
#include "kube/client/kube_client.h"
#include "os/worker/worker.h"

namespace tranche::host {

class KubeLink {
 public:
  // `kubeconfig` "" = the service account of this pod.
  KubeLink(Loop& loop, Worker& worker, std::string kubeconfig, config::Environment environment);
  ~KubeLink();
  KubeLink(const KubeLink&) = delete;
  KubeLink& operator=(const KubeLink&) = delete;

  // As a turn of its own once it is open or closed for good, also when it is by now.
  void when_settled(std::function<void()> told);

  bool settled() const { return settled_; }
  KubeClient* client() { return client_.get(); }              // nullptr: not open
  const std::string& closed_because() const { return why_; }  // once settled without a client
  const std::string& server() const { return server_; }       // "https://…"
  const std::string& source() const { return source_; }       // where that was found

 private:
  struct Prepared;
  void settle(Prepared prepared);

  Loop& loop_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
  bool settled_ = false;
  std::string why_, server_, source_;
  std::unique_ptr<KubeClient> client_;
  std::vector<std::function<void()>> waiting_;
};

}  // namespace tranche::host
