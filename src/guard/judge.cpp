#include "guard/judge.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <set>

#include "base/text.h"
#include "base/time.h"

namespace tranche::guard {
namespace {

using namespace std::chrono_literals;
using config::GuardMemory;
using What = Order::What;

bool more_than(std::uint64_t sum, Bytes limit) {
  return sum > limit.value && sum - limit.value > kRounding.value;
}

constexpr Duration kPatienceWithForeignProcesses = 1s;  // a process may be listed before it appears in MPS's list
constexpr Duration kFirstDoubt = 200ms;                 // the same, for a process of a grant over its limit
constexpr Duration kGrace = 2s;                         // between SIGTERM and SIGKILL
constexpr Duration kFirstPause = 100ms;                 // after an order that was not carried out, doubling …
constexpr Duration kLongestPause = 5s;                  // … up to this
constexpr Duration kMemoryIsBack = 1s;                  // of a process that was killed
constexpr Duration kNoFigures = 10s;  // a stopped process is continued if its device has no figures for this long
constexpr int kRefusalsToBelieve = 2;

constexpr std::size_t kWordsOfStopped = 4;  // of a line of the file

// A client that remains (it has exited; its start is 0) counts as the newest, so that no running program is ended in
// its place.
bool newer(const Process& a, const Process& b) {
  const auto key = [](const Process& process) {
    const auto start = process.id.start_ticks;
    return std::pair(start == 0 ? std::numeric_limits<std::uint64_t>::max() : start, process.id.pid);
  };
  return key(a) > key(b);
}

class Judge {
 public:
  Judge(const std::vector<Device>& devices, const Inputs& inputs, Memory& memory, MonoTime now)
      : devices_(devices), inputs_(inputs), memory_(memory), now_(now) {}

  Verdict run() {
    for (const Device& device : devices_) look_at(device);
    std::erase_if(memory_.foreign_processes,
                  [&](const auto& entry) { return !foreign_processes_.contains(entry.first); });
    std::erase_if(memory_.over,
                  [&](const auto& entry) { return !over_.contains(entry.first) && !any_asked(entry.second); });
    tend_stopped();
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
      if (!process.mps_client) look_at_foreign_process(device, process);
      if (process.grant.empty() || process.dead) continue;
      Held& held = grants[process.grant];
      held.sum = held.sum + process.memory;
      held.processes.push_back(&process);
    }
    for (auto& [grant, held] : grants) {
      const auto limit = inputs_.limits.find({std::string(grant), device.uuid});
      if (limit == inputs_.limits.end()) {
        verdict_.without_limit.emplace_back(grant);
      } else if (more_than(held.sum.value, limit->second.memory)) {
        too_much(device, limit->first, limit->second, held);
      }
    }
  }

  // With the limit of the grant there, where it has one.
  Order order(What what, const GrantOnDevice& on) const {
    Order order;
    order.what = what;
    order.grant = on.first;
    order.device = on.second;
    const auto limit = inputs_.limits.find(on);
    if (limit == inputs_.limits.end()) return order;
    order.pool = limit->second.pool;
    order.resource = limit->second.resource;
    order.policy = to_string(limit->second.policy);
    order.limit = limit->second.memory;
    return order;
  }

  Order order(What what, const GrantOnDevice& on, const Held& held) const {
    Order over = order(what, on);
    over.sum = held.sum;
    over.since = memory_.over[on].since;
    return over;
  }

  void too_much(const Device& device, const GrantOnDevice& key, const Limit& limit, Held& held) {
    over_.insert(key);
    auto [it, fresh] = memory_.over.try_emplace(key);
    Memory::Over& over = it->second;
    if (fresh || over.since == MonoTime{}) over.since = device.sampled;
    over.most = std::max(over.most, held.sum);
    verdict_.open = true;
    std::ranges::sort(held.processes, [](const Process* a, const Process* b) { return newer(*a, *b); });
    switch (limit.policy) {
      case GuardMemory::kObserve:
        if (over.reported) return;
        over.reported = true;
        verdict_.orders.push_back(order(What::kReport, key, held));
        for (const Process* process : held.processes) verdict_.orders.back().processes.push_back(*process);
        return;
      case GuardMemory::kTerminateNewest:
      case GuardMemory::kTerminateAll:
        end(device, key, limit, held, over);
    }
  }

  enum class Next { kTerminate, kKill, kStop, kWait, kPassOver };

