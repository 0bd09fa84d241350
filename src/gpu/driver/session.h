#pragma once
// The lifecycle of the driver thread: wait for a driver, serve while it answers, start over when it does not.
//
// waiting ──open──► serving ──library fails──► waiting
// │  GPU lost: reported, removed from the event set, probed with back-off until it is back
// │  GPU added or removed, or driver replaced: the library is restarted
// │  GPU cannot be registered, or waiting for events fails: reported, retried
//
// Runs on a thread of its own with a loop of its own; requests and results pass between the two loops.
#include <atomic>
#include <cstdint>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <type_traits>
#include <vector>

#include "base/time.h"
#include "gpu/driver/driver.h"
#include "gpu/driver/kernel_signs.h"
#include "gpu/driver/library.h"
#include "gpu/driver/nvml.h"
#include "gpu/driver/processes.h"
#include "os/loop/loop.h"

namespace tranche::gpu::nvml {

struct ModeRequest {
  std::string gpu_uuid;
  ComputeMode mode = ComputeMode::kDefault;
  std::function<void(Status)> done;
};

struct Requests {
  bool rescan = false;
  bool use = false;
  bool measure = false;
  std::optional<std::vector<SampleWish>> sample;
  std::vector<ModeRequest> modes;
};

// Events of all GPUs that answer, in one event set. Registration is per GPU and per bit: a GPU that does not support
// events, or cannot be registered, does not affect the others. Destroy the set before the library is shut down.
class Events {
 public:
  using Whys = std::map<std::string, std::string>;  // by GPU
  // Without `faults`, only events that are not health checks are registered: changes of the MIG layout.
  Events(const Library& library, const std::vector<Held>& gpus, bool faults);
  Events(const Events&) = delete;
  Events& operator=(const Events&) = delete;
  ~Events();

  // GPUs whose faults the driver would not report; empty without `faults`.
  const Whys& unsupported() const { return unsupported_; }  // this GPU or driver does not have such events
  const Whys& failed() const { return failed_; }            // they could not be registered: try again
  void try_again(const std::vector<Held>& gpus);            // only those; all others continue unchanged

  // How many GPUs have an event of any kind. If one of these is lost, wait() ends with kGpuIsLost.
  std::size_t registered() const { return registered_.size(); }
  // Waits up to `timeout_ms` for one event. kTimeout may come early. kGpuIsLost comes immediately, and on every call,
  // until the set is rebuilt without the lost GPU.
  Return wait(std::uint32_t timeout_ms, EventData& event) const;

 private:
  bool create();
  void watch(const Held& gpu);

  const Library& library_;
  const bool faults_;
  EventSet set_ = nullptr;
  std::string no_set_;  // why there is no set
  Whys unsupported_, failed_;
  std::set<std::string> registered_;
};

// Reads the holders of a few GPUs repeatedly.
class Sampler {
 public:
  bool follow(std::vector<SampleWish> wishes, MonoTime now);  // true: different GPUs than before, without handles yet
  // Call after every scan, which has new handles; a GPU that is not among them cannot be read.
  void handles(const std::vector<Held>& held);
  MonoTime due() const { return due_; }  // when the next of them is due
  // False: there is nothing to report, because only glances were due or no figure has changed since a recent report.
  bool round(const Library& library, MonoTime now);
  const std::vector<GpuSample>& samples() const { return samples_; }

 private:
  struct Gpu {
    SampleWish wish;
    Device device = nullptr;
    MonoTime at{};           // when to read its holders
    MonoTime reported_at{};  // when round() was last true because of it
    MonoTime glance_at = MonoTime::max();
    std::optional<std::uint64_t> used;  // at the last glance
    MonoTime clients_at{};              // when to read the clients again
    Duration pause{};                   // and how long after that
  };
  void read(const Library& library, Gpu& gpu, GpuSample& sample, MonoTime now);
  void plan();

  std::vector<Gpu> gpus_;  // parallel to samples_
  std::vector<GpuSample> samples_;
  MonoTime due_ = MonoTime::max();
};

// Measures the activity of the GPUs on request: one GPU per step, because a step may take several milliseconds (energy
// and GPM) and memory holders are sampled in between. Activity is the average since the previous reading; the first
// reading has none. The energy counter is read every 10 seconds at most.
class Telemetry {
 public:
  void begin(const std::vector<Held>& held);  // starts a round; continues one that is in progress
  bool under_way() const { return !waiting_.empty(); }
  bool step(const Library& library, MonoTime now);  // true: the round is complete
  const std::vector<GpuTelemetry>& round() const { return round_; }
  // Handles and MIG devices may change after this. Call before the library is shut down.
  void forget(const Library& library);

