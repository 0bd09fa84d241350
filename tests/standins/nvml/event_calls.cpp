// Event sets. A wait sleeps on the node's change word, so that an event raised by any process ends it at once.
#include <algorithm>
#include <array>
#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <optional>

#include "session.h"

namespace tranche::sim::nvml {

struct EventSetBody {
  struct Registration {
    u64 mask = 0;
    std::uint64_t after = 0;  // only events raised after the registration are delivered
  };
  std::mutex mutex;
  std::array<Registration, kMaxGpus> gpus;
  std::uint64_t seen = 0;  // delivered or skipped up to here
};

namespace {

constexpr u64 kSupported = 0xff9f;

// The caller's pointer is only an identifier: one thread may free the object while another waits.
class EventSets {
 public:
  EventSet add(std::shared_ptr<EventSetBody> body) {
    const std::scoped_lock lock(mutex_);
    EventSet name = body.get();
    sets_[name] = std::move(body);
    return name;
  }
  std::shared_ptr<EventSetBody> find(EventSet name) {
    const std::scoped_lock lock(mutex_);
    const auto found = sets_.find(name);
    return found == sets_.end() ? nullptr : found->second;
  }
  bool remove(EventSet name) {
    const std::scoped_lock lock(mutex_);
    return sets_.erase(name) == 1;
  }
  void clear() {
    const std::scoped_lock lock(mutex_);
    sets_.clear();
  }

 private:
  std::mutex mutex_;
  std::map<EventSet, std::shared_ptr<EventSetBody>> sets_;
};

EventSets& event_sets() {
  static auto* const sets = new EventSets;  // exists as long as the process, like the session
  return *sets;
}

u64 mask_of(EventKind kind) {
  switch (kind) {
    case EventKind::kEccSingle:
      return 0x1;
    case EventKind::kEccDouble:
      return 0x2;
    case EventKind::kXid:
      return 0x8;
    case EventKind::kClock:
      return 0x10;
    case EventKind::kMigChange:
      return 0x100;
    case EventKind::kGpuUnavailable:
      return 0x4000;
    case EventKind::kRecoveryAction:
      return 0x8000;
  }
  return 0;
}

bool any_lost(const Node& node, EventSetBody& set) {
  const std::scoped_lock lock(set.mutex);
  for (int gpu = 0; gpu < kMaxGpus; ++gpu) {
    if (set.gpus[static_cast<std::size_t>(gpu)].mask == 0) continue;
    const GpuState state = node.gpu_state(gpu);
    if (state.lost != 0 || state.unplugged != 0) return true;
  }
  return false;
}

std::optional<EventRow> next_wanted(const Node& node, EventSetBody& set) {
  const std::scoped_lock lock(set.mutex);
  while (const auto event = node.next_event(set.seen)) {
    set.seen = event->sequence;
    if (event->gpu < 0 || event->gpu >= kMaxGpus) continue;
    const auto& wanted = set.gpus[static_cast<std::size_t>(event->gpu)];
    if ((wanted.mask & mask_of(event->kind)) != 0 && event->sequence > wanted.after) return event;
  }
  return std::nullopt;
}

void put_event(const EventRow& event, EventData& data, bool with_instances) {
  data.device = gpu_handle(event.gpu);
  data.type = mask_of(event.kind);
  data.data = event.kind == EventKind::kXid ? event.data : 0;
  if (!with_instances) return;
  data.gpu_instance_id = event.gpu_instance;
  data.compute_instance_id = event.compute_instance;
}

Return wait(std::string_view name, EventSet name_of_set, EventData* data, u32 timeout_ms, bool with_instances) {
  const Call call(name);
  if (call.refusal() != kSuccess) return call.refusal();
  const auto set = event_sets().find(name_of_set);
  if (set == nullptr || data == nullptr) return kInvalidArgument;
  using Clock = std::chrono::steady_clock;
  const auto deadline = Clock::now() + std::chrono::milliseconds(timeout_ms);
  for (;;) {
    const std::uint32_t changes = call.node().changes();
    if (session_node() == nullptr) return kUninitialized;  // another thread shut the library down
    if (any_lost(call.node(), *set)) return kGpuIsLost;
    if (const auto event = next_wanted(call.node(), *set)) {
      put_event(*event, *data, with_instances);
      return kSuccess;
    }
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
    if (left <= 0) return kTimeout;
    constexpr std::int64_t kLongest = 1'000'000'000;
    call.node().wait_change(changes, static_cast<int>(std::min<std::int64_t>(left, kLongest)));
  }
}

}  // namespace

void forget_event_sets() {
  event_sets().clear();
}

NVML Return nvmlEventSetCreate(EventSet* set) {
  const Call call(__func__);
  if (call.refusal() != kSuccess) return call.refusal();
  if (set == nullptr) return kInvalidArgument;
  auto body = std::make_shared<EventSetBody>();
  body->seen = call.node().newest_event();
  *set = event_sets().add(std::move(body));
  return kSuccess;
}

NVML Return nvmlEventSetFree(EventSet set) {
  const Call call(__func__);
  if (call.refusal() != kSuccess) return call.refusal();
  return event_sets().remove(set) ? kSuccess : kInvalidArgument;
}

NVML Return nvmlDeviceGetSupportedEventTypes(Device device, u64* types) {
  return answer(__func__, device, Accept::kGpu, types, [](const Call&, u64& out) { out = kSupported; });
}

NVML Return nvmlDeviceRegisterEvents(Device device, u64 types, EventSet name_of_set) {
  const Call call(__func__, device, Accept::kGpu);  // MIG handles are refused: use the parent's
  if (call.refusal() != kSuccess) return call.refusal();
  const auto set = event_sets().find(name_of_set);
  if (set == nullptr) return kInvalidArgument;
  if ((types & ~kSupported) != 0) return kNotSupported;
  const std::scoped_lock lock(set->mutex);
  auto& registration = set->gpus[static_cast<std::size_t>(call.index())];
  if (registration.mask == 0) registration.after = call.node().newest_event();
  registration.mask |= types;
  return kSuccess;
}

NVML Return nvmlEventSetWait_v2(EventSet set, EventData* data, u32 timeout_ms) {
  return wait(__func__, set, data, timeout_ms, true);
}
NVML Return nvmlEventSetWait(EventSet set, EventData* data, u32 timeout_ms) {
  return wait(__func__, set, data, timeout_ms, false);
}

}  // namespace tranche::sim::nvml
