#pragma once
// The state of one simulated GPU node, shared by every stand-in that runs on it: the driver library, the MPS daemon
// and server, the CUDA processes. It lives in a file that all of them map (`$TRANCHE_SIM_NODE/state`), guarded by a
// robust process-shared mutex, so that any of them may be killed at any time without stopping the others. The GPUs come
// from `$TRANCHE_SIM_NODE/node.yaml`, read once when the state is created; afterwards `sim-node` and this API change it.
//
// Rows of dead processes are pruned whenever rows are read. Thread-safe and process-safe.
#include <sys/types.h>

#include <cstdint>
#include <expected>
#include <memory>
#include <string>
#include <vector>

namespace tranche::sim {

inline constexpr int kMaxGpus = 16;
inline constexpr const char* kNodeVariable = "TRANCHE_SIM_NODE";  // names the directory

// What never changes while the state exists.
struct GpuFacts {
  std::string uuid;         // "GPU-…"
  std::string name;         // "NVIDIA H200"
  std::string pci_bus_id;   // "00000000:1B:00.0"
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
  std::uint64_t bytes = 0;      // device memory it holds, context included
  std::uint32_t sms = 0;        // SMs it may use; 0 = all
};

enum class EventKind : std::uint32_t { kXid = 0, kEccSingle = 1, kEccDouble = 2, kMigChange = 3, kClock = 4 };
struct EventRow {
  std::uint64_t sequence = 0;  // grows by one per event
  int gpu = 0;
  EventKind kind = EventKind::kXid;
  std::uint64_t data = 0;      // XID number
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
  virtual bool driver_present() const = 0;         // false: nvmlInit answers DRIVER_NOT_LOADED
  virtual std::vector<GpuFacts> gpus() const = 0;
  virtual int find_gpu(const std::string& uuid_or_index) const = 0;  // -1 = none; accepts "0", a UUID, a UUID prefix

  virtual int compute_mode(int gpu) const = 0;  // NVML's numbers: 0 default, 2 prohibited, 3 exclusive process
  virtual void set_compute_mode(int gpu, int mode) = 0;

  // A process appears on a GPU, grows or shrinks, and leaves. charge() adds to what (pid, gpu) holds, false when the GPU
  // has not that much left; negative gives back.
  virtual bool attach(pid_t pid, int gpu, ProcessKind kind, std::uint32_t sms) = 0;
  virtual bool charge(pid_t pid, int gpu, std::int64_t bytes) = 0;
  virtual void detach(pid_t pid, int gpu) = 0;
  virtual std::vector<ProcessRow> processes(int gpu) const = 0;
  virtual std::uint64_t memory_used(int gpu) const = 0;  // reserved + rows + what sim-node added

  virtual void raise(EventRow event) = 0;  // sequence is filled in
  // Waits for an event with a sequence above `after`, at most timeout_ms; wakes at once when one is raised.
  virtual bool wait_event(std::uint64_t after, int timeout_ms, EventRow* event) const = 0;
  virtual std::uint64_t newest_event() const = 0;
};

}  // namespace tranche::sim
