#pragma once
// The state of one simulated GPU node, shared by all stand-ins that run on it: the driver library, the MPS daemon and
// server, the CUDA processes. It is in a file that all of them map (`$TRANCHE_SIM_NODE/state`), guarded by a robust
// process-shared mutex, so that any of them may be killed at any time without stopping the others. The GPUs come from
// `$TRANCHE_SIM_NODE/node.yaml`, read once when the state is created; afterwards `sim-node` and this API change it.
//
// Rows of dead processes are removed whenever rows are read; that of an MPS client only by its server, or with it: the
// server holds the memory (docs/internals/evidence/mps-handshake.md, "Contexts, and clients that have exited").
// Thread-safe and process-safe.
#include <sys/types.h>

#include <cstdint>
#include <expected>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "node_state.h"

namespace tranche::sim {

inline constexpr int kMaxGpus = 16;
inline constexpr const char* kNodeVariable = "TRANCHE_SIM_NODE";  // names the directory

// Properties that never change while the state exists.
struct GpuProperties {
  std::string uuid;        // "GPU-…"
  std::string name;        // "NVIDIA H200"
  std::string pci_bus_id;  // "00000000:1B:00.0"
  std::uint32_t minor = 0;
  std::uint32_t sm_count = 0;
  std::uint64_t memory_total = 0;     // as NVML reports it
  std::uint64_t memory_reserved = 0;  // held by the driver
  int cc_major = 0;
  int cc_minor = 0;
};

enum class ProcessKind : std::uint32_t { kCompute = 0, kMpsServer = 1, kMpsClient = 2, kGraphics = 3 };
struct ProcessRow {
  pid_t pid = 0;
  int gpu = 0;
  ProcessKind kind = ProcessKind::kCompute;
  std::uint64_t bytes = 0;  // device memory it holds, context included
  std::uint32_t sms = 0;    // SMs it may use; 0 = all
  std::uint32_t gpu_instance = kWholeGpu;
  std::uint32_t compute_instance = kWholeGpu;
  std::uint32_t utilization = 0;  // percent of the GPU, for the driver library's per-process samples
};

enum class EventKind : std::uint32_t {
  kXid = 0,
  kEccSingle = 1,
  kEccDouble = 2,
  kMigChange = 3,
  kClock = 4,
  kGpuUnavailable = 5,
  kRecoveryAction = 6,
};
struct EventRow {
  std::uint64_t sequence = 0;  // grows by one per event
  int gpu = 0;
  EventKind kind = EventKind::kXid;
  std::uint64_t data = 0;  // XID number
  std::uint32_t gpu_instance = 0xffffffff;
  std::uint32_t compute_instance = 0xffffffff;
};

class Node {
 public:
  // dir = "" means $TRANCHE_SIM_NODE. The error is a sentence for people.
  static std::expected<std::unique_ptr<Node>, std::string> open(const std::string& dir = "");
  virtual ~Node() = default;

  virtual std::string driver_version() const = 0;  // "580.159.04"
  virtual int cuda_version() const = 0;            // 13000
  virtual bool driver_present() const = 0;         // false: nvmlInit returns DRIVER_NOT_LOADED
  virtual std::vector<GpuProperties> gpus() const = 0;
  virtual int find_gpu(const std::string& uuid_or_index) const = 0;  // -1 = none; accepts "0", a UUID, a UUID prefix

  virtual int compute_mode(int gpu) const = 0;  // NVML's numbers: 0 default, 2 prohibited, 3 exclusive process
  virtual void set_compute_mode(int gpu, int mode) = 0;

  // A process appears on a GPU, grows or shrinks, and disappears. charge() adds to the memory of (pid, gpu), false if
  // the GPU does not have enough left; negative values release memory.
  virtual bool attach(pid_t pid, int gpu, ProcessKind kind, std::uint32_t sms) = 0;
  virtual bool charge(pid_t pid, int gpu, std::int64_t bytes) = 0;
  virtual void detach(pid_t pid, int gpu) = 0;
  virtual std::vector<ProcessRow> processes(int gpu) const = 0;
  virtual std::uint64_t memory_used(int gpu) const = 0;  // reserved + rows + what sim-node added

  virtual void raise(EventRow event) = 0;  // sequence is filled in
  // Waits up to timeout_ms for an event with a sequence above `after`; wakes immediately when one is raised.
  virtual bool wait_event(std::uint64_t after, int timeout_ms, EventRow* event) const = 0;
  virtual std::uint64_t newest_event() const = 0;

  // The following functions are for the driver library and the `sim-node` tool.
  virtual std::string topology() const = 0;
  // Prefix of /proc/driver/nvidia/capabilities, which the library writes like the kernel module; "" = not written.
  virtual std::string proc_root() const = 0;
  virtual bool require_root() const = 0;
  virtual GpuState gpu_state(int gpu) const = 0;  // a copy; all zero for an unknown GPU
  // Changes a GPU under the lock; `change` must be short and must not call Node. Wakes waiters. false = unknown GPU.
  virtual bool update_gpu(int gpu, const std::function<void(GpuState&)>& change) = 0;
  virtual void set_driver_present(bool present) = 0;
  // Replaces the driver: the library reports it at its next start. 0 = CUDA version unchanged.
  virtual void set_driver_version(const std::string& version, int cuda) = 0;

  // Adds a row for a process that need not exist: never removed. Replaces the row of the same pid and GPU.
  virtual bool add_made_up_process(const ProcessRow& row) = 0;
  // Moves an attached process to a MIG instance, which then limits its memory.
  virtual bool place_in_instance(pid_t pid, int gpu, std::uint32_t gpu_instance, std::uint32_t compute_instance) = 0;

  virtual bool add_fault(const Fault& fault) = 0;  // replaces the one of the same call and GPU; false = table full
  virtual void clear_faults() = 0;
  virtual std::vector<Fault> faults() const = 0;
  // The fault that applies to this call; gpu = -1 for calls without a GPU. A fault named "nvmlInit" applies to
  // nvmlInit_v2 too. Cheap while there are none. Counts the call: a fault may skip some calls, and end after others.
  virtual std::optional<Fault> fault_for(std::string_view call, int gpu) const = 0;
  // Applies the fault to the caller: returns the code to return, or nothing after the hang.
  virtual std::optional<std::uint32_t> suffer(const Fault& fault) const = 0;

  // A number that grows with every event, loss, fault and change of driver; wait_change() sleeps up to timeout_ms until
  // it differs from `seen`, and may return early.
  virtual std::uint32_t changes() const = 0;
  virtual void wait_change(std::uint32_t seen, int timeout_ms) const = 0;
  virtual void wake_waiters() = 0;  // makes every waiter check again, without a change
  // The oldest event above `after`, without waiting.
  virtual std::optional<EventRow> next_event(std::uint64_t after) const = 0;
};

}  // namespace tranche::sim
