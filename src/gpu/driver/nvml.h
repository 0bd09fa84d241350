#pragma once
// NVIDIA's management library, opened at run time: absent driver is a state, not an exit. A Tegra system is served
// without it: its inventory has a platform and no GPUs. All calls run on one thread
// of this object (the library serialises internally and may block for long); results are posted to the loop. Scans skip
// and name a GPU that does not answer instead of failing for all.
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "gpu/driver/gpu_telemetry.h"
#include "gpu/inventory/inventory.h"
#include "gpu/inventory/platform.h"
#include "os/loop/loop.h"

namespace tranche::host {

// Where to look, in order; the first that exists wins, else the bare soname through the loader.
struct NvmlSettings {
  std::string driver_root = "/";  // container path of the driver root (`containerDriverRoot`)
  std::string system_root = "/";  // what /sys, /proc and /dev are looked up under
  inventory::Discovery discovery = inventory::Discovery::kAuto;  // `deviceDiscoveryStrategy`

  // NvmlThread only.
  Duration patience = std::chrono::seconds(3);     // for a call in progress when the object goes
  Duration retry_first = std::chrono::seconds(1);  // between attempts to open a driver that is not there, doubling …
  Duration retry_most = std::chrono::seconds(30);  // … up to this
  Duration event_pace = std::chrono::seconds(1);   // events wait at most this long; requests never do
  Duration probe_first =
      std::chrono::seconds(5);  // between looks at a GPU that was lost or cannot be watched, doubling …
  Duration probe_most = std::chrono::minutes(1);         // … up to this
  Duration event_retry_first = std::chrono::seconds(1);  // after a failed wait for events, doubling up to probe_most
  Duration silence = std::chrono::seconds(30);           // a call that takes longer hangs
  Duration signs_every = std::chrono::minutes(1);        // between looks at the kernel's list of GPUs, without a hint
  Duration signs_settle = std::chrono::seconds(1);       // after a change of it, before the library is started afresh
  bool fault_events = true;  // false: no events of faults are asked for; lost GPUs are noticed all the same

  friend bool operator==(const NvmlSettings&, const NvmlSettings&) = default;
};

// Whether a GPU that the library does not find any more has left the machine: the kernel had its PCI function (under
// <system_root>/sys) and has it no longer. One that only fell silent keeps its function. One thread.
class Presence {
 public:
  void saw(const std::string& system_root, const inventory::Inventory& scanned);
  bool has_left(const std::string& system_root, const inventory::Gpu& gpu) const;

