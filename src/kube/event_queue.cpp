#include "kube/event_queue.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/utf8.h"
#include "kube/api_status.h"

namespace tranche::kube {
namespace {

bool is_taken(int status) {
  return status >= 200 && status < 300;
}

// A retry may succeed. A forbidden request is retried only with the next event.
bool is_retryable(int status) {
  return status == 0 || status == 401 || status == 408 || status == 429 || status >= 500;
}

std::string name_of(const ObjectRef& about) {
  return about.object_namespace.empty() ? about.kind + " " + about.name
                                        : about.kind + " " + about.object_namespace + "/" + about.name;
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
      all_{settings_.all_per_second, MonoTime::min()},
      backoff_(std::chrono::milliseconds(500), std::chrono::seconds(30), settings_.seed) {}

void EventQueue::fill(Bucket& bucket, double most, double per_second, MonoTime now) {
  if (bucket.filled == MonoTime::min() || now < bucket.filled) bucket.filled = now;
  const std::chrono::duration<double> passed = now - bucket.filled;
  bucket.tokens = std::min(most, bucket.tokens + passed.count() * per_second);
  bucket.filled = now;
}

EventQueue::Bucket& EventQueue::bucket_of(const ObjectRef& about, MonoTime now) {
  return buckets_.try_emplace(about, Bucket{settings_.burst, now}).first->second;
}

Duration EventQueue::until_token(const Bucket& bucket, double most, double per_second, MonoTime now) const {
  Bucket copy = bucket;
  fill(copy, most, per_second, now);
  if (copy.tokens >= 1) return Duration::zero();
  return std::chrono::ceil<Duration>(std::chrono::duration<double>((1 - copy.tokens) / per_second));
}

void EventQueue::emit(const ObjectRef& about, const Reason& reason, const std::string& text, MonoTime now,
                      WallTime wall) {
  ++report_.emitted;
  const std::string message = cut_text(text, kLongestMessage);
  const Key key(about, std::string(reason.name), class_of_message(message));
  const auto at = entries_.find(key);
  if (at != entries_.end() && (at->second.waiting || now - at->second.used < settings_.same_within)) {
    Entry& entry = at->second;
    ++entry.event.count;
    entry.event.last = wall;
    entry.event.message = message;
    entry.used = now;
    if (entry.waiting) return;
    entry.waiting = true;
  } else {
    entries_.insert_or_assign(
        key, Entry{{about, reason.warning, std::string(reason.name), message, 1, wall, wall}, "", false, true, now});
  }
  queue_.push_back(key);
  if (queue_.size() > settings_.most_waiting) {
    const Key oldest = queue_.front();
    drop(oldest, "too many wait");
  }
  forget_old(now);
  report_.waiting = queue_.size();
}

void EventQueue::drop(const Key& key, const char* why) {
  ++report_.dropped;
  report_.last_dropped = fmt::format("{} {}: {}", name_of(std::get<0>(key)), std::get<1>(key), why);
  std::erase(queue_, key);
  entries_.erase(key);
  report_.waiting = queue_.size();
}

void EventQueue::forget_old(MonoTime now) {
  if (entries_.size() > settings_.most_known) {
    auto oldest = entries_.end();
    for (auto it = entries_.begin(); it != entries_.end(); ++it)
      if (!it->second.waiting && (oldest == entries_.end() || it->second.used < oldest->second.used)) oldest = it;
    if (oldest != entries_.end()) entries_.erase(oldest);
  }
  if (buckets_.size() <= settings_.most_known) return;
  std::erase_if(buckets_, [&](const auto& entry) {  // a full bucket equals none
    Bucket bucket = entry.second;
    fill(bucket, settings_.burst, per_object_second(), now);
    return bucket.tokens >= settings_.burst;
  });
}

double EventQueue::per_object_second() const {
  return 1 / std::chrono::duration<double>(settings_.every).count();
}

std::optional<EventCall> EventQueue::take(MonoTime now) {
  if (under_way_ || queue_.empty() || (wait_until_ && now < *wait_until_)) return std::nullopt;
  wait_until_.reset();
  fill(all_, settings_.all_per_second, settings_.all_per_second, now);
  if (all_.tokens < 1) return std::nullopt;
  const auto due = std::ranges::find_if(queue_, [&](const Key& key) {
    Bucket& bucket = bucket_of(std::get<0>(key), now);
    fill(bucket, settings_.burst, per_object_second(), now);
    return bucket.tokens >= 1;
  });
  if (due == queue_.end()) return std::nullopt;
  const Key key = *due;
  all_.tokens -= 1;
  bucket_of(std::get<0>(key), now).tokens -= 1;
  Entry& entry = entries_[key];
  EventCall call{!entry.created, {}, {}};
  call.path = "/api/v1/namespaces/" + event_namespace(entry.event.about) + "/events";
  if (call.create) {
    if (entry.name.empty()) entry.name = event_name(entry.event, settings_.seed + ++named_);
    call.body = event_body(entry.event, entry.name, settings_.node);
  } else {
    call.path += "/" + entry.name;
    call.body = event_patch(entry.event);
  }
  entry.waiting = false;  // a repetition that arrives meanwhile waits for its own request
  std::erase(queue_, key);
  under_way_ = UnderWay{call.create, key};
  report_.waiting = queue_.size();
  return call;
}

void EventQueue::done(int http_status, const std::string& why, MonoTime now) {
  if (!under_way_) return;
  const UnderWay call = *std::move(under_way_);
  under_way_.reset();
  const auto at = entries_.find(call.key);
  if (at == entries_.end()) return;
  Entry& entry = at->second;
  // A conflict: the event with this name is from an earlier attempt whose response was lost.
  if (is_taken(http_status) || (call.create && http_status == http::kConflict)) {
    entry.created = true;
    ++report_.sent;
    report_.problem.clear();
    backoff_.reset();
    return;
  }
  report_.problem = why;
  if (!call.create && http_status == http::kNotFound) {  // it has expired meanwhile: create it again
    entry.created = false;
    entry.name.clear();
    entry.event.first = entry.event.last;
    entry.event.count = 1;
  } else if (!is_retryable(http_status)) {
    if (!entry.waiting) drop(call.key, "the API server refuses it");
    return;
  }
  if (!entry.waiting) queue_.push_front(call.key);
  entry.waiting = true;
  report_.waiting = queue_.size();
  wait_until_ = now + backoff_.next();
}

std::optional<MonoTime> EventQueue::next(MonoTime now) const {
  if (under_way_ || queue_.empty()) return std::nullopt;
  Duration wait = Duration::max();
  for (const Key& key : queue_) {
    const auto bucket = buckets_.find(std::get<0>(key));
    wait = std::min(wait, bucket == buckets_.end()
                              ? Duration::zero()
                              : until_token(bucket->second, settings_.burst, per_object_second(), now));
  }
  wait = std::max(wait, until_token(all_, settings_.all_per_second, settings_.all_per_second, now));
  return std::max(now + wait, wait_until_.value_or(now));
}

}  // namespace tranche::kube