  static bool any_asked(const Memory::Over& over) {
    return std::ranges::any_of(over.processes, [](const auto& entry) { return entry.second.asked; });
  }

  // The next action on one process of a grant that is over its limit.
  Next next_for(const Device& device, const Process& process, const Memory::Process& before) const {
    if (process.memory.value == 0) return Next::kPassOver;
    if (before.asked) return Next::kWait;
    if (now_ < before.not_before) return before.refusals < kRefusalsToBelieve ? Next::kWait : Next::kPassOver;
    if (process.mps_client) return Next::kTerminate;
    return is_no_client(device, process) ? Next::kKill : Next::kStop;  // in doubt: the next samples show it
  }

  void remember(const Device& device, const Held& held, Memory::Over& over) const {
    for (const Process* process : held.processes) {
      const auto [it, fresh] = over.processes.try_emplace(process->id);
      if (fresh) it->second.since = device.sampled;
    }
    std::erase_if(over.processes, [&](const auto& entry) {
      return !entry.second.asked &&
             std::ranges::none_of(held.processes, [&](const Process* each) { return each->id == entry.first; });
    });
    std::erase_if(over.ended, [&](const auto& entry) { return now_ >= entry.second.at + kMemoryIsBack; });
  }

  // The driver lists a process for a moment after its exit; no other process may be ended in its place. Its start time
  // may be unknown, because it is no longer in /proc.
  static bool has_ended(const Memory::Over& over, const os::ProcessRef& id) {
    // `tranche mps` is ending it, and it has exited meanwhile.
    if (id.start_ticks == 0 && std::ranges::any_of(over.processes, [&id](const auto& each) {
          return each.first.pid == id.pid && each.first.start_ticks != 0 && each.second.asked;
        }))
      return true;
    const auto it = over.ended.find(id.pid);
    return it != over.ended.end() && (id.start_ticks == 0 || id.start_ticks == it->second.start_ticks);
  }

  // Another process of the container may have continued it.
  bool runs_again(const Process& process, const Memory::Process& before) const {
    return memory_.stopped.contains(process.id) && before.memory.value != 0 &&
           more_than(process.memory.value, before.memory);
  }

  void stop(const Order& order) {
    for (const Process& process : order.processes)
      memory_.stopped.try_emplace(process.id, Memory::Stopped{{order.grant, order.device}, now_});
  }

  void end(const Device& device, const GrantOnDevice& key, const Limit& limit, const Held& held, Memory::Over& over) {
    ending_.insert(key);
    remember(device, held, over);
    Order terminate = order(What::kTerminate, key, held);
    Order kill = order(What::kKill, key, held);
    Order doubt = order(What::kStop, key, held);
    Order again = doubt;
    again.again = true;
    terminate.since = kill.since = doubt.since = again.since = device.sampled;
    const auto add = [](Order& to, const Process& process, const Memory::Process& before) {
      to.processes.push_back(process);
      to.since = std::min(to.since, before.since);
    };
    std::uint64_t staying = held.sum.value;
    for (const Process* process : held.processes)
      if (has_ended(over, process->id)) staying -= std::min(staying, process->memory.value);
    if (!more_than(staying, limit.memory)) return;
    for (const Process* process : held.processes) {
      if (has_ended(over, process->id)) continue;
      Memory::Process& before = over.processes[process->id];
      const Next next = next_for(device, *process, before);
      if (next == Next::kTerminate) add(terminate, *process, before);
      if (next == Next::kKill) add(kill, *process, before);
      if (next == Next::kStop && !memory_.stopped.contains(process->id)) add(doubt, *process, before);
      if (next != Next::kTerminate && runs_again(*process, before)) add(again, *process, before);
      before.memory = process->memory;
      // Ends only as many of the newest processes as the others need to fit, and does not end another process in place
      // of the newest while that one may still go. If MPS has refused to end it repeatedly, that is unlikely: it is
      // asked again, together with the next.
      const bool hopeless = before.refusals >= kRefusalsToBelieve && next == Next::kTerminate;
      if (next != Next::kPassOver && !hopeless) staying -= std::min(staying, process->memory.value);
      if (limit.policy == GuardMemory::kTerminateNewest && !more_than(staying, limit.memory)) break;
    }
    spare_the_container(key, limit, over, terminate, kill, doubt);
    for (Order* each : {&doubt, &again}) {
      if (each->processes.empty()) continue;
      stop(*each);
      verdict_.orders.push_back(std::move(*each));
    }
    if (!kill.processes.empty()) {
      for (const Process& process : kill.processes) over.processes[process.id].not_before = now_ + kMemoryIsBack;
      verdict_.orders.push_back(std::move(kill));
    }
    if (!terminate.processes.empty()) {
      stop(terminate);
      for (const Process& process : terminate.processes) over.processes[process.id].asked = true;
      verdict_.orders.push_back(std::move(terminate));
    }
  }