 private:
  std::set<std::string> had_function_;  // UUIDs
};

struct GpuEvent {
  enum class What {
    kXid,  // number in `xid`
    kEccDouble,
    kEccSingle,
    kLost,         // the GPU does not answer any more
    kBack,         // it answers again
    kDemand,       // what the driver wants to be done with the GPU has changed: ask_use() tells
    kUnwatched,    // its faults would not be seen (`why`); tried again until …
    kWatched,      // … they are
    kUnsupported,  // it has no events of faults (`why`), and never will
    kSilent,       // a call into the driver does not return (`why`); no GPU is meant
    kAnswering,    // it has returned
  };
  What what = What::kXid;
  std::string gpu_uuid{};  // or of a MIG device, by either of its names; "" = the driver would not say which: all
  std::uint64_t xid = 0;
  std::uint32_t gpu_instance = 0xffffffff;  // 0xffffffff = the whole GPU
  std::uint32_t compute_instance = 0xffffffff;
  std::string why{};
};

struct GpuProcess {
  std::uint32_t pid = 0;
  Bytes memory;  // 0 when unknown
  bool memory_known = true;
  bool mps_client = false;
};
struct GpuUse {
  std::string uuid;
  Bytes used;  // NVML v1: includes what the driver reserves
  Bytes total;
  std::uint32_t utilization = 0;  // percent; 0 when the driver would not say
  std::vector<GpuProcess> processes;
  inventory::ComputeMode compute_mode = inventory::ComputeMode::kDefault;
  std::optional<bool> persistence;  // absent: the driver would not say
  std::optional<std::uint32_t>
      demand;  // field 230, what the driver wants to be done with the GPU; absent: it has no such field
};

// Who holds how much of a GPU, as NvmlThread::sample() sees it.
struct GpuHolder {
  std::uint32_t pid = 0;
  Bytes memory{};  // 0 when the driver would not say
  bool mps_client = false;
  std::uint32_t gpu_instance = 0xffffffff;  // 0xffffffff = the whole GPU
  std::uint32_t compute_instance = 0xffffffff;
  friend bool operator==(const GpuHolder&, const GpuHolder&) = default;
};
struct GpuSample {
  std::string uuid;
  std::vector<GpuHolder> holders;  // by pid and instance
  MonoTime clients_read{};         // when the driver was last asked which of them are MPS clients
  std::string problem;             // why there are no figures, or ""
  MonoTime at{};                   // when this was read
};
// How often one GPU is looked at.
struct SampleWish {
  std::string uuid;
  Duration every{};   // between readings of its holders
  Duration glance{};  // between questions for its used memory alone, which costs less; holders are read at once when
                      // it has grown by 16 MiB. 0: none
  friend bool operator==(const SampleWish&, const SampleWish&) = default;
};

// A kind of GPU instance that a GPU can be cut into by MIG.
struct MigProfile {
  std::string name;          // "1g.18gb", "1g.18gb+me"
  std::uint32_t slices = 0;  // of the GPU's compute slices
  Bytes memory{};            // nominal, as the driver lists it
  std::uint32_t sm_count = 0;
  std::uint32_t at_most = 0;  // how many of this kind alone fit
  friend bool operator==(const MigProfile&, const MigProfile&) = default;
};

// Direct, blocking use, for moment commands (`tranche plan --inventory node`, `check`): any one thread.
class Nvml {
 public:
  static Result<std::unique_ptr<Nvml>> open(const NvmlSettings& settings);  // kUnavailable: no driver yet
  virtual ~Nvml() = default;                                                // shuts the library down
  virtual std::string library_path() const = 0;
  virtual Result<inventory::Inventory> scan() = 0;
  virtual Result<std::vector<GpuUse>> use() = 0;
  virtual Status set_compute_mode(const std::string& gpu_uuid, inventory::ComputeMode mode) = 0;
};

// The same behind a thread, for the agents. Opens the library as soon as it can be opened (retrying with back-off),
// says so through on_inventory, and reports events from then on. A GPU that comes or goes, and another driver, are
// noticed by what the kernel shows (gpu/driver/kernel_signs.h), and the library is started afresh: it counts GPUs only
// then. Destroying it joins the thread; a hung driver call
// delays that by at most `patience`, after which the thread is left to the process's exit and a warning is logged.
class NvmlThread {
 public:
  struct Callbacks {  // all run as turns of the loop
    std::function<void(const Result<inventory::Inventory>&)>
        on_inventory;  // at every (re)scan and every failed attempt
    std::function<void(const GpuEvent&)> on_event;
    std::function<void(const Result<std::vector<GpuUse>>&)> on_use;  // answer to ask_use
    std::function<void(const std::vector<GpuSample>&)> on_sample{};  // all that sample() asked for, when any is other
    std::function<void(const std::vector<GpuTelemetry>&)> on_telemetry{};  // answer to measure()
  };
  static std::unique_ptr<NvmlThread> start(Loop& loop, NvmlSettings settings, Callbacks callbacks);
  virtual ~NvmlThread() = default;
  virtual void rescan() = 0;
  virtual void ask_use() = 0;
  // From now on reads the holders of these GPUs, each as often as is wished, and tells when something is other than
  // before. No GPUs: no more. Who is an MPS client is asked when somebody new appears, then again after one, two,
  // four … readings, and every 5 s: a process is listed before it is one.
  virtual void sample(std::vector<SampleWish> gpus) = 0;
  // When what was told last was last seen to be so, of one GPU or of any; 0 = never. Any thread.
  virtual MonoTime last_sample(const std::string& gpu_uuid) const = 0;
  virtual MonoTime last_sample() const = 0;
  virtual void set_compute_mode(std::string gpu_uuid, inventory::ComputeMode mode,
                                std::function<void(Status)> done) = 0;
  // What the GPUs do. One GPU at a time, between two looks at who holds memory; no answer while there is no driver.
  virtual void measure() = 0;
};

}  // namespace tranche::host
