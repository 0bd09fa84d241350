#pragma once
// The life of the driver thread: wait for a driver, serve while it answers, start over when it does not.
//
//   waiting ──open──► serving ──library fails──► waiting
//                       │  GPU lost: told, left out of the event set, probed with back-off until it is back
//
// Runs on its own thread; talks through the Channel only.
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "base/time.h"
#include "host/nvml/channel.h"
#include "host/nvml/driver.h"
#include "host/nvml/events.h"

namespace tranche::host::nvml {

class Session {
 public:
  Session(std::shared_ptr<Channel> channel, NvmlSettings settings)
      : channel_(std::move(channel)), settings_(std::move(settings)) {}
  void run();  // until the channel stops

 private:
  bool open_driver();
  void wait_for_driver();
  void serve();
  void close_driver();
  void refuse(Requests requests);  // while there is no driver
  void answer(Requests requests);
  bool scan_and_register(bool tell_always);  // false: the library is of no use any more
  void drain_events();
  void flush_events();                   // what is left in a set that is about to go
  bool deliver(const EventData& event);  // true: the MIG layout changed
  bool find_lost();                      // true: some were found, and the set is a new one without them
  void probe_missing();
  std::string uuid_of(Device device) const;
  void wait(Duration at_most);  // for a request

  std::shared_ptr<Channel> channel_;
  const NvmlSettings settings_;
  std::unique_ptr<Driver> driver_;
  std::unique_ptr<Events> events_;  // freed before driver_
  std::optional<inventory::Inventory> told_;
  std::set<std::string> lost_;  // UUIDs told as lost and not yet as back
  Duration retry_{};            // the next wait for a driver
  Duration probe_every_{};
  MonoTime probe_at_;
  MonoTime events_again_at_;
  int event_failures_ = 0;  // in a row
  int probes_ = 0;          // since something went missing
  bool usable_ = false;
};

}  // namespace tranche::host::nvml
