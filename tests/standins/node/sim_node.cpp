#include "sim_node.h"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <span>

#include "base/text.h"
#include "node_setup.h"
#include "state_file.h"

namespace tranche::sim {
namespace {

constexpr int kForever = 24 * 60 * 60 * 1000;  // ms; a hang "until cleared" ends after a day

std::int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

ProcessRow to_row(const ProcessSlot& slot) {
  ProcessRow row;
  row.pid = slot.pid;
  row.gpu = slot.gpu;
  row.kind = static_cast<ProcessKind>(slot.kind);
  row.bytes = slot.bytes;
  row.sms = slot.sms;
  row.gpu_instance = slot.gpu_instance;
  row.compute_instance = slot.compute_instance;
  row.utilization = slot.utilization;
  return row;
}

class MappedNode final : public Node {
 public:
  explicit MappedNode(std::unique_ptr<StateFile> file) : file_(std::move(file)), state_(file_->state()) {}

  std::string driver_version() const override {
    const Locked lock(state_);
    return state_.driver.str();
  }
  int cuda_version() const override {
    const Locked lock(state_);
    return state_.cuda;
  }
  void set_driver_version(const std::string& version, int cuda) override {
    const Locked lock(state_);
    state_.driver = version;
    if (cuda != 0) state_.cuda = cuda;
  }
  std::string topology() const override { return state_.topology.str(); }
  std::string proc_root() const override { return state_.proc_root.str(); }
  bool require_root() const override { return state_.require_root != 0; }

  bool driver_present() const override {
    const Locked lock(state_);
    return state_.driver_present != 0;
  }

  void set_driver_present(bool present) override {
    {
      const Locked lock(state_);
      state_.driver_present = present ? 1 : 0;
    }
    wake_all(state_);
  }

  std::vector<GpuProperties> gpus() const override {
    std::vector<GpuProperties> properties;  // immutable, so they need no lock
    for (const GpuState& gpu : all()) {
      properties.push_back({gpu.uuid.str(), gpu.profile.name.str(), gpu.bus_id.str(), gpu.minor, gpu.profile.sm_count,
                            gpu.profile.memory_total, gpu.profile.memory_reserved, gpu.profile.cc_major,
                            gpu.profile.cc_minor});
    }
    return properties;
  }

  int find_gpu(const std::string& wanted) const override {
    if (const auto index = parse_unsigned(wanted)) {
      return *index < state_.gpu_count ? static_cast<int>(*index) : -1;
    }
    int found = -1;
    constexpr std::size_t kShortest = 5;  // "GPU-" alone is ambiguous
    for (int i = 0; i < count() && wanted.size() >= kShortest; ++i) {
      if (!state_.gpus[i].uuid.view().starts_with(wanted)) continue;
      if (found >= 0) return -1;  // the prefix matches two
      found = i;
    }
    // A PCI address in the driver's format ("00000000:1B:00.0") or the kernel's ("0000:1b:00.0").
    constexpr std::size_t kKernels = 12;
    const auto same = [](char a, char b) { return to_lower(a) == to_lower(b); };
    for (int i = 0; i < count() && found < 0 && wanted.size() >= kKernels; ++i) {
      const auto address = state_.gpus[i].bus_id.view();
      if (std::ranges::equal(address.substr(address.size() - std::min(address.size(), wanted.size())), wanted, same))
        found = i;
    }
    return found;
  }

  int compute_mode(int gpu) const override {
    if (!has(gpu)) return 0;
    const Locked lock(state_);
    return state_.gpus[gpu].compute_mode;
  }

  void set_compute_mode(int gpu, int mode) override {
    update_gpu(gpu, [mode](GpuState& state) { state.compute_mode = mode; });
  }

