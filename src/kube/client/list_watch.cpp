#include "kube/client/list_watch.h"

#include <algorithm>

#include "kube/api_status.h"

namespace tranche::kube {
namespace {

ApiStatus status_of(const KubeAnswer& answer) {
  if (answer.status == 0) return {0, answer.why, {}};
  return status_of_body(answer.status, answer.body);
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

ListWatch::~ListWatch() {
  client_.cancel(call_);
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
  call_ = client_.list(path_ + "?" + query, [this, first](const KubeAnswer& answer) {
    call_ = 0;
    if (answer.status != http::kOk) return failed(status_of(answer));
    const auto page = handler_.on_page(answer.body, first);
    if (!page) return failed({0, page.error().what, {}});
    reflector_.on_page(page->resource_version, page->next);
    step();
    handler_.on_turn();
  });
}

void ListWatch::watch(const std::string& query, Duration lasts) {
  lines_ = std::make_unique<Lines>();
  call_ = client_.watch(
      path_ + "?" + query, lasts, [this](std::string_view bytes) { on_bytes(bytes); },
      [this](const KubeAnswer& answer) {
        call_ = 0;
        if (answer.status != http::kOk) return failed(status_of(answer));
        reflector_.on_watch_end(loop_.now());
        step();
        handler_.on_turn();
      });
}

void ListWatch::on_bytes(std::string_view bytes) {
  const auto give_up = [this](ApiStatus status) {
    client_.cancel(std::exchange(call_, 0));
    failed(std::move(status));
  };
  const auto lines = lines_->take(bytes);
  if (!lines) return give_up({http::kGone, lines.error().what, {}});
  for (const auto& line : *lines) {
    const auto event = handler_.on_line(line);
    // Not understood, so nobody knows what was missed: look at everything again.
    if (!event) return give_up({http::kGone, event.error().what, {}});
    if (event->change == Change::kError) return give_up(event->error);
    reflector_.on_event(event->resource_version);
  }
  handler_.on_turn();
}

}  // namespace tranche::kube
