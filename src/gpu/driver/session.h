#pragma once
// The life of the driver thread: wait for a driver, serve while it answers, start over when it does not.
//
//   waiting ──open──► serving ──library fails──► waiting
//                       │  GPU lost: told, left out of the event set, probed with back-off until it is back
//                       │  GPU came or went, or another driver: the library is started afresh
//                       │  GPU cannot be registered, or waiting for events fails: told, tried again with back-off
//
// Runs on its own thread; talks through the Channel only. session.cpp has its life, session_events.cpp what it hears.
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "base/time.h"
#include "gpu/driver/channel.h"
#include "gpu/driver/driver.h"
#include "gpu/driver/events.h"
#include "gpu/driver/kernel_signs.h"
#include "gpu/driver/sampler.h"
#include "gpu/driver/telemetry.h"

namespace tranche::host::nvml {

class Session {
 public:
  Session(std::shared_ptr<Channel> channel, NvmlSettings settings)
      : channel_(std::move(channel)), settings_(std::move(settings)), hints_(settings_.system_root) {}
  void run();  // until the channel stops

 private:
  bool open_driver();
  void wait_for_driver();
  void serve();
  void close_driver();
  void refuse(Requests requests);  // while there is no driver
  void answer(Requests requests);
  bool scan_and_register(bool tell_always);  // false: the library is of no use any more
  void new_events();
  void drain_events();
  void wait_worked();
  void wait_failed(Return code);
  void flush_events();                   // what is left in a set that is about to go
  bool deliver(const EventData& event);  // true: the MIG layout changed
  void tell_watches();                   // which GPUs' faults would not be seen, when that is news
  void watch_again();                    // GPUs that could not be registered
  bool find_lost();                      // true: some were found, and the set is a new one without them
  void all_lost(const Error& why);       // the driver itself is gone, and with it what it knew of the GPUs
  void look_after();                     // what is missing or not watched, each in its own time
  void probe_missing();
  void look_at_signs(MonoTime now);  // that a GPU came or went
  void start_afresh();               // the library, for it counts GPUs only then
  std::string uuid_of(Device device) const;
  bool wait(MonoTime until);  // for a request: whether there is one
  void sample();
  void measure(MonoTime now);  // the next GPU of a round

  std::shared_ptr<Channel> channel_;
  const NvmlSettings settings_;
  std::unique_ptr<Driver> driver_;
  std::unique_ptr<Events> events_;  // freed before driver_
  std::optional<inventory::Inventory> told_;
  std::set<std::string> known_;                   // UUIDs ever found
  std::set<std::string> lost_;                    // told as lost and not yet as back
  std::map<std::string, std::string> unwatched_;  // told as such, and why
  std::set<std::string> unsupported_;             // told as such, once
  std::string wait_trouble_;                      // "" = waiting for events works
  Sampler sampler_;
  Telemetry telemetry_;
  MonoTime events_at_;  // when what the driver has to tell is to be heard
  Duration retry_{};    // the next wait for a driver
  Duration probe_every_{};
  MonoTime probe_at_;
  MonoTime events_again_at_;
  Duration event_pause_{};
  int event_failures_ = 0;  // in a row
  Duration watch_every_{};
  MonoTime watch_at_;
  MonoTime look_at_;       // at GPUs whose loss no event would tell
  bool unplaced_ = false;  // a MIG device's instances are not known
  int probes_ = 0;         // since something went missing
  DeviceHints hints_;
  bool hinted_ = false;  // at a change that was not looked at yet
  KernelSigns signs_;    // when the library was started, or started afresh for them
  MonoTime signs_at_;    // the next look at them without a hint
  MonoTime afresh_at_ = MonoTime::max();
  int afresh_ = 0;  // since they changed
  bool usable_ = false;
};

}  // namespace tranche::host::nvml
