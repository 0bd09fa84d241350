#include "kube/client/list_watch.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "kube/access.h"
#include "kube/object.h"

namespace tranche::kube {
namespace {

// etcd accepts objects of up to 1.5 MiB; as JSON they are longer.
constexpr std::size_t kLongestLine = std::size_t{4} << 20;
constexpr int kMostPagesOfAList = 50;

ApiStatus status_of(const KubeAnswer& answer) {
  return answer.status == 0 ? ApiStatus{0, answer.why, {}} : status_of_body(answer.status, answer.body);
}

}  // namespace

ListWatch::ListWatch(os::Loop& loop, KubeClient& client, std::string path, ReflectorSettings settings,
                     ListWatchHandler handler)
    : loop_(loop),
      client_(client),
      path_(std::move(path)),
      reflector_(std::move(settings)),
      handler_(std::move(handler)) {
  step();
}

void ListWatch::step() {
  using Do = Reflector::Do;
  timer_.stop();
  const auto next = reflector_.next(loop_.now());
  if (next.what == Do::kList) list(next.query, next.first_page);
  if (next.what == Do::kWatch) watch(next.query, next.lasts);
  if (const auto wake = reflector_.wake())
    timer_.start(std::max(*wake - loop_.now(), Duration::zero()), [this] { step(); });
}

void ListWatch::failed(ApiStatus status) {
  reflector_.on_failed(status, loop_.now());
  step();
  handler_.on_turn();
}

void ListWatch::list(const std::string& query, bool first) {
  request_ = client_.list(path_ + "?" + query, [this, first](const KubeAnswer& answer) {
    if (answer.status != http::kOk) return failed(status_of(answer));
    if (first) {
      pages_ = 0;
      handler_.on_list(false);
    }
    const auto page = parse_list(answer.body, [this](const nlohmann::json& object) { handler_.on_object(object, {}); });
    if (!page) return failed({0, page.error().what, {}});
    if (++pages_ > kMostPagesOfAList)
      return failed({0, fmt::format("the API server answers with more than {} pages", kMostPagesOfAList), {}});
    if (page->next.empty()) handler_.on_list(true);
    reflector_.on_page(page->resource_version, page->next);
    step();
    handler_.on_turn();
  });
}

void ListWatch::watch(const std::string& query, Duration lasts) {
  lines_.emplace(kLongestLine);
  request_ = client_.watch(
      path_ + "?" + query, lasts, [this](std::string_view bytes) { on_bytes(bytes); },
      [this](const KubeAnswer& answer) {
        if (answer.status != http::kOk) return failed(status_of(answer));
        reflector_.on_watch_end(loop_.now());
        step();
        handler_.on_turn();
      });
}

void ListWatch::on_bytes(std::string_view bytes) {
  const auto give_up = [this](ApiStatus status) {
    request_.cancel();
    failed(std::move(status));
  };
  if (!lines_) return;
  for (const auto& line : lines_->take(bytes)) {
    if (line.empty()) continue;
    if (line.size() > kLongestLine)
      return give_up({http::kGone, fmt::format("the API server sent a line of more than {} bytes", kLongestLine), {}});
    const auto version = parse_watch_line(
        line, [this](Change change, const nlohmann::json& object) { handler_.on_object(object, change); });
    if (!version) return give_up(version.error());
    reflector_.on_event(*version);
  }
  handler_.on_turn();
}

WatchObject::WatchObject(os::Loop& loop, KubeClient& client, WatchedObject what,
                         std::function<void(const nlohmann::json*)> on_object, std::function<void()> on_turn)
    : watch_(loop, client, what.collection,
             {.selector = "fieldSelector=" + percent_encoded("metadata.name=" + what.name),
              .seed = what.seed,
              .role = what.role},
             {.on_object =
                  [this, name = what.name, on_object](const nlohmann::json& object, std::optional<Change> change) {
                    if (name_of(object) != name) return;
                    if (change)
                      on_object(change == Change::kDeleted ? nullptr : &object);
                    else
                      listed_ = object;
                  },
              .on_list =
                  [this, on_object](bool whole) {
                    const auto listed = std::exchange(listed_, std::nullopt);
                    if (whole) on_object(listed ? &*listed : nullptr);
                  },
              .on_turn = std::move(on_turn)}) {}

std::optional<std::string> WatchObject::unknown_because() const {
  if (reflector().known()) return std::nullopt;
  if (reflector().reason().empty()) return "the API server has not answered yet";
  return reflector().reason();
}

}  // namespace tranche::kube
