#include "guard/judge.h"

#include <algorithm>

namespace tranche::guard {
namespace {

using namespace std::chrono_literals;
using config::GuardMemory;
using What = Order::What;

bool more_than(std::uint64_t sum, Bytes limit) {
  return sum > limit.value && sum - limit.value > kRounding.value;
}

constexpr Duration kPatienceWithStrangers = 1s;  // a process may be listed before MPS's list has it
constexpr Duration kFirstDoubt = 200ms;          // the same, for one that holds memory over its grant's limit
constexpr Duration kGrace = 2s;                  // between SIGTERM and SIGKILL
constexpr Duration kFirstPause = 100ms;          // after an order that was not carried out, doubling …
constexpr Duration kLongestPause = 5s;           // … up to this
constexpr Duration kMemoryIsBack = 1s;           // of a process that was killed
// A client that MPS has terminated has nothing in flight, but keeps its memory until its process ends (measured on
// H200): one that does not end by itself is killed, which hurts nobody then.
constexpr Duration kEndsByItself = 50ms;
constexpr Duration kAskDoorAgain = 1s;
constexpr int kRefusalsToBelieve = 2;
constexpr std::string_view kForcedChange = "force";  // the word of sharing.change

Duration pause_after(int failures) {
  Duration pause = kFirstPause;
  for (int i = 1; i < failures && pause < kLongestPause; ++i) pause *= 2;
  return std::min(pause, kLongestPause);
}

bool newer(const Process& a, const Process& b) {
  return std::pair(a.id.start_ticks, a.id.pid) > std::pair(b.id.start_ticks, b.id.pid);
}

class Judge {
 public:
  Judge(const std::vector<Device>& devices, const Facts& facts, Memory& memory, MonoTime sampled, MonoTime now)
      : devices_(devices), facts_(facts), memory_(memory), sampled_(sampled), now_(now) {}

  Verdict run() {
    for (const Device& device : devices_) look_at(device);
    std::erase_if(memory_.strangers, [&](const auto& entry) { return !strangers_.contains(entry.first); });
    std::erase_if(memory_.over, [&](const auto& entry) { return !over_.contains(entry.first) && !entry.second.asked; });
    tend_doors();
    return std::move(verdict_);
  }

 private:
  struct Held {
    Bytes sum;
    std::vector<const Process*> processes;
  };

  void look_at(const Device& device) {
    std::map<std::string_view, Held> grants;
    for (const Process& process : device.processes) {
      if (process.ours) continue;
      if (!process.mps_client) look_at_stranger(device, process);
      if (process.grant.empty()) continue;
      Held& held = grants[process.grant];
      held.sum = held.sum + process.memory;
      held.processes.push_back(&process);
    }
    for (auto& [grant, held] : grants) {
      const auto limit = facts_.limits.find({std::string(grant), device.uuid});
      if (limit == facts_.limits.end()) {
        verdict_.without_limit.emplace_back(grant);
      } else if (more_than(held.sum.value, limit->second.memory)) {
        too_much(device, limit->first, limit->second, held);
      }
    }
  }

  Order order(What what, const Device& device, const GrantOnDevice& key, const Limit& limit, const Held& held) const {
    Order order;
    order.what = what;
    order.grant = key.first;
    order.device = device.uuid;
    order.pool = limit.pool;
    order.resource = limit.resource;
    order.policy = to_string(limit.policy);
    order.sum = held.sum;
    order.limit = limit.memory;
    order.since = memory_.over[key].since;
    return order;
  }

  void too_much(const Device& device, const GrantOnDevice& key, const Limit& limit, Held& held) {
    over_.insert(key);
    auto [it, fresh] = memory_.over.try_emplace(key);
    Memory::Over& over = it->second;
    if (fresh || over.since == MonoTime{}) over.since = sampled_;
    verdict_.open = true;
    std::ranges::sort(held.processes, [](const Process* a, const Process* b) { return newer(*a, *b); });
    switch (limit.policy) {
      case GuardMemory::kObserve:
        if (over.told) return;
        over.told = true;
        verdict_.orders.push_back(order(What::kTell, device, key, limit, held));
        for (const Process* process : held.processes) verdict_.orders.back().processes.push_back(*process);
        return;
      case GuardMemory::kRefuseNew:
        refuse(order(What::kRefuse, device, key, limit, held));
        return;
      case GuardMemory::kTerminateNewest:
      case GuardMemory::kTerminateAll:
        end(device, key, limit, held, over);
    }
  }

