#include "kube/client/kube_client.h"

#include <fmt/format.h>

#include <algorithm>

#include "kube/api_status.h"
#include "kube/client/curl_library.h"
#include "kube/client/token.h"
#include "kube/client/transfers.h"
#include "os/loop/timer.h"

namespace tranche::host {
namespace {

using namespace std::chrono_literals;

constexpr Duration kAnswerIn = 15s;
constexpr Duration kListIn = 60s;
constexpr Duration kWatchGrace = 30s;  // the server ends it by itself before
// A page of 500 pods has 5 MiB as a rule. Reading one takes up to ten times its size, and the chart's limit is 256 MiB.
constexpr std::size_t kLargestAnswer = std::size_t{16} << 20;
constexpr std::size_t kLargestRefusal = std::size_t{64} << 10;

class CurlKubeClient final : public KubeClient {
 public:
  CurlKubeClient(Loop& loop, std::unique_ptr<Transfers> transfers, const kube::Access& access)
      : loop_(loop), transfers_(std::move(transfers)), token_(access.token_file, access.token) {}

  Id get(const std::string& path, OnAnswer done) override {
    return ask("get", {.path = path, .deadline = kAnswerIn, .compressed = true}, std::move(done));
  }
  Id list(const std::string& path, OnAnswer done) override {
    return ask("list", {.path = path, .deadline = kListIn, .compressed = true}, std::move(done));
  }
  Id create(const std::string& path, const std::string& json, OnAnswer done) override {
    return send("create", "POST", path, json, std::move(done));
  }
  Id replace(const std::string& path, const std::string& json, OnAnswer done) override {
    return send("update", "PUT", path, json, std::move(done));
  }
  Id remove(const std::string& path, OnAnswer done) override {
    return ask("delete", {.method = "DELETE", .path = path, .deadline = kAnswerIn}, std::move(done));
  }
  Id patch(const std::string& path, const std::string& merge_patch, OnAnswer done) override {
    return patch_as("merge-patch+json", path, merge_patch, std::move(done));
  }
  Id strategic_patch(const std::string& path, const std::string& body, OnAnswer done) override {
    return patch_as("strategic-merge-patch+json", path, body, std::move(done));
  }
  Id apply(const std::string& path, const std::string& json, OnAnswer done) override {
    return patch_as("apply-patch+yaml", path, json, std::move(done));
  }
  Id watch(const std::string& path, Duration lasts, std::function<void(std::string_view)> data,
           OnAnswer done) override {
    return ask("watch", {.path = path, .deadline = lasts + kWatchGrace}, std::move(done), std::move(data));
  }
  void cancel(Id id) override {
    const auto at = under_way_.find(id);
    if (at == under_way_.end()) return;
    const auto transfer = at->second.transfer;
    under_way_.erase(at);
    transfers_->cancel(transfer);
  }
  const KubeCounts& counts() const override { return counts_; }

 private:
  Id patch_as(const char* kind, const std::string& path, const std::string& body, OnAnswer done) {
    return ask("patch",
               {.method = "PATCH",
                .path = path,
                .headers = {fmt::format("Content-Type: application/{}", kind)},
                .body = body,
                .deadline = kAnswerIn},
               std::move(done));
  }
  struct UnderWay {
    explicit UnderWay(Loop& loop) : failing(loop) {}
    Transfers::Id transfer = 0;
    Timer failing;  // a request that could not even be made
  };

  Id send(const char* verb, const char* method, const std::string& path, const std::string& json, OnAnswer done) {
    return ask(verb,
               {.method = method,
                .path = path,
                .headers = {"Content-Type: application/json"},
                .body = json,
                .deadline = kAnswerIn},
               std::move(done));
  }
  Id ask(const char* verb, HttpRequest request, OnAnswer done, std::function<void(std::string_view)> stream = {});
  void ended(Id id, const char* verb, KubeAnswer answer, const OnAnswer& done);

  Loop& loop_;
  std::unique_ptr<Transfers> transfers_;
  Token token_;
  std::map<Id, UnderWay> under_way_;
  Id next_id_ = 1;
  // After a deadline nobody knows whether the connection is alive: an HTTP/2 connection would be used again, and again.
  bool distrust_ = false;
  KubeCounts counts_;
};

void CurlKubeClient::ended(Id id, const char* verb, KubeAnswer answer, const OnAnswer& done) {
  under_way_.erase(id);
  ++counts_[{verb, answer.status == 0 ? "error" : std::to_string(answer.status)}];
  if (answer.status == kube::http::kUnauthorized) token_.doubt();
  done(std::move(answer));
}

KubeClient::Id CurlKubeClient::ask(const char* verb, HttpRequest request, OnAnswer done,
                                   std::function<void(std::string_view)> stream) {
  const Id id = next_id_++;
  const auto token = token_.get();
  if (!token) {
    UnderWay& call = under_way_.try_emplace(id, loop_).first->second;
    call.failing.start(Duration::zero(),
                       [this, id, verb, why = to_string(token.error()), done] { ended(id, verb, {0, {}, why}, done); });
    return id;
  }
  if (!token->empty()) request.headers.push_back("Authorization: Bearer " + *token);
  request.headers.emplace_back("Accept: application/json");
  request.own_connection = distrust_;
  const auto answer = std::make_shared<KubeAnswer>();
  request.largest = kLargestAnswer;
  request.stream = stream != nullptr;
  const auto on_data = [this, answer, stream](int status, std::string_view bytes) {
    distrust_ = false;
    if (stream && status == kube::http::kOk) return stream(bytes);
    if (stream) bytes = bytes.substr(0, kLargestRefusal - std::min(kLargestRefusal, answer->body.size()));
    answer->body.append(bytes);
  };
  const auto on_end = [this, id, verb, answer, done](const HttpEnd& end) {
    distrust_ = distrust_ || end.timed_out;
    // An answer that broke off is none, except for what a watch has handed on already.
    answer->status = end.broken.empty() ? end.status : 0;
    answer->why = end.broken;
    ended(id, verb, std::move(*answer), done);
  };
  under_way_.try_emplace(id, loop_).first->second.transfer = transfers_->start(request, on_data, on_end);
  return id;
}

}  // namespace

bool succeeded(const KubeAnswer& answer) {
  return answer.status >= 200 && answer.status < 300;
}

std::string why_not(const KubeAnswer& answer) {
  return answer.status == 0 ? answer.why : kube::status_of_body(answer.status, answer.body).message;
}

Result<std::shared_ptr<const CurlLibrary>> KubeClient::load() {
  return CurlLibrary::open();
}

Result<std::unique_ptr<KubeClient>> KubeClient::open(Loop& loop, std::shared_ptr<const CurlLibrary> curl,
                                                     const kube::Access& access) {
  TRY(auto transfers, Transfers::open(loop, std::move(curl), access));
  return std::make_unique<CurlKubeClient>(loop, std::move(transfers), access);
}

}  // namespace tranche::host
