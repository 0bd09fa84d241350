#pragma once
// NVIDIA's management library, opened at run time: a missing driver is a state, not an exit. A Tegra system is served
// without it: its inventory has a platform and no GPUs. All calls run on one thread of this object (the library
// serialises internally and may block for long); results are posted to the loop. Scans omit a GPU that does not answer,
// and name it, instead of failing for all.
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "config/model.h"
#include "gpu/inventory/inventory.h"
#include "os/loop/loop.h"
#include "os/worker/worker.h"

namespace tranche::gpu {

// Search paths, in order; the first that exists is used, else the loader finds the library by its bare soname.
struct NvmlSettings {
  std::string driver_root = "/";  // container path of the driver root (`containerDriverRoot`)
  std::string system_root = "/";  // prefix of /sys, /proc and /dev
  config::DiscoveryStrategy discovery = config::DiscoveryStrategy::kAuto;

  // NvmlThread only.
  Duration patience = std::chrono::seconds(3);     // for a call in progress at destruction
  Duration retry_first = std::chrono::seconds(1);  // between attempts to open a missing driver, doubling …
  Duration retry_most = std::chrono::seconds(30);  // … up to this
  Duration event_pace = std::chrono::seconds(1);   // longest delay of events; requests are never delayed
  Duration probe_first =
      std::chrono::seconds(5);  // between looks at a GPU that cannot be watched, or was lost, then doubling …
  Duration probe_most = std::chrono::minutes(1);         // … up to this
  Duration event_retry_first = std::chrono::seconds(1);  // after a failed wait for events, doubling up to probe_most
  Duration silence = std::chrono::seconds(30);           // a call that takes longer counts as hung
  Duration signs_every = std::chrono::minutes(1);        // between reads of the kernel's list of GPUs, without a hint
  Duration signs_settle = std::chrono::seconds(1);       // after a change of that list, before the library is restarted
  bool fault_events = true;  // false: no fault events are registered; lost GPUs are detected regardless