  void refuse(Order order) {
    const auto door = facts_.doors.find(order.grant);
    const bool open_again = door != facts_.doors.end() && door->second;  // `tranche mps` began anew meanwhile
    const auto [it, fresh] = memory_.refused.try_emplace(order.grant);
    closed_.insert(order.grant);
    if (!fresh && ((!open_again && !it->second.failed) || now_ - it->second.asked < kAskDoorAgain)) return;
    it->second = {.asked = now_};
    verdict_.orders.push_back(std::move(order));
  }

  enum class Next { kTerminate, kKill, kWait, kPassOver };

  // What is to be done with one process of a grant that holds too much.
  Next next_for(const Device& device, const Process& process, const Memory::Process& before) const {
    if (process.memory.value == 0) return Next::kPassOver;
    if (now_ < before.not_before) return before.refusals < kRefusalsToBelieve ? Next::kWait : Next::kPassOver;
    if (before.terminated != MonoTime{}) return now_ < before.terminated + kEndsByItself ? Next::kWait : Next::kKill;
    if (process.mps_client) return Next::kTerminate;
    return is_no_client(device, process) ? Next::kKill : Next::kWait;  // in doubt: the next samples tell
  }

  void remember(const Held& held, Memory::Over& over) const {
    for (const Process* process : held.processes) {
      const auto [it, fresh] = over.processes.try_emplace(process->id);
      if (fresh) it->second.since = sampled_;
    }
    std::erase_if(over.processes, [&](const auto& entry) {
      return std::ranges::none_of(held.processes, [&](const Process* each) { return each->id == entry.first; });
    });
  }

  void end(const Device& device, const GrantOnDevice& key, const Limit& limit, const Held& held, Memory::Over& over) {
    remember(held, over);
    if (over.asked || now_ < over.not_before || sampled_ <= over.settled) return;
    Order terminate = order(What::kTerminate, device, key, limit, held);
    Order kill = order(What::kKill, device, key, limit, held);
    terminate.since = kill.since = sampled_;
    const auto add = [](Order& to, const Process& process, const Memory::Process& before) {
      to.processes.push_back(process);
      to.since = std::min(to.since, before.since);
    };
    std::uint64_t staying = held.sum.value;
    for (const Process* process : held.processes) {
      const Memory::Process before = over.processes[process->id];
      const Next next = next_for(device, *process, before);
      if (next == Next::kTerminate) add(terminate, *process, before);
      if (next == Next::kKill) add(kill, *process, before);
      // No more of the newest than it takes for the others to fit, and nobody is ended in place of the newest while
      // there is hope that it goes. Of one that MPS has refused to end there is little: it is asked again, beside the
      // next.
      const bool hopeless = before.refusals >= kRefusalsToBelieve && next == Next::kTerminate;
      if (next != Next::kPassOver && !hopeless) staying -= std::min(staying, process->memory.value);
      if (limit.policy == GuardMemory::kTerminateNewest && !more_than(staying, limit.memory)) break;
    }
    if (!kill.processes.empty()) {
      over.settled = now_;
      for (const Process& process : kill.processes) over.processes[process.id].not_before = now_ + kMemoryIsBack;
      verdict_.orders.push_back(std::move(kill));
    }
    if (!terminate.processes.empty()) {
      over.asked = true;
      verdict_.orders.push_back(std::move(terminate));
    }
  }

  // A stranger that the driver has been asked about since it was first seen.
  bool is_no_client(const Device& device, const Process& process) const {
    const auto it = memory_.strangers.find(process.id);
    return it != memory_.strangers.end() && device.clients_read >= it->second.since + kFirstDoubt;
  }

