#pragma once
// A driver thread whose callbacks are recorded, for the tests of this folder.
#include <deque>
#include <functional>
#include <memory>
#include <utility>

#include "gpu/driver/nvml.h"
#include "gpu/driver/sim_fixture.h"
#include "gpu/inventory/inventory.h"
#include "os/loop/loop.h"

namespace tranche::gpu::nvml {

// Records what the thread reports, and runs the loop until it has reported something.
class Watcher {
 public:
  explicit Watcher(const NvmlSettings& settings) : loop_(*os::Loop::open()) {
    thread_.emplace(
        *loop_,
        NvmlThread::Callbacks{.on_inventory = [this](const Result<Inventory>& node) { note(inventories, node); },
                              .on_event = [this](const GpuEvent& event) { note(events, event); },
                              .on_use = [this](const Result<std::vector<GpuUse>>& use) { note(uses, use); },
                              .on_sample = [this](const std::vector<GpuSample>& all) { note(samples, all); },
                              .on_telemetry = [this](const std::vector<GpuTelemetry>& round) { note(rounds, round); }});
    thread_->start(settings);
  }

  NvmlThread& thread() { return *thread_; }
  os::Loop& loop() { return *loop_; }
  void end() { thread_.reset(); }
  void stopped() { loop_->stop(); }

  // Until `done` holds; false at the deadline.
  bool until(const std::function<bool()>& done, Duration deadline = std::chrono::seconds(60)) {
    bool late = false;
    const os::Loop::Id timer = loop_->after(deadline, [&] {
      late = true;
      loop_->stop();
    });
    while (!done() && !late) loop_->run();
    loop_->cancel(timer);
    return done();
  }

  std::deque<Result<Inventory>> inventories;
  std::deque<GpuEvent> events;
  std::deque<Result<std::vector<GpuUse>>> uses;
  std::deque<std::vector<GpuSample>> samples;
  std::deque<std::vector<GpuTelemetry>> rounds;

 private:
  template <class T>
  void note(std::deque<T>& into, const T& value) {
    into.push_back(value);
    loop_->stop();
  }
  std::unique_ptr<os::Loop> loop_;
  std::optional<NvmlThread> thread_;
};

inline NvmlSettings quick(const SimFixture& sim) {
  NvmlSettings settings = sim.settings();
  settings.retry_first = std::chrono::milliseconds(10);
  settings.retry_most = std::chrono::milliseconds(20);
  settings.event_pace = std::chrono::milliseconds(5);
  settings.event_retry_first = std::chrono::milliseconds(5);
  settings.probe_first = std::chrono::milliseconds(10);
  settings.probe_most = std::chrono::milliseconds(20);
  return settings;
}

inline bool has_gpus(const Watcher& watcher, std::size_t count) {
  return !watcher.inventories.empty() && watcher.inventories.back() && watcher.inventories.back()->gpus.size() == count;
}

}  // namespace tranche::gpu::nvml
