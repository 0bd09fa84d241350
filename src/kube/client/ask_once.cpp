#include "kube/client/ask_once.h"

#include <fmt/format.h>

#include <functional>
#include <iterator>
#include <optional>
#include <utility>

#include "kube/api_status.h"
#include "kube/pod.h"
#include "kube/url.h"
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

constexpr int kPage = 250;
constexpr std::size_t kMostPages = 1000;  // a cluster has at most 150,000 pods

class Listing {
 public:
  Listing(Loop& loop, KubeClient& client, const std::string& selector)
      : loop_(loop), client_(client), selector_(kube::percent_encoded(selector)) {}

  Result<std::vector<std::string>> run() {
    ask("");
    loop_.run();
    if (error_) return std::unexpected(*std::move(error_));
    return std::move(pages_);
  }

 private:
  void ask(const std::string& next) {
    std::string path = fmt::format("/api/v1/pods?limit={}&fieldSelector={}", kPage, selector_);
    if (!next.empty()) path += "&continue=" + kube::percent_encoded(next);
    client_.list(path, [this](const KubeAnswer& answer) { on_answer(answer); });
  }

  void on_answer(const KubeAnswer& answer) {
    if (answer.status == kube::http::kGone && !pages_.empty() && !std::exchange(again_, true)) {
      pages_.clear();
      return ask("");
    }
    if (answer.status != kube::http::kOk) return refused(answer);
    auto page = kube::parse_pod_list(answer.body);
    if (!page) return end(std::move(page).error());
    pages_.push_back(answer.body);
    if (page->head.next.empty()) return loop_.stop();
    if (pages_.size() == kMostPages)
      return end({Kind::kInvalid, fmt::format("the API server lists pods on more than {} pages", kMostPages), {}, 0});
    ask(page->head.next);
  }

  void refused(const KubeAnswer& answer) {
    if (answer.status == 0) return end({Kind::kUnavailable, "the API server does not answer: " + answer.why, {}, 0});
    const auto status = kube::status_of_body(answer.status, answer.body);
    const bool denied = answer.status == kube::http::kUnauthorized || answer.status == kube::http::kForbidden;
    end({denied ? Kind::kDenied : Kind::kUnavailable,
         fmt::format("the API server does not list pods: {} ({})", status.message, answer.status),
         {},
         answer.status});
  }

  void end(Error error) {
    error_ = std::move(error);
    loop_.stop();
  }

  Loop& loop_;
  KubeClient& client_;
  std::string selector_;
  std::vector<std::string> pages_;
  std::optional<Error> error_;
  bool again_ = false;
};

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

Result<std::vector<std::string>> list_pods(const kube::Access& access, const std::vector<std::string>& selectors) {
  TRY(const auto loop, Loop::open());
  TRY(auto curl, KubeClient::load());
  TRY(const auto client, KubeClient::open(*loop, std::move(curl), access));
  std::vector<std::string> all;
  for (const auto& selector : selectors) {
    TRY(auto pages, Listing(*loop, *client, selector).run());
    all.insert(all.end(), std::make_move_iterator(pages.begin()), std::make_move_iterator(pages.end()));
  }
  return all;
}

}  // namespace tranche::host
