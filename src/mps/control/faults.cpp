#include "mps/control/faults.h"

#include <algorithm>

#include "base/enum_names.h"

namespace tranche::mps {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kMostRemembered = 256;  // deaths; bounds the cost of a log that repeats them

// After a death, when the keeper closes the client's descriptors: its patience is 5 s, one close takes up to 2.1 s, and
// others may be closed before (docs/internals/evidence/deaths.md).
constexpr auto kClosedFrom = 4s, kClosedUntil = 11s;

}  // namespace

std::string_view to_string(FaultKind kind) {
  return enum_name<FaultKind::kUncleanExit>(kind, {"fatal", "exception", "unclean-exit"});
}

FaultHistory::Effect FaultHistory::add(Fault fault) {
  faults_.push_back(std::move(fault));
  if (faults_.size() > kMostFaults) faults_.pop_front();
  return Effect::kFault;
}

void FaultHistory::remember(Dying one) {
  std::erase_if(dying_, [&](const Dying& each) { return each.left && one.at - each.at > kClosedUntil; });
  dying_.push_back(std::move(one));
  if (dying_.size() <= kMostRemembered) return;
  const auto left = std::ranges::find(dying_, true, &Dying::left);
  dying_.erase(left == dying_.end() ? dying_.begin() : left);
}

FaultHistory::Effect FaultHistory::read(const LogLine& line, WallTime now, const GrantOf& grant_of) {
  const auto name = [&grant_of](Fault& fault, int pid) {
    if (auto grant = grant_of ? grant_of(pid) : std::string(); !grant.empty()) fault.grants[pid] = std::move(grant);
  };
  switch (line.what) {
    case LogWhat::kClientLost:
      remember({line.writer, line.pid, grant_of ? grant_of(line.pid) : std::string(), now, line.number > 0});
      return Effect::kNothing;
    case LogWhat::kClientLeft:
      for (Dying& one : dying_) one.left = one.left || (one.server == line.writer && one.pid == line.pid);
      return Effect::kNothing;
    case LogWhat::kFatalCulprit: {
      Fault fault{now, FaultKind::kFatal, line.pid, {}, line.writer};
      name(fault, line.pid);
      const std::string grant = fault.grants.contains(line.pid) ? fault.grants[line.pid] : std::string();
      const Dying* dead = nullptr;
      bool closed = false;  // lately, another container's
      for (const Dying& one : dying_) {
        if (one.server != line.writer) continue;
        if (!one.left && one.contexts && dead == nullptr) dead = &one;
        const auto since = now - one.at;
        closed = closed || (one.left && since >= kClosedFrom && since <= kClosedUntil &&
                            (one.grant.empty() || one.grant != grant));
      }
      if (dead != nullptr ? dead->pid == line.pid : !closed) return add(std::move(fault));
      fault.culprit = dead == nullptr ? 0 : dead->pid;
      fault.victims = {line.pid};
      if (dead != nullptr) fault.kind = FaultKind::kUncleanExit;
      if (dead != nullptr && !dead->grant.empty()) fault.grants[dead->pid] = dead->grant;
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