 private:
  struct Window {  // between two samples of one GPU, GPU instance or compute instance
    GpmSample before = nullptr;
    GpmSample next = nullptr;
    std::optional<MonoTime> at;
    GpuActivity last;
  };
  struct Energy {
    std::optional<MonoTime> at;
    std::optional<double> joules;
  };
  template <class Take>
  GpuActivity activity(const Library& library, const std::string& key, MonoTime now, Take take);
  std::optional<GpuActivity> between(const Functions& f, const Window& window) const;
  GpuTelemetry read(const Library& library, const Held& gpu, MonoTime now);
  void read_mig(const Library& library, const Held& gpu, GpuTelemetry& into, MonoTime now);

  std::vector<Held> waiting_;
  std::vector<GpuTelemetry> round_;
  std::map<std::string, Window> windows_;
  std::map<std::string, Energy> energies_;  // by GPU
};

// Both threads own it (shared_ptr), so that a thread in a driver call that never returns can be abandoned: after stop()
// it runs no callback and posts nothing to the loop of NvmlThread.
class Session : public std::enable_shared_from_this<Session> {
 public:
  Session(os::Loop& home, NvmlThread::Callbacks callbacks, NvmlSettings settings);

  // The thread of NvmlThread.
  void request(std::function<void(Requests&)> change);
  bool stop(Duration patience);  // false: the driver thread has not ended by then
  // How long the driver thread has been busy without a rest; 0 while it rests.
  Duration at_work(MonoTime now) const {
    const MonoTime since = working_since_;
    return since == MonoTime{} ? Duration{} : now - since;
  }

  void run();  // the driver thread: until stop()

 private:
  void post(std::function<void(const NvmlThread::Callbacks&)> turn);
  template <class Value>
  void report(std::function<void(const Value&)> NvmlThread::Callbacks::* callback, std::type_identity_t<Value> value) {
    post([callback, value = std::move(value)](const NvmlThread::Callbacks& callbacks) {
      if (callbacks.*callback) (callbacks.*callback)(value);
    });
  }
  void report_mode(ModeRequest request, Status status);
  void soon();   // a turn, after what else has come
  void turn();   // does what is due; the only calls into the driver
  void begin();  // opens the driver; usable_ if it can be served
  bool open_driver();
  void close_driver();
  void serve();
  void answer();
  void refuse();                               // the requests, while there is no driver
  bool scan_and_register(bool report_always);  // false: the library is no longer usable
  void new_events();
  void drain_events();
  void wait_worked();
  void wait_failed(Return code);
  void flush_events();                   // the remaining events of a set about to be freed
  bool deliver(const EventData& event);  // true: the MIG layout changed
  void report_watches();                 // which GPUs' faults would not be seen, if that has changed
  bool find_lost();                      // true: some were found, and the set was rebuilt without them
  void all_lost(const Error& why);       // the driver itself is gone, and with it its state of the GPUs
  void look_after();                     // missing and unwatched GPUs, each when due
  void probe_missing();
  void look_at_signs(MonoTime now);  // whether a GPU was added or removed
  void start_afresh();               // restarts the library, which counts GPUs only at initialisation
  std::string uuid_of(Device device) const;

  std::mutex mutex_;
  os::Loop* home_;  // nullptr once stopped
  const NvmlThread::Callbacks callbacks_;
  std::promise<void> ended_;
  std::atomic<MonoTime> working_since_{};  // 0: no call into the driver is under way

  const NvmlSettings settings_;
  std::unique_ptr<os::Loop> loop_;  // of the driver thread
  os::Timer timer_{*loop_};
  Requests requests_;
  std::unique_ptr<Driver> driver_;
  std::unique_ptr<Events> events_;  // freed before driver_
  std::optional<Inventory> reported_;
  std::set<std::string> known_;                   // UUIDs of all GPUs found so far
  std::set<std::string> lost_;                    // reported as lost and not yet as back
  std::map<std::string, std::string> unwatched_;  // reported as such, and why
  std::set<std::string> unsupported_;             // reported as such, once
  std::string wait_trouble_;                      // "" = waiting for events works
  Sampler sampler_;
  Telemetry telemetry_;
  MonoTime events_at_;  // when to read the driver's events
  int failures_ = 0;    // to open the driver, in a row
  MonoTime open_at_;    // when to try again
  Duration probe_every_{};
  MonoTime probe_at_;
  MonoTime events_again_at_;
  int event_failures_ = 0;  // in a row
  MonoTime look_at_;        // at GPUs whose loss causes no event, and that could not be registered
  bool unplaced_ = false;   // the instances of a MIG device are not known
  int probes_ = 0;          // since a GPU went missing
  bool hinted_ = false;     // a node of the driver came or went, which is not examined yet
  KernelSigns signs_;       // when the library was initialised, or last restarted because of them
  MonoTime signs_at_;       // the next read of them without a hint
  MonoTime afresh_at_ = MonoTime::max();
  int afresh_ = 0;  // since they changed
  bool usable_ = false;
};

}  // namespace tranche::gpu::nvml