  void look_at_stranger(const Device& device, const Process& process) {
    strangers_.insert(process.id);
    auto [it, fresh] = memory_.strangers.try_emplace(process.id);
    Memory::Stranger& stranger = it->second;
    if (fresh) stranger.since = sampled_;
    const bool taken = facts_.taken.contains(device.uuid);
    if ((facts_.strangers != config::GuardStrangers::kTerminate && !taken) || !process.in_container || stranger.ended)
      return;
    verdict_.open = true;
    const bool asked = stranger.asked_to_end != MonoTime{};
    if (!asked && device.clients_read < stranger.since + kPatienceWithStrangers) return;
    if (asked && now_ < stranger.asked_to_end + kGrace) return;
    Order order;
    order.what = asked ? What::kEnd : What::kAskToEnd;
    order.grant = process.grant;
    order.device = device.uuid;
    order.pool = device.pool;
    order.policy = taken ? kForcedChange : to_string(facts_.strangers);
    order.processes = {process};
    order.sum = process.memory;
    order.since = stranger.since;
    if (const auto limit = facts_.limits.find({process.grant, device.uuid}); limit != facts_.limits.end()) {
      order.resource = limit->second.resource;
      order.limit = limit->second.memory;
    }
    if (asked) {
      stranger.ended = true;
    } else {
      stranger.asked_to_end = now_;
    }
    verdict_.orders.push_back(std::move(order));
  }

  // Doors that we closed, also before a restart of ours, open when their grant is within its limit everywhere.
  void tend_doors() {
    std::vector<std::string> open;
    for (const auto& [grant, refused] : memory_.refused)
      if (!closed_.contains(grant) && now_ >= refused.not_before) open.push_back(grant);
    for (const auto& [grant, admitting] : facts_.doors)
      if (!admitting && !closed_.contains(grant) && !memory_.refused.contains(grant) && !memory_.let_in.contains(grant))
        open.push_back(grant);
    for (const std::string& grant : open) {
      memory_.refused.erase(grant);
      memory_.let_in[grant] = now_;
      Order order;
      order.what = What::kLetIn;
      order.grant = grant;
      order.policy = to_string(GuardMemory::kRefuseNew);
      for (const auto& [key, limit] : facts_.limits) {
        if (key.first != grant) continue;
        order.device = key.second;
        order.pool = limit.pool;
        order.resource = limit.resource;
        order.limit = limit.memory;
      }
      verdict_.orders.push_back(std::move(order));
    }
    std::erase_if(memory_.let_in, [&](const auto& entry) { return now_ - entry.second > kAskDoorAgain; });
    if (!memory_.refused.empty() || !memory_.let_in.empty()) verdict_.open = true;
  }

  const std::vector<Device>& devices_;
  const Facts& facts_;
  Memory& memory_;
  MonoTime sampled_;
  MonoTime now_;
  Verdict verdict_;
  std::set<GrantOnDevice> over_;
  std::set<ProcessId> strangers_;
  std::set<std::string> closed_;
};

}  // namespace

std::string_view to_string(Order::What what) {
  switch (what) {
    case What::kTell:
      return "observe";
    case What::kRefuse:
      return "refuse-new";
    case What::kLetIn:
      return "let-in";
    case What::kTerminate:
      return "terminate";
    case What::kKill:
    case What::kEnd:
      return "kill";
    case What::kAskToEnd:
      return "ask-to-end";
  }
  return "";
}

Verdict judge(const std::vector<Device>& devices, const Facts& facts, Memory& memory, MonoTime sampled, MonoTime now) {
  return Judge(devices, facts, memory, sampled, now).run();
}

void answered(Memory& memory, const Order& order, const std::vector<mps::Terminated>& clients, MonoTime now) {
  const auto it = memory.over.find({order.grant, order.device});
  if (it == memory.over.end()) return;
  Memory::Over& over = it->second;
  over.asked = false;
  over.settled = now;
  if (clients.empty()) {
    over.not_before = now + pause_after(++over.failures);
    return;
  }
  over.failures = 0;
  for (const mps::Terminated& client : clients) {
    const auto process = std::ranges::find(order.processes, static_cast<std::uint32_t>(client.pid),
                                           [](const Process& each) { return each.id.pid; });
    if (process == order.processes.end()) continue;
    Memory::Process& record = over.processes[process->id];
    if (client.outcome == mps::TerminateOutcome::kTerminated) {
      record = {.since = record.since, .terminated = now};
    } else {
      record.not_before = now + pause_after(++record.refusals);
    }
  }
}

void not_admitted(Memory& memory, const Order& order, MonoTime now) {
  if (order.what == What::kRefuse) {
    if (const auto it = memory.refused.find(order.grant); it != memory.refused.end()) it->second.failed = true;
  } else {
    memory.refused[order.grant] = {.not_before = now + kAskDoorAgain};
    memory.let_in.erase(order.grant);
  }
}

}  // namespace tranche::guard
