#include "kube/client/ask_once.h"

#include <functional>
#include <utility>

#include "os/loop/loop.h"

namespace tranche::host {
namespace {

Result<KubeAnswer> ask(const kube::Access& access,
                       const std::function<void(KubeClient& client, KubeClient::OnAnswer done)>& begin) {
  TRY(const auto loop, Loop::open());
  TRY(auto curl, KubeClient::load());
  TRY(const auto client, KubeClient::open(*loop, std::move(curl), access));
  KubeAnswer answer;
  begin(*client, [&](KubeAnswer got) {
    answer = std::move(got);
    loop->stop();
  });
  loop->run();
  if (answer.status == 0)
    return fail(Kind::kUnavailable, "the API server does not answer: " + answer.why, access.server.url());
  return answer;
}

}  // namespace

Result<KubeAnswer> get_once(const kube::Access& access, const std::string& path) {
  return ask(access, [&](KubeClient& client, KubeClient::OnAnswer done) { client.get(path, std::move(done)); });
}

Result<KubeAnswer> patch_once(const kube::Access& access, const std::string& path, const std::string& merge_patch) {
  return ask(access,
             [&](KubeClient& client, KubeClient::OnAnswer done) { client.patch(path, merge_patch, std::move(done)); });
}

Result<KubeAnswer> strategic_patch_once(const kube::Access& access, const std::string& path, const std::string& patch) {
  return ask(access, [&](KubeClient& client, KubeClient::OnAnswer done) {
    client.strategic_patch(path, patch, std::move(done));
  });
}

}  // namespace tranche::host
