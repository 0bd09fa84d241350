#include "kube/event_queue.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/json_text.h"
#include "base/text.h"
#include "kube/object.h"

namespace tranche::kube {
namespace {

using Json = nlohmann::json;

constexpr int kBurst = 5;  // of events about one object
constexpr Duration kEvery = std::chrono::seconds(10);
constexpr int kBurstOfAll = 10;
constexpr Duration kEveryOfAll = std::chrono::milliseconds(100);
constexpr Duration kSameWithin = std::chrono::minutes(60);  // a later repetition is a new event
constexpr std::size_t kMostKnown = 1024;                    // events that a repetition may be merged into
constexpr std::size_t kLongestEventName = 253;
constexpr std::string_view kComponent = "tranche.io/node";

// A retry may succeed. A forbidden request is retried only with the next event.
bool is_retryable(int status) {
  return status == 0 || status == 401 || status == 408 || status == 429 || status >= 500;
}

std::string name_of(const ObjectRef& about) {
  return about.object_namespace.empty() ? about.kind + " " + about.name
                                        : about.kind + " " + about.object_namespace + "/" + about.name;
}

// The object's own; "default" for a node (as kubelet does).
std::string event_namespace(const ObjectRef& about) {
  return about.object_namespace.empty() ? "default" : about.object_namespace;
}

}  // namespace

std::string class_of_message(std::string_view message) {
  std::string out;
  std::size_t at = 0;
  while (at < message.size()) {
    const auto end = std::min(message.find_first_of(" \t\n,;:()[]", at), message.size());
    const auto word = message.substr(at, end - at);
    const bool number = !word.empty() && word[0] >= '0' && word[0] <= '9' && word.find('-') == std::string_view::npos;
    out += number ? "#" : std::string(word);
    if (end < message.size()) out += message[end];
    at = end + 1;
  }
  return out;
}

EventQueue::EventQueue(EventSettings settings)
    : settings_(std::move(settings)),
      backoff_(std::chrono::milliseconds(500), std::chrono::seconds(30), settings_.seed) {}

MonoTime EventQueue::allowed(const ObjectRef& about) const {
  const auto own = spent_until_.find(about);
  return own == spent_until_.end() ? MonoTime{} : own->second - (kBurst - 1) * kEvery;
}

void EventQueue::emit(const ObjectRef& about, const Reason& reason, const std::string& text, MonoTime now,
                      WallTime wall) {
  ++report_.emitted;
  const std::string message = cut_text(text, kLongestMessage);
  const Key key(about, std::string(reason.name), class_of_message(message));
  const auto at = entries_.find(key);
  if (at != entries_.end() && (at->second.waiting || now - at->second.used < kSameWithin)) {
    Entry& entry = at->second;
    ++entry.count;
    entry.last = wall;
    entry.message = message;
    entry.used = now;
    if (entry.waiting) return;
    entry.waiting = true;
  } else {
    entries_.insert_or_assign(
        key, Entry{.warning = reason.warning, .message = message, .first = wall, .last = wall, .used = now});
  }
  queue_.push_back(key);
  if (queue_.size() > settings_.most_waiting) {
    const Key oldest = queue_.front();
    drop(oldest, "too many wait");
  }
  forget_old(now);
}

void EventQueue::drop(const Key& key, const char* why) {
  ++report_.dropped;
  report_.last_dropped = fmt::format("{} {}: {}", name_of(std::get<0>(key)), std::get<1>(key), why);
  std::erase(queue_, key);
  entries_.erase(key);
}

void EventQueue::forget_old(MonoTime now) {
  if (entries_.size() > kMostKnown) {
    auto oldest = entries_.end();
    for (auto it = entries_.begin(); it != entries_.end(); ++it)
      if (!it->second.waiting && (oldest == entries_.end() || it->second.used < oldest->second.used)) oldest = it;
    if (oldest != entries_.end()) entries_.erase(oldest);
  }
  if (spent_until_.size() > kMostKnown)
    std::erase_if(spent_until_, [now](const auto& entry) { return entry.second <= now; });
}

std::optional<EventCall> EventQueue::take(MonoTime now) {
  if (const auto due = next(now); !due || *due > now) return std::nullopt;
  wait_until_.reset();
  const Key key = *std::ranges::find_if(queue_, [&](const Key& each) { return allowed(std::get<0>(each)) <= now; });
  const ObjectRef& about = std::get<0>(key);
  for (auto [until, every] : {std::pair(&all_spent_until_, kEveryOfAll), std::pair(&spent_until_[about], kEvery)})
    *until = std::max(*until, now) + every;
  Entry& entry = entries_[key];
  EventCall call{!entry.created, "/api/v1/namespaces/" + event_namespace(about) + "/events", {}};
  if (call.create) {
    if (entry.name.empty()) {
      const std::string salt = fmt::format("{}/{}/{}/{}/{}", about.uid, std::get<1>(key), entry.message,
                                           entry.first.time_since_epoch().count(), settings_.seed + ++named_);
      entry.name = about.name.substr(0, kLongestEventName - 17) + "." + hex16(stable_hash(salt));
    }
    call.body = body_of(key, entry);
  } else {
    call.path += "/" + entry.name;
    call.body =
        json_text(Json{{"count", entry.count}, {"lastTimestamp", utc_seconds(entry.last)}, {"message", entry.message}});
  }
  entry.waiting = false;  // a repetition that arrives meanwhile waits for its own request
  std::erase(queue_, key);
  under_way_ = key;
  return call;
}

std::string EventQueue::body_of(const Key& key, const Entry& entry) const {
  const auto& [object, reason, message_class] = key;
  const bool claim = object.kind == "ResourceClaim";
  Json about{{"apiVersion", claim ? "resource.k8s.io/v1" : "v1"},
             {"kind", object.kind},
             {"name", object.name},
             {"uid", object.uid}};
  if (!object.object_namespace.empty()) about["namespace"] = object.object_namespace;
  return json_text(Json{{"apiVersion", "v1"},
                        {"kind", "Event"},
                        {"metadata", {{"name", entry.name}, {"namespace", event_namespace(object)}}},
                        {"involvedObject", std::move(about)},
                        {"type", entry.warning ? "Warning" : "Normal"},
                        {"reason", reason},
                        {"message", entry.message},
                        {"count", entry.count},
                        {"firstTimestamp", utc_seconds(entry.first)},
                        {"lastTimestamp", utc_seconds(entry.last)},
                        {"source", {{"component", kComponent}, {"host", settings_.node}}},
                        {"reportingComponent", kComponent},
                        {"reportingInstance", settings_.node}});
}

void EventQueue::done(int http_status, const std::string& why, MonoTime now) {
  if (!under_way_) return;
  const Key key = *std::exchange(under_way_, std::nullopt);
  const auto at = entries_.find(key);
  if (at == entries_.end()) return;
  Entry& entry = at->second;
  // A conflict: the event with this name is from an earlier attempt whose response was lost.
  const bool taken = http_status >= 200 && http_status < 300;
  if (taken || (!entry.created && http_status == http::kConflict)) {
    entry.created = true;
    ++report_.sent;
    report_.problem.clear();
    backoff_.reset();
    return;
  }
  report_.problem = why;
  if (entry.created && http_status == http::kNotFound) {  // it has expired meanwhile: create it again
    entry.created = false;
    entry.name.clear();
    entry.first = entry.last;
    entry.count = 1;
  } else if (!is_retryable(http_status)) {
    if (!entry.waiting) drop(key, "the API server refuses it");
    return;
  }
  if (!entry.waiting) queue_.push_front(key);
  entry.waiting = true;
  wait_until_ = now + backoff_.next();
}

std::optional<MonoTime> EventQueue::next(MonoTime now) const {
  if (under_way_ || queue_.empty()) return std::nullopt;
  MonoTime first = MonoTime::max();
  for (const Key& key : queue_) first = std::min(first, allowed(std::get<0>(key)));
  return std::max({now, first, all_spent_until_ - (kBurstOfAll - 1) * kEveryOfAll, wait_until_.value_or(now)});
}

}  // namespace tranche::kube
