#include "health/health.h"

#include <fmt/format.h>

#include <algorithm>

namespace tranche::health {

void Book::xid(const std::string& gpu, std::uint64_t xid, MonoTime now) {
  const std::string key = gpu.empty() ? kAnyGpu : gpu;
  ++counts_[{key, xid}];
  const XidClass cls = classify_xid(xid);
  if (cls == XidClass::kIgnore) return;
  Fault& fault = open_[key];
  if (fault.cls != XidClass::kReset) {  // the worse class stays; a repeat starts the quiet period again
    fault.cls = cls;
    fault.xid = xid;
  }
  fault.since = now;
  tell();
}

void Book::lost(const std::string& gpu, MonoTime now) {
  Fault& fault = open_[gpu.empty() ? kAnyGpu : gpu];
  fault.lost = true;
  fault.since = now;
  tell();
}

void Book::back(const std::string& gpu, MonoTime) {
  open_.erase(gpu.empty() ? kAnyGpu : gpu);
  tell();
}

void Book::advance(MonoTime now) {
  const auto before = open_.size();
  std::erase_if(open_, [&](const auto& entry) {
    const Fault& fault = entry.second;
    return !fault.lost && fault.cls == XidClass::kDrain && now - fault.since >= settings_.quiet_period;
  });
  if (open_.size() != before) tell();
}

std::optional<MonoTime> Book::next_change() const {
  std::optional<MonoTime> next;
  for (const auto& [gpu, fault] : open_) {
    if (fault.lost || fault.cls != XidClass::kDrain) continue;
    const MonoTime at = fault.since + settings_.quiet_period;
    next = next ? std::min(*next, at) : at;
  }
  return next;
}

void Book::tell() {
  reasons_.clear();
  const auto minutes = std::chrono::duration_cast<std::chrono::minutes>(settings_.quiet_period).count();
  for (const auto& [gpu, fault] : open_) {
    if (fault.lost) {
      reasons_[gpu] = "the GPU does not answer the driver (lost); reset it or reboot the node";
    } else if (fault.cls == XidClass::kReset) {
      reasons_[gpu] = fmt::format("XID {}: the GPU needs a reset; drain its pods, then reset it", fault.xid);
    } else {
      reasons_[gpu] =
          fmt::format("XID {}: takes no new pods until {} minutes pass without another", fault.xid, minutes);
    }
  }
}

}  // namespace tranche::health
