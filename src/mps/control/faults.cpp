#include "mps/control/faults.h"

#include <algorithm>

#include "base/enum_names.h"

namespace tranche::mps {
namespace {

constexpr std::size_t kMostRemembered = 256;  // deaths; bounds the cost of a log that repeats them

template <class T>
void remember(std::deque<T>& all, T one) {
  all.push_back(std::move(one));
  if (all.size() > kMostRemembered) all.pop_front();
}

}  // namespace

std::string_view to_string(FaultKind kind) {
  return enum_name<FaultKind::kUncleanExit>(kind, {"fatal", "exception", "unclean-exit"});
}

FaultHistory::Effect FaultHistory::add(Fault fault) {
  faults_.push_back(std::move(fault));
  if (faults_.size() > kMostFaults) faults_.pop_front();
  return Effect::kFault;
}

FaultHistory::Dying FaultHistory::dying_at(int server) const {
  const auto found = std::ranges::find(dying_, server, &Dying::server);
  return found == dying_.end() ? Dying() : *found;
}

FaultHistory::Effect FaultHistory::read(const LogLine& line, WallTime now, const GrantOf& grant_of) {
  const auto name = [&grant_of](Fault& fault, int pid) {
    if (auto grant = grant_of ? grant_of(pid) : std::string(); !grant.empty()) fault.grants[pid] = std::move(grant);
  };
  switch (line.what) {
    case LogWhat::kClientLost:
      if (line.number > 0) remember(dying_, {line.writer, line.pid, grant_of ? grant_of(line.pid) : std::string()});
      return Effect::kNothing;
    case LogWhat::kClientLeft:
      std::erase_if(dying_, [&](const Dying& one) { return one.server == line.writer && one.pid == line.pid; });
      return Effect::kNothing;
    case LogWhat::kFatalCulprit: {
      const Dying dead = dying_at(line.writer);
      Fault fault{now, FaultKind::kFatal, line.pid, {}, line.writer};
      if (dead.pid != 0 && dead.pid != line.pid) {
        fault = {now, FaultKind::kUncleanExit, dead.pid, {line.pid}, line.writer};
        if (!dead.grant.empty()) fault.grants[dead.pid] = dead.grant;
      }
      name(fault, line.pid);
      return add(std::move(fault));
    }
    case LogWhat::kFatalVictim: {
      if (faults_.empty() || faults_.back().server != line.writer) return Effect::kNothing;
      Fault& last = faults_.back();
      const bool known = line.pid == last.culprit || std::ranges::find(last.victims, line.pid) != last.victims.end();
      if (known || last.victims.size() >= kMostRemembered) return Effect::kNothing;
      last.victims.push_back(line.pid);
      name(last, line.pid);
      return Effect::kVictim;
    }
    case LogWhat::kFatalException:
      return add({now, FaultKind::kException, 0, {}, line.writer});
    case LogWhat::kServerExited:
      std::erase_if(dying_, [&](const Dying& one) { return one.server == line.pid; });
      return Effect::kNothing;
    default:
      return Effect::kNothing;
  }
}

}  // namespace tranche::mps