  bool attach(pid_t pid, int gpu, ProcessKind kind, std::uint32_t sms) override {
    const std::uint64_t started = process_start(pid);
    if (!has(gpu) || started == 0) return false;
    const Locked lock(state_);
    ProcessSlot* slot = find(pid, gpu);
    if (slot != nullptr && slot->started != started) slot->pid = 0;  // an earlier process had this pid
    if (slot == nullptr || slot->pid == 0) slot = claim(pid, gpu, started);
    if (slot == nullptr) return false;
    slot->kind = static_cast<std::uint32_t>(kind);
    slot->sms = sms;
    slot->pid = pid;
    return true;
  }

  bool charge(pid_t pid, int gpu, std::int64_t bytes) override {
    if (!has(gpu)) return false;
    const Locked lock(state_);
    prune();
    ProcessSlot* slot = find(pid, gpu);
    if (slot == nullptr) return false;
    if (bytes < 0) {
      slot->bytes -= std::min(slot->bytes, static_cast<std::uint64_t>(-bytes));
      return true;
    }
    const auto more = static_cast<std::uint64_t>(bytes);
    if (more > room_for(*slot)) return false;
    slot->bytes += more;
    return true;
  }

  void detach(pid_t pid, int gpu) override {
    const Locked lock(state_);
    if (ProcessSlot* slot = find(pid, gpu)) slot->pid = 0;
  }

  std::vector<ProcessRow> processes(int gpu) const override {
    std::vector<ProcessRow> rows;
    {
      const Locked lock(state_);
      prune(gpu);
      for (const auto& slot : state_.processes) {
        if (slot.pid != 0 && slot.gpu == gpu) rows.push_back(to_row(slot));
      }
    }
    std::ranges::sort(rows, {}, &ProcessRow::pid);
    return rows;
  }

  std::uint64_t memory_used(int gpu) const override {
    if (!has(gpu)) return 0;
    const Locked lock(state_);
    prune();
    return used(gpu);
  }

  void raise(EventRow event) override {
    {
      const Locked lock(state_);
      event.sequence = state_.newest_event + 1;
      state_.events[event.sequence % kEventRing] = event;
      state_.newest_event = event.sequence;
    }
    wake_all(state_);
  }

  bool wait_event(std::uint64_t after, int timeout_ms, EventRow* event) const override {
    const std::int64_t deadline = now_ns() + std::int64_t{timeout_ms} * 1'000'000;
    for (;;) {
      const std::uint32_t seen = changes();
      if (const auto found = next_event(after)) {
        if (event != nullptr) *event = *found;
        return true;
      }
      const std::int64_t left = deadline - now_ns();
      if (left <= 0) return false;
      wait_for_wake(state_, seen, left);
    }
  }

  std::uint64_t newest_event() const override {
    const Locked lock(state_);
    return state_.newest_event;
  }

  std::optional<EventRow> next_event(std::uint64_t after) const override {
    const Locked lock(state_);
    const std::uint64_t newest = state_.newest_event;
    if (newest <= after) return std::nullopt;
    const std::uint64_t oldest = newest >= kEventRing ? newest - kEventRing + 1 : 1;
    return state_.events[std::max(after + 1, oldest) % kEventRing];
  }

  GpuState gpu_state(int gpu) const override {
    if (!has(gpu)) return {};
    const Locked lock(state_);
    return state_.gpus[gpu];
  }

  bool update_gpu(int gpu, const std::function<void(GpuState&)>& change) override {
    if (!has(gpu)) return false;
    {
      const Locked lock(state_);
      change(state_.gpus[gpu]);
    }
    wake_all(state_);
    return true;
  }

  bool add_made_up_process(const ProcessRow& row) override {
    if (!has(row.gpu) || row.pid <= 0) return false;
    const Locked lock(state_);
    ProcessSlot* slot = find(row.pid, row.gpu);
    if (slot == nullptr) slot = claim(row.pid, row.gpu, 0);
    if (slot == nullptr) return false;
    slot->kind = static_cast<std::uint32_t>(row.kind);
    slot->bytes = row.bytes;
    slot->sms = row.sms;
    slot->gpu_instance = row.gpu_instance;
    slot->compute_instance = row.compute_instance;
    slot->utilization = row.utilization;
    slot->pid = row.pid;
    return true;
  }