  friend bool operator==(const NvmlSettings&, const NvmlSettings&) = default;
};

// From the configuration. `driver_root_here`: where this process finds the driver's files; "" = containerDriverRoot.
inline NvmlSettings driver_settings(const config::Flags& flags, const std::string& driver_root_here,
                                    const std::string& system_root = "/") {
  return {.driver_root = driver_root_here.empty() ? flags.plugin.container_driver_root : driver_root_here,
          .system_root = system_root,
          .discovery = flags.device_discovery_strategy};
}

// Whether a GPU of an earlier scan was removed from the machine: the kernel had its PCI function (under
// <system_root>/sys) and no longer has it. A GPU that merely stopped answering keeps its function.
bool has_left(const std::string& system_root, const Gpu& gpu);

struct GpuEvent {
  enum class What {
    kXid,          // number in `xid`
    kLost,         // the GPU no longer answers
    kBack,         // it answers again
    kDemand,       // the recovery action that the driver requests has changed: call ask_use()
    kUnwatched,    // its faults would not be seen (`why`); registration is retried until …
    kWatched,      // … this event
    kUnsupported,  // it has no fault events (`why`), permanently
    kSilent,       // a call into the driver does not return (`why`); not about one GPU
    kAnswering,    // that call has returned
  };
  What what = What::kXid;
  std::string gpu_uuid{};  // or of a MIG device, by either of its names; "" = the driver does not report which: all
  std::uint64_t xid = 0;
  std::uint32_t gpu_instance = kNoInstance;  // kNoInstance: the whole GPU
  std::uint32_t compute_instance = kNoInstance;
  std::string why{};
};

// How much memory of a GPU a process holds.
struct GpuHolder {
  pid_t pid = 0;
  Bytes memory{};  // 0 when the driver does not report it
  bool mps_client = false;
  std::uint32_t gpu_instance = kNoInstance;  // kNoInstance: the whole GPU
  std::uint32_t compute_instance = kNoInstance;
  friend bool operator==(const GpuHolder&, const GpuHolder&) = default;
};

struct GpuUse {
  std::string uuid;
  Bytes used;                        // NVML v1: includes what the driver reserves
  std::uint32_t utilization = 0;     // percent; 0 when the driver does not report it
  std::vector<GpuHolder> processes;  // one for each pid
  std::optional<bool> persistence;   // absent: the driver does not report it
  std::optional<std::uint32_t>
      demand;  // field 230, the recovery action that the driver requests; absent: no such field
};

struct GpuSample {
  std::string uuid;
  std::vector<GpuHolder> holders;  // by pid and instance
  MonoTime clients_read{};         // when the driver last listed which of them are MPS clients
  std::string problem;             // why there are no figures, or ""
  MonoTime at{};                   // when this was read
  bool same_figures(const GpuSample& other) const {
    return uuid == other.uuid && holders == other.holders && clients_read == other.clients_read &&
           problem == other.problem;
  }
};
// How often one GPU is sampled.
struct SampleWish {
  std::string uuid;
  Duration every{};   // between readings of its holders
  Duration glance{};  // between reads of its used memory alone, which costs less; growth by 16 MiB triggers a full
                      // sample. 0: none
  friend bool operator==(const SampleWish&, const SampleWish&) = default;
};

// Averages between two samples of the driver's performance monitoring (GPM, Hopper and newer); fractions from 0 to 1.
struct GpuActivity {
  std::optional<double> graphics, sm, occupancy, tensor, dram;
  std::optional<double> pcie_sent, pcie_received, nvlink_sent, nvlink_received;  // bytes per second
  friend bool operator==(const GpuActivity&, const GpuActivity&) = default;
};

// Activity of a MIG device or a GPU, as the driver measures it at one moment or between two. A figure that the driver
// does not provide is absent.
struct MigTelemetry {
  std::string uuid;
  std::optional<Bytes> memory_used;
  GpuActivity activity;  // without the links, which belong to the GPU
};

struct GpuTelemetry {
  std::string uuid;
  MonoTime at{};
  std::optional<Bytes> memory_used;   // includes the memory that the driver reserves
  std::optional<double> utilization;  // fraction of the driver's last period in which any kernel ran
  std::optional<double> power_watts, power_limit_watts;
  std::optional<double> energy_joules;  // since the driver was loaded
  std::optional<double> celsius, memory_celsius;
  std::optional<double> sm_hertz, memory_hertz;
  std::optional<std::uint64_t> clock_reasons;                   // bits of nvmlClocksEventReasons
  std::optional<std::uint64_t> ecc_corrected, ecc_uncorrected;  // since the driver was loaded
  GpuActivity activity;
  std::vector<MigTelemetry> mig;
};

namespace nvml {
class Session;
}

// nvml::Driver (gpu/driver/driver.h) behind a thread, for agents. Opens the library as soon as that is possible
// (retrying with back-off), reports that through on_inventory, and then reports events. When what the kernel shows
// changes (gpu/driver/kernel_signs.h: a GPU was added or removed, or the driver was replaced), the library is
// restarted, because it counts GPUs only at initialisation. Until it is started, and after it has been stopped,
// requests do nothing. Thread: the loop's. Callbacks: turns of the loop, of the present thread only.
class NvmlThread {
 public:
  struct Callbacks {
    std::function<void(const Result<Inventory>&)> on_inventory;  // at every (re)scan and every failed attempt
    std::function<void(const GpuEvent&)> on_event{};
    std::function<void(const Result<std::vector<GpuUse>>&)> on_use{};      // result of ask_use
    std::function<void(const std::vector<GpuSample>&)> on_sample{};        // all that sample() requested, as read last
    std::function<void(const std::vector<GpuTelemetry>&)> on_telemetry{};  // result of measure()
  };
  NvmlThread(os::Loop& loop, Callbacks callbacks);
  ~NvmlThread() { stop(); }
  NvmlThread(const NvmlThread&) = delete;
  NvmlThread& operator=(const NvmlThread&) = delete;

  void start(const NvmlSettings& settings);  // stops the thread before
  // Joins the thread. A hung driver call delays that by at most `patience`; then the thread is abandoned until the
  // process exits, and a warning is logged.
  void stop();
  bool runs() const { return session_ != nullptr; }

  void rescan();
  void ask_use();
  // From now on reads the holders of these GPUs, each at the requested interval. An empty list ends that. MPS clients
  // are listed when a new process appears, then again after one, two, four … readings, and every 5 s: a process is
  // listed before it becomes a client.
  void sample(std::vector<SampleWish> gpus);
  void set_compute_mode(std::string gpu_uuid, ComputeMode mode, std::function<void(Status)> done);
  // Measures the activity of the GPUs, one GPU at a time between two samples of memory holders; no result while there
  // is no driver.
  void measure();

 private:
  void listen();

  os::Loop& loop_;
  const Callbacks callbacks_;
  Duration patience_{};
  Duration silence_{};
  bool silent_ = false;
  os::Timer timer_{loop_};
  std::shared_ptr<nvml::Session> session_;  // null while it is stopped
  std::unique_ptr<os::Worker> thread_;
};

}  // namespace tranche::gpu
