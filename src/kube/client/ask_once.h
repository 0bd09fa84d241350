#pragma once
// Requests to the API server for one-shot commands: each call blocks on a loop of its own, and every request has the
// client's deadline. Nothing is watched or cached.
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "kube/access.h"
#include "kube/client/kube_client.h"

namespace tranche::kube {

// A client with a loop of its own, for several requests.
struct BlockingClient {
  static Result<BlockingClient> open(const Access& access);
  // Runs the loop until `done` is called, also if something else stops it. `begin` makes the request.
  KubeAnswer ask(const std::function<void(KubeClient& client, KubeClient::OnAnswer done)>& begin);

  std::unique_ptr<os::Loop> loop;
  std::unique_ptr<KubeClient> client;
};

// Paths begin with "/api". A response with any status is a value; kUnavailable if there is none.
Result<KubeAnswer> get_once(const Access& access, const std::string& path);
using Write = KubeClient::Id (KubeClient::*)(const std::string& path, const std::string& body, KubeClient::OnAnswer);
Result<KubeAnswer> write_once(const Access& access, Write how, const std::string& path, const std::string& body);

// The pods of the cluster: one list for each field selector ("spec.nodeName=n1"), page by page: the raw bodies. If a
// later page has expired, the list is restarted once.
Result<std::vector<std::string>> list_pods(const Access& access, const std::vector<std::string>& selectors);

}  // namespace tranche::kube