  bool place_in_instance(pid_t pid, int gpu, std::uint32_t gpu_instance, std::uint32_t compute_instance) override {
    const Locked lock(state_);
    ProcessSlot* slot = find(pid, gpu);
    if (slot == nullptr) return false;
    slot->gpu_instance = gpu_instance;
    slot->compute_instance = compute_instance;
    return true;
  }

  bool add_fault(const Fault& fault) override {
    {
      const Locked lock(state_);
      std::uint32_t used_count = state_.fault_count.load();
      std::uint32_t place = 0;
      while (place < used_count &&
             !(state_.faults[place].call.view() == fault.call.view() && state_.faults[place].gpu == fault.gpu)) {
        ++place;
      }
      if (place == kMaxFaults) return false;
      used_count = std::max(used_count, place + 1);
      state_.faults[place] = fault;
      state_.fault_count.store(used_count);
    }
    wake_all(state_);
    return true;
  }

  void clear_faults() override {
    {
      const Locked lock(state_);
      state_.fault_count.store(0);
    }
    wake_all(state_);
  }

  std::vector<Fault> faults() const override {
    const Locked lock(state_);
    return {state_.faults, state_.faults + state_.fault_count.load()};
  }

  std::optional<Fault> fault_for(std::string_view call, int gpu) const override {
    if (state_.fault_count.load(std::memory_order_acquire) == 0) return std::nullopt;
    const Locked lock(state_);
    for (Fault& fault : std::span(state_.faults, state_.fault_count.load())) {
      if (!fits(fault.call.view(), call) || (fault.gpu >= 0 && fault.gpu != gpu)) continue;
      if (fault.skip == kSpent) continue;
      if (fault.skip > 0) {
        --fault.skip;
        continue;
      }
      const Fault met = fault;
      if (fault.times > 0 && --fault.times == 0) fault.skip = kSpent;
      return met;
    }
    return std::nullopt;
  }

  std::optional<std::uint32_t> suffer(const Fault& fault) const override {
    if (fault.kind == FaultKind::kFail) return fault.value;
    if (fault.kind == FaultKind::kKill) ::raise(SIGKILL);
    if (fault.kind != FaultKind::kHang) return std::nullopt;  // handled by the library itself
    const std::int64_t limit = fault.value == 0 ? kForever : static_cast<std::int64_t>(fault.value);
    const std::int64_t deadline = now_ns() + limit * 1'000'000;
    for (;;) {
      const std::uint32_t seen = changes();
      const std::int64_t left = deadline - now_ns();
      if (!still_set(fault) || left <= 0) return std::nullopt;
      wait_for_wake(state_, seen, left);
    }
  }

  std::uint32_t changes() const override { return state_.wake.load(std::memory_order_acquire); }

  void wait_change(std::uint32_t seen, int timeout_ms) const override {
    wait_for_wake(state_, seen, std::int64_t{timeout_ms} * 1'000'000);
  }

  void wake_waiters() override { wake_all(state_); }

 private:
  static constexpr std::uint32_t kSpent = 0xffffffff;  // in Fault::skip: the fault has been used up

  static bool fits(std::string_view wanted, std::string_view call) {
    if (wanted.ends_with('*')) return call.starts_with(wanted.substr(0, wanted.size() - 1));
    return wanted == call || call.starts_with(std::string(wanted) + "_v");
  }
  bool still_set(const Fault& fault) const {
    return std::ranges::any_of(faults(), [&](const Fault& one) {
      return one.kind == fault.kind && one.gpu == fault.gpu && one.call.view() == fault.call.view();
    });
  }
  int count() const { return static_cast<int>(state_.gpu_count); }
  bool has(int gpu) const { return gpu >= 0 && gpu < count(); }
  std::span<const GpuState> all() const { return {state_.gpus, state_.gpu_count}; }

