#include "kube/client/ask_once.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <utility>

#include "kube/access.h"
#include "kube/object.h"

namespace tranche::kube {
namespace {

constexpr int kPage = 250;
constexpr std::size_t kMostPages = 1000;  // a cluster has at most 150,000 pods

Result<std::vector<std::string>> pages_of(BlockingClient& server, const std::string& selector) {
  const std::string list = fmt::format("/api/v1/pods?limit={}&fieldSelector={}", kPage, percent_encoded(selector));
  std::vector<std::string> pages;
  std::string path = list;
  for (bool again = false;;) {
    const auto answer = server.ask(&KubeClient::list, path);
    if (answer.status == http::kGone && !pages.empty() && !std::exchange(again, true)) {
      pages.clear();
      path = list;
      continue;
    }
    if (answer.status != http::kOk) return std::unexpected(refusal(answer, "the API server does not list pods"));
    TRY(const auto page, parse_list(answer.body, [](const nlohmann::json&) {}));
    pages.push_back(answer.body);
    if (page.next.empty()) return pages;
    if (pages.size() == kMostPages)
      return fail(Kind::kInvalid, fmt::format("the API server lists pods on more than {} pages", kMostPages));
    path = list + "&continue=" + percent_encoded(page.next);
  }
}

}  // namespace

Result<BlockingClient> BlockingClient::open(const Access& access) {
  BlockingClient server;
  TRY(server.loop, os::Loop::open());
  TRY(server.client, KubeClient::open(*server.loop, access));
  return server;
}

Result<std::vector<std::string>> list_pods(const Access& access, const std::vector<std::string>& selectors) {
  TRY(auto server, BlockingClient::open(access));
  std::vector<std::string> all;
  for (const auto& selector : selectors) {
    TRY(auto pages, pages_of(server, selector));
    std::ranges::move(pages, std::back_inserter(all));
  }
  return all;
}

}  // namespace tranche::kube