  // When the first process of a container exits, the kernel kills all others in it, with their work in flight. Its
  // clients are therefore ended together with it, or before it if it is not a client itself.
  void spare_the_container(const GrantOnDevice& key, const Limit& limit, Memory::Over& over, Order& terminate,
                           Order& kill, Order& doubt) {
    const bool ends_first = std::ranges::any_of(terminate.processes, &Process::first);
    const bool kills_first = std::ranges::any_of(kill.processes, &Process::first);
    if (!ends_first && !kills_first) return;
    bool clients = false;
    for (const Device& device : devices_) {
      if (device.pool != limit.pool) continue;
      for (const Process& process : device.processes) {
        if (!process.mps_client || process.ours || process.dead || process.grant != key.first ||
            has_ended(over, process.id))
          continue;
        clients = true;
        const auto [it, fresh] = over.processes.try_emplace(process.id);
        if (fresh) it->second.since = device.sampled;
        const bool named =
            std::ranges::find(terminate.processes, process.id, &Process::id) != terminate.processes.end();
        if (!named && !it->second.asked && now_ >= it->second.not_before) terminate.processes.push_back(process);
      }
    }
    if (!kills_first || !clients) return;
    std::erase_if(kill.processes, [&](const Process& process) {
      if (!process.first) return false;
      if (!memory_.stopped.contains(process.id)) doubt.processes.push_back(process);
      return true;
    });
  }

  // Continues stopped processes once their grant is within its limit, or once they need not end for another reason: a
  // process stays stopped only for a reason that is present now. After a restart of the agent, the first figures decide
  // about processes that it had stopped before.
  void tend_stopped() {
    std::map<GrantOnDevice, Order> orders;
    for (const auto& [id, stopped] : memory_.stopped) {
      const auto over = memory_.over.find(stopped.because);
      if (ending_.contains(stopped.because) || (over != memory_.over.end() && any_asked(over->second))) continue;
      const auto device = std::ranges::find(devices_, stopped.because.second, &Device::uuid);
      const bool seen_since = device != devices_.end() && device->sampled > stopped.since;
      if (!seen_since && now_ < stopped.since + kNoFigures) continue;
      Order& again = orders.try_emplace(stopped.because, order(What::kContinue, stopped.because)).first->second;
      again.since = stopped.since;
      Process process{.id = id, .memory = {}, .grant = again.grant};
      for (const Device& each : devices_) {
        for (const Process& listed : each.processes) {
          if (each.uuid != again.device || listed.grant != again.grant) continue;
          if (again.processes.empty()) again.sum = again.sum + listed.memory;
          if (listed.id == id) process = listed;
        }
      }
      again.processes.push_back(std::move(process));
    }
    for (auto& [key, again] : orders) {
      for (const Process& process : again.processes) memory_.stopped.erase(process.id);
      verdict_.orders.push_back(std::move(again));
    }
    if (!memory_.stopped.empty()) verdict_.open = true;
  }

  // A foreign process that was already known when the driver last listed the clients.
  bool is_no_client(const Device& device, const Process& process) const {
    const auto it = memory_.foreign_processes.find(process.id);
    return it != memory_.foreign_processes.end() && device.clients_read >= it->second.since + kFirstDoubt;
  }