  // The functions below need the lock.
  ProcessSlot* find(pid_t pid, int gpu) const {
    for (auto& slot : state_.processes) {
      if (slot.pid != 0 && slot.pid == pid && slot.gpu == gpu) return &slot;
    }
    return nullptr;
  }

  // A row whose pid is still 0, so that a death in between leaves it free.
  ProcessSlot* claim(pid_t, int gpu, std::uint64_t started) const {
    prune();
    for (auto& slot : state_.processes) {
      if (slot.pid != 0) continue;
      slot = ProcessSlot{};
      slot.gpu = gpu;
      slot.started = started;
      slot.pid_namespace = own_pid_namespace();
      slot.gpu_instance = slot.compute_instance = kWholeGpu;
      return &slot;
    }
    return nullptr;
  }

  // Rows of another PID namespace are left to it: here their pids refer to other processes, or none.
  void prune(int gpu = -1) const {  // of one GPU, or of all
    const std::uint64_t own = own_pid_namespace();
    const auto is_dead = [own, gpu](const ProcessSlot& slot) {
      return slot.pid != 0 && slot.pid_namespace == own && (gpu < 0 || slot.gpu == gpu) && slot.started != 0 &&
             process_start(slot.pid) != slot.started;
    };
    const auto is = [](const ProcessSlot& slot, ProcessKind kind) {
      return slot.kind == static_cast<std::uint32_t>(kind);
    };
    for (auto& slot : state_.processes)
      if (!is(slot, ProcessKind::kMpsClient) && is_dead(slot)) slot.pid = 0;
    for (auto& slot : state_.processes) {
      if (!is(slot, ProcessKind::kMpsClient) || !is_dead(slot)) continue;
      const bool has_server = std::ranges::any_of(state_.processes, [&](const ProcessSlot& other) {
        return other.pid != 0 && other.gpu == slot.gpu && is(other, ProcessKind::kMpsServer);
      });
      if (!has_server) slot.pid = 0;
    }
  }

  std::uint64_t used(int gpu) const {
    std::uint64_t sum = state_.gpus[gpu].profile.memory_reserved + state_.gpus[gpu].extra_bytes;
    for (const auto& slot : state_.processes) {
      if (slot.pid != 0 && slot.gpu == gpu) sum += slot.bytes;
    }
    return std::min(sum, state_.gpus[gpu].profile.memory_total);
  }

  std::uint64_t room_for(const ProcessSlot& wanting) const {
    const GpuState& gpu = state_.gpus[wanting.gpu];
    std::uint64_t room = gpu.profile.memory_total - used(wanting.gpu);
    if (wanting.gpu_instance == kWholeGpu) return room;
    for (const auto& gi : gpu.instances) {
      if (gi.used == 0 || gi.id != wanting.gpu_instance) continue;
      std::uint64_t own = std::uint64_t{gpu.profile.mig.profiles[gi.profile].memory_mib} << 20;
      for (const auto& slot : state_.processes) {
        const bool inside = slot.pid != 0 && slot.gpu == wanting.gpu && slot.gpu_instance == gi.id;
        if (inside) own -= std::min(own, slot.bytes);
      }
      room = std::min(room, own);
    }
    return room;
  }

  std::unique_ptr<StateFile> file_;
  State& state_;
};

}  // namespace

std::expected<std::unique_ptr<Node>, std::string> Node::open(const std::string& dir) {
  std::string place = dir;
  if (place.empty()) {
    const char* named = std::getenv(kNodeVariable);
    if (named == nullptr || *named == '\0') {
      return std::unexpected(std::string("$") + kNodeVariable +
                             " names no simulated node; make one with sim-node init DIR and set it to DIR");
    }
    place = named;
  }
  auto file = StateFile::open(place, [&place](State& state) { return fill_from_yaml(place, state); });
  if (!file) return std::unexpected(file.error());
  return std::make_unique<MappedNode>(*std::move(file));
}

}  // namespace tranche::sim
