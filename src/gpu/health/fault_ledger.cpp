#include "gpu/health/fault_ledger.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/text.h"
#include "config/document/amounts.h"

namespace tranche::gpu {
namespace {

constexpr int kMostDoublings = 4;  // 16 times exceeds the longest period already

// The recovery action that the driver requests (NVML's field 230); "" = none that keeps the GPU from work, as draining
// its peers (3) or recovering a multi-node domain (5).
std::string_view demand_text(std::uint32_t demand) {
  static constexpr std::array<std::string_view, 6> kTexts{
      "", "a reset of the GPU", "a reboot of the node", "", "the GPU to be drained and reset", ""};
  return demand < kTexts.size() ? kTexts.at(demand) : "a reset of its bus or of the system";
}

std::string xid_text(std::uint64_t xid, bool guessed) {
  const XidRule* rule = find_xid(xid);
  return fmt::format("XID {}{}{}", xid, rule == nullptr ? " (not in our table)" : fmt::format(" ({})", rule->meaning),
                     guessed ? ", and the driver would not say on which GPU" : "");
}

}  // namespace

Scope scope_of(const Inventory& inventory, std::string_view uuid, std::uint32_t gpu_instance,
               std::uint32_t compute_instance) {
  Scope scope;
  scope.guessed = uuid.empty();
  for (const auto& gpu : inventory.gpus) {
    // Without MIG there are no instances to distinguish, whatever the event names.
    const bool names_instance = gpu.uuid == uuid && gpu_instance != kNoInstance && !gpu.mig_devices.empty();
    if ((scope.guessed || gpu.uuid == uuid) && !names_instance) scope.targets.push_back({gpu.uuid, gpu.uuid});
    for (const auto& mig : gpu.mig_devices)
      if (mig.uuid == uuid || (names_instance && mig.gpu_instance == gpu_instance &&
                               (compute_instance == kNoInstance || mig.compute_instance == compute_instance)))
        scope.targets.push_back({mig.uuid, gpu.uuid});
    if (names_instance && scope.targets.empty())
      scope.unattributed =
          fmt::format("GPU {} has no MIG device in GPU instance {}{}", gpu.uuid, gpu_instance,
                      compute_instance == kNoInstance ? "" : fmt::format(", compute instance {}", compute_instance));
  }
  if (scope.targets.empty() && scope.unattributed.empty())
    scope.unattributed = scope.guessed ? "no GPU is known" : in_quotes(uuid) + " is no GPU or MIG device of this node";
  return scope;
}

Duration FaultLedger::quiet_of(int level) const {
  return std::min(settings_.quiet_period * (1 << std::clamp(level, 0, kMostDoublings)), settings_.longest());
}

void FaultLedger::stay_quiet(Record& record, int level, MonoTime now) const {
  record.quiet_from = now;
  record.quiet = quiet_of(level);
  record.look_at = now + record.quiet;
}

void FaultLedger::raise_level(Record& record, MonoTime now) const {
  if (record.open && now - record.strike < settings_.burst()) return;
  const auto calms = (now - record.touched) / settings_.longest();
  record.level = calms > record.level ? 0 : std::min(record.level - static_cast<int>(calms) + 1, kMostDoublings);
  record.strike = now;
}

FaultLedger::Record& FaultLedger::open(const FaultTarget& device, MonoTime now) {
  const auto [at, first] = records_.try_emplace(device.uuid);
  Record& record = at->second;
  if (first) {
    record.device = device;
    record.strike = now;
  } else {
    raise_level(record, now);
  }
  record.open = true;
  record.touched = now;
  stay_quiet(record, record.level, now);
  return record;
}

void FaultLedger::fault(const FaultTarget& device, std::uint64_t xid, XidClass cls, bool guessed, MonoTime now) {
  if (cls != XidClass::kDrain && cls != XidClass::kReset) return;
  Record& record = open(device, now);
  if (record.cls == XidClass::kReset) return;  // the worse class stays
  record.cls = cls;
  record.xid = xid;
  record.guessed = guessed;
}

void FaultLedger::lost(const std::string& gpu, MonoTime now) {
  if (const auto at = records_.find(gpu); at != records_.end() && at->second.lost) return;
  open({gpu, gpu}, now).lost = true;
}

// The fault was dealt with. The first time the record is closed; later the device must also stay quiet for a while.
void FaultLedger::recover(Record& record, MonoTime now) const {
  record.lost = record.demanded = record.guessed = false;
  record.cls = XidClass::kIgnore;
  record.xid = 0;
  record.touched = now;
  record.open = record.level > 0;
  if (record.open) stay_quiet(record, record.level - 1, now);
}

void FaultLedger::back(const std::string& gpu, MonoTime now) {
  demands_.erase(gpu);
  for (auto& [uuid, record] : records_)
    if (record.device.gpu == gpu && record.open) recover(record, now);
}

void FaultLedger::answered(const std::string& gpu, std::optional<std::uint32_t> demand, MonoTime now) {
  const bool demanding = demand && !demand_text(*demand).empty();
  if (demanding) {
    const auto at = records_.find(gpu);
    Record& record = at != records_.end() && at->second.open ? at->second : open({gpu, gpu}, now);
    record.cls = XidClass::kReset;
    demands_[gpu] = *demand;
  } else if (demand) {
    demands_.erase(gpu);
  }
  for (auto& [uuid, record] : records_) {
    if (record.device.gpu != gpu || !record.open || record.lost) continue;
    if (demanding) {
      record.demanded = true;
    } else if (record.demanded) {
      if (demand) recover(record, now);
    } else if (record.cls != XidClass::kReset && now - record.quiet_from >= record.quiet) {
      record.open = false;
      record.cls = XidClass::kIgnore;
      record.xid = 0;
      record.touched = now;
    }
  }
}

void FaultLedger::keep_only(const Inventory& inventory) {
  const auto gone = [&](const std::string& uuid) { return scope_of(inventory, uuid, ~0u, ~0u).targets.empty(); };
  std::erase_if(records_, [&](const auto& entry) { return gone(entry.first); });
  std::erase_if(demands_, [&](const auto& entry) { return gone(entry.first); });
  std::erase_if(unwatched_, [&](const auto& entry) { return gone(entry.first); });
}

bool FaultLedger::wants_look(MonoTime now) {
  bool wanted = false;
  for (auto& [uuid, record] : records_) {
    if (!record.open || record.lost || record.look_at > now) continue;
    // A fault that needs a reset ends when the driver withdraws its request. An event reports that, so poll rarely.
    record.look_at = now + (record.cls == XidClass::kReset ? settings_.quiet_period : settings_.look_again());
    wanted = true;
  }
  return wanted;
}

std::optional<MonoTime> FaultLedger::next_change() const {
  std::optional<MonoTime> next;
  for (const auto& [uuid, record] : records_)
    if (record.open && !record.lost) next = next ? std::min(*next, record.look_at) : record.look_at;
  return next;
}

Unhealthy FaultLedger::describe(const Record& record) const {
  if (record.lost)
    return {Cause::kLost,
            "the GPU does not answer the driver (lost); it takes pods again when it is back: reset it or "
            "reboot the node"};
  const std::string what = record.xid == 0 ? "" : xid_text(record.xid, record.guessed);
  if (const auto demand = demands_.find(record.device.gpu); demand != demands_.end())
    return {Cause::kReset, fmt::format("{}{}the driver asks for {}; drain its pods first", what,
                                       what.empty() ? "" : ": ", demand_text(demand->second))};
  if (record.cls == XidClass::kReset)
    return {
        Cause::kReset,
        fmt::format("{}{}the GPU needs a reset; drain its pods, then reset the GPU: `nvidia-smi --gpu-reset -i {}`, "
                    "or reboot (not `tranche reset`)",
                    what, what.empty() ? "" : ": ", record.device.gpu)};
  return {Cause::kXid,
          fmt::format("{}: receives no new pods until it responds and {} pass without a further fault",
                      what.empty() ? "back after repeated faults" : what, config::render_duration(record.quiet))};
}

std::map<std::string, Unhealthy> FaultLedger::faults() const {
  std::map<std::string, Unhealthy> faults;
  for (const auto& [uuid, record] : records_)
    if (record.open) faults.emplace(uuid, describe(record));
  for (const auto& [gpu, why] : unwatched_)
    faults.try_emplace(gpu, Unhealthy{Cause::kUnwatched, "faults of this GPU would not be seen: " + why});
  return faults;
}

}  // namespace tranche::gpu
