#include "kube/reflector.h"

#include <fmt/format.h>

#include <algorithm>

#include "kube/access.h"

namespace tranche::kube {
namespace {

// A watch that ends sooner and brought nothing counts as failed: something between this node and the server cuts it.
constexpr Duration kTooShort = std::chrono::seconds(1);

}  // namespace

Reflector::Reflector(ReflectorSettings settings)
    : settings_(std::move(settings)),
      backoff_(settings_.first_wait, settings_.most_wait, settings_.seed),
      spread_(settings_.shortest_watch * 2, settings_.shortest_watch * 2, settings_.seed + 1) {}

Reflector::Step Reflector::next(MonoTime now) {
  if (under_way_) return {};
  if (wait_until_ && now < *wait_until_) return {};
  wait_until_.reset();
  under_way_ = true;
  return watch_next_ ? watch_step(now) : list_step();
}

// The first list accepts the state in the server's memory: a quorum read from etcd by all nodes that start at once can
// overload a cluster. Later lists are at least as new as the known state.
Reflector::Step Reflector::list_step() {
  state_ = State::kListing;
  Step step{Do::kList, {}, {}, continue_.empty()};
  step.query = fmt::format("limit={}", settings_.page);
  if (!continue_.empty()) {
    step.query += "&continue=" + percent_encoded(continue_);
  } else if (!version_.empty()) {
    step.query += "&resourceVersion=" + percent_encoded(version_);
  }
  if (!settings_.selector.empty()) step.query += "&" + settings_.selector;
  return step;
}

Reflector::Step Reflector::watch_step(MonoTime now) {
  state_ = State::kWatching;
  watch_began_ = now;
  seen_in_watch_ = false;
  if (watches_++ > 0) ++watch_restarts_;
  const auto seconds = std::max<std::int64_t>(1, std::chrono::ceil<std::chrono::seconds>(spread_.next()).count());
  Step step{Do::kWatch, {}, std::chrono::seconds(seconds), false};
  step.query = fmt::format("watch=1&allowWatchBookmarks=true&timeoutSeconds={}&resourceVersion={}", seconds,
                           percent_encoded(version_));
  if (!settings_.selector.empty()) step.query += "&" + settings_.selector;
  return step;
}

void Reflector::on_page(const std::string& resource_version, const std::string& continue_token) {
  under_way_ = false;
  continue_ = continue_token;
  if (!continue_.empty()) return;
  version_ = resource_version;
  watch_next_ = true;
  known_ = true;
  reason_.clear();
}

void Reflector::on_event(const std::string& resource_version) {
  version_ = resource_version;
  seen_in_watch_ = true;
  reason_.clear();
  backoff_.reset();
}

void Reflector::on_watch_end(MonoTime now) {
  under_way_ = false;
  if (seen_in_watch_ || now - watch_began_ >= kTooShort) {
    backoff_.reset();
    return;
  }
  wait(Duration::zero(), "the watch ended as soon as it began", now);
}

void Reflector::on_failed(const ApiStatus& status, MonoTime now) {
  under_way_ = false;
  if (status.code == http::kGone) {
    // If the version at which a list began has expired too, only the newest state is left.
    if (!watch_next_) version_.clear();
    watch_next_ = false;
    continue_.clear();
    wait(status.retry_after, "the API server no longer knows where we were: listing again", now);
    return;
  }
  if (!watch_next_) continue_.clear();  // an interrupted list starts again
  Duration least = status.retry_after;
  if (status.code == http::kForbidden) least = std::max(least, settings_.denied_wait);
  std::string reason = status.message;
  if (status.code != 0) reason = fmt::format("{}{}{}", status.code, reason.empty() ? "" : ": ", reason);
  if (status.code == http::kForbidden) reason += "; give this service account the role in " + settings_.role;
  if (status.code == http::kUnauthorized) reason += "; the token is refused";
  wait(least, std::move(reason), now);
}

void Reflector::wait(Duration least, std::string reason, MonoTime now) {
  state_ = State::kWaiting;
  reason_ = std::move(reason);
  wait_until_ = now + std::max(least, backoff_.next());
}

}  // namespace tranche::kube
