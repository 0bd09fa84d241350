#pragma once
// Requests to the API server for one-shot commands: each call blocks on a loop of its own, and every request has the
// client's deadline. Nothing is watched or cached.
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "kube/access.h"
#include "kube/client/kube_client.h"

namespace tranche::kube {

// A client with a loop of its own, for several requests.
struct BlockingClient {
  static Result<BlockingClient> open(const Access& access);
  // ask(&KubeClient::get, path): runs the loop until the answer is there, also if something else stops it.
  KubeAnswer ask(auto request, const auto&... texts) {
    std::optional<KubeAnswer> answer;
    (client.get()->*request)(texts..., [&](KubeAnswer got) {
      answer = std::move(got);
      loop->stop();
    });
    while (!answer) loop->run();
    return *std::move(answer);
  }

  std::unique_ptr<os::Loop> loop;
  std::unique_ptr<KubeClient> client;
};

// One request, such as ask_once(access, &KubeClient::get, path). Paths begin with "/api". A response with any status is
// a value; kUnavailable, naming the server, if there is none.
Result<KubeAnswer> ask_once(const Access& access, auto request, const auto&... texts) {
  TRY(auto server, BlockingClient::open(access));
  auto answer = server.ask(request, texts...);
  if (answer.status == 0) return std::unexpected(refusal(answer, "", access.server.url()));
  return answer;
}

// The pods of the cluster: one list for each field selector ("spec.nodeName=n1"), page by page: the raw bodies. If a
// later page has expired, the list is restarted once.
Result<std::vector<std::string>> list_pods(const Access& access, const std::vector<std::string>& selectors);

}  // namespace tranche::kube