  void look_at_foreign_process(const Device& device, const Process& process) {
    foreign_processes_.insert(process.id);
    auto [it, fresh] = memory_.foreign_processes.try_emplace(process.id);
    Memory::ForeignProcess& foreign_process = it->second;
    if (fresh) foreign_process.since = device.sampled;
    if (inputs_.foreign_processes != config::GuardForeignProcesses::kTerminate || !process.in_container ||
        foreign_process.ended)
      return;
    verdict_.open = true;
    const bool asked = foreign_process.asked_to_end != MonoTime{};
    if (!asked && device.clients_read < foreign_process.since + kPatienceWithForeignProcesses) return;
    if (asked && now_ < foreign_process.asked_to_end + kGrace) return;
    Order end = order(asked ? What::kEnd : What::kAskToEnd, {process.grant, device.uuid});
    end.pool = device.pool;
    end.policy = to_string(inputs_.foreign_processes);
    end.processes = {process};
    end.sum = process.memory;
    end.since = foreign_process.since;
    if (asked) {
      foreign_process.ended = true;
    } else {
      foreign_process.asked_to_end = now_;
    }
    verdict_.orders.push_back(std::move(end));
  }

  const std::vector<Device>& devices_;
  const Inputs& inputs_;
  Memory& memory_;
  MonoTime now_;
  Verdict verdict_;
  std::set<GrantOnDevice> over_;
  std::set<GrantOnDevice> ending_;  // those of them whose processes must end
  std::set<os::ProcessRef> foreign_processes_;
};

}  // namespace

Verdict judge(const std::vector<Device>& devices, const Inputs& inputs, Memory& memory, MonoTime now) {
  return Judge(devices, inputs, memory, now).run();
}

void answered(Memory& memory, const Order& order, const std::vector<mps::Terminated>& clients, MonoTime now) {
  const auto it = memory.over.find({order.grant, order.device});
  if (it == memory.over.end()) return;
  Memory::Over& over = it->second;
  over.failures = clients.empty() ? over.failures + 1 : 0;
  for (const Process& process : order.processes) {
    const auto record = over.processes.find(process.id);
    if (record == over.processes.end()) continue;
    record->second.asked = false;
    const auto client = std::ranges::find(clients, process.id.pid, &mps::Terminated::pid);
    if (clients.empty()) {
      record->second.not_before = now + doubled(kFirstPause, kLongestPause, over.failures);
    } else if (client != clients.end() && client->outcome == mps::TerminateOutcome::kTerminated) {
      memory.stopped.erase(process.id);
      over.ended[process.id.pid] = {process.id.start_ticks, now};
      over.processes.erase(record);
    } else {
      record->second.not_before = now + doubled(kFirstPause, kLongestPause, ++record->second.refusals);
    }
  }
}

std::string render_stopped(const Memory::StoppedProcesses& stopped) {
  std::string text;
  for (const auto& [id, each] : stopped)
    text += fmt::format("{} {} {} {}\n", id.pid, id.start_ticks, each.because.first, each.because.second);
  return text;
}

Memory::StoppedProcesses parse_stopped(std::string_view text) {
  Memory::StoppedProcesses stopped;
  for (const auto line : lines_of(text)) {
    const auto words = words_of(line);
    const auto process = words.size() == kWordsOfStopped ? os::parse_process(words[0], words[1]) : std::nullopt;
    if (process) stopped[*process].because = {std::string(words[2]), std::string(words[3])};
  }
  return stopped;
}

std::map<std::string, PoolProcesses> pool_processes(const mps::PoolReports& reports) {
  std::map<std::string, PoolProcesses> pools;
  for (const auto& [id, report] : reports.pools) {
    PoolProcesses& pool = pools[id];
    pool.state = report.state;
    pool.has_endpoints = !report.endpoints.empty();
    pool.own = {report.servers.begin(), report.servers.end()};
    for (const pid_t pid : {reports.pid, report.daemon_pid, report.proof.pid})
      if (pid > 0) pool.own.insert(pid);
    for (const auto& endpoint : report.endpoints) {
      for (const pid_t pid : endpoint.clients) pool.grant_of[pid] = endpoint.grant;
      for (const pid_t pid : endpoint.remnants) pool.remnants[pid] = endpoint.grant;
      for (const pid_t pid : endpoint.dead) pool.dead[pid] = endpoint.grant;
    }
  }
  return pools;
}

bool has_host_daemons_name(std::string_view program) {
  constexpr std::array<std::string_view, 6> kNames{"nvidia-persistenced", "nv-hostengine",        "dcgm",
                                                   "nv-fabricmanager",    "nvidia-fabricmanager", "nvidia-cuda-mps-"};
  const auto name = program.substr(program.rfind('/') + 1);  // npos + 1 is 0
  return std::ranges::any_of(kNames, [name](std::string_view known) { return name.starts_with(known); });
}

}  // namespace tranche::guard
