// Makes the MIG instances that prepared claims have and do not find, and destroys them with the claim
// (`dra.partitions: onDemand`). The record of one part of a claim:
//
//   recorded ──its place is free──► begun ──made──► with its UUID ──the agent's scan has it──► can be described
//       ▲ ▲                           │                  │
//       │ └── something is in the way ┘                  │
//       └────────── gone (a reboot, an administrator) ◄──┘
//
// Each step is on disk before the next, so an agent that is killed in between goes on with it: what is at the place of
// a part that was begun, with its profile, is the claim's. Nothing else is ever destroyed.
#include <algorithm>
#include <utility>

#include "node/dra/claims.h"
#include "os/log/log.h"

namespace tranche::node {
namespace {

constexpr Duration kScanPatience = std::chrono::seconds(10);  // of the agent's scan, for a MIG device that was made

mig::MigPartition partition_of(const dra::Part& part, mig::MigPartition::What what) {
  return {part.instance.value_or(mig::WholeInstance{}), what, part.is_made() ? part.gpu_uuid : std::string()};
}

void log_change(const char* event, const dra::PreparedClaim& claim, const dra::Part& part, const std::string& device) {
  log::info(event, {{"claim", dra::to_string(claim.name)},
                    {"gpu", part.parent_uuid},
                    {"device", part.devices.front().device},
                    {"uuid", device}});
}

}  // namespace

void Claims::make_instances(const std::string& uid, std::size_t at, Ended done) {
  const auto& parts = prepared_.at(uid).parts;
  while (at < parts.size() && !parts[at].instance) ++at;
  if (at == parts.size()) return done({});
  const auto& part = parts[at];
  change_instance(uid, at, part.is_made() ? Act::kFind : part.begun ? Act::kFinish : Act::kLook, std::move(done));
}

void Claims::change_instance(const std::string& uid, std::size_t at, Act what, Ended done) {
  const auto& part = prepared_.at(uid).parts[at];
  mig_.change(part.parent_uuid, partition_of(part, what),
              [this, uid, at, what, done = std::move(done)](const Result<std::string>& device) {
                on_changed(uid, at, what, device, done);
              });
}

void Claims::on_changed(const std::string& uid, std::size_t at, Act what, const Result<std::string>& device,
                        const Ended& done) {
  auto claim = prepared_.at(uid);
  auto& part = claim.parts[at];
  const auto record_it = [&] { return record(uid, claim, "cannot write down which MIG device the claim has"); };
  if (!device && what == Act::kFind && device.error().kind == Kind::kNotFound) {
    log::warning("claim.partition_gone", {{"claim", dra::to_string(claim.name)},
                                          {"uuid", part.gpu_uuid},
                                          {"effect", "it is made again, with a different UUID"}});
    part.gpu_uuid = part.parent_uuid;
    part.begun = false;
    const auto recorded = record_it();
    return recorded ? make_instances(uid, at, done) : done(recorded);
  }
  if (!device) {
    auto why = within(device.error(), "cannot make the MIG instance of " + part.devices.front().device);
    if (what == Act::kMake && why.kind == Kind::kConflict) {
      part.begun = false;
      if (const auto recorded = record_it(); !recorded) why = recorded.error();
    }
    return done(std::unexpected(std::move(why)));
  }
  if (what == Act::kLook) {
    part.begun = true;
    const auto recorded = record_it();
    return recorded ? change_instance(uid, at, Act::kMake, done) : done(recorded);
  }
  if (part.gpu_uuid != *device) {
    part.gpu_uuid = *device;
    if (const auto recorded = record_it(); !recorded) return done(recorded);
    log_change("claim.partition_made", claim, part, *device);
  }
  if (!is_there(*device)) callbacks_.rescan();
  wait(uid, kScanPatience, [this, uid, at, device = *device, done](bool last) {
    const bool there = is_there(device);
    if (there) {
      make_instances(uid, at + 1, done);
    } else if (last) {
      done(fail(Kind::kUnavailable,
                "the driver made the MIG device and the scan of the GPUs does not have it yet, "
                "or not the device nodes that open it; kubelet asks again",
                device));
    }
    return there || last;
  });
}

bool Claims::is_there(const std::string& device) const {
  return inputs_.mig_devices.contains(device) &&
         std::ranges::find(inputs_.gpus, device, &plan::PlannedDevice::uuid) != inputs_.gpus.end();
}

void Claims::remove_instances(const std::string& uid, std::size_t at, Ended done) {
  const auto& parts = prepared_.at(uid).parts;
  while (at < parts.size() && !parts[at].owns_its_place()) ++at;
  if (at == parts.size()) return done({});
  mig_.change(parts[at].parent_uuid, partition_of(parts[at], Act::kRemove),
              [this, uid, at, done = std::move(done)](const Result<std::string>& removed) {
                const auto& claim = prepared_.at(uid);
                const auto& gone = claim.parts[at];
                if (!removed)
                  return done(std::unexpected(within(
                      removed.error(),
                      "cannot destroy the MIG instance of " + gone.devices.front().device + "; kubelet asks again")));
                log_change("claim.partition_removed", claim, gone, gone.is_made() ? gone.gpu_uuid : "");
                callbacks_.rescan();
                remove_instances(uid, at + 1, done);
              });
}

}  // namespace tranche::node
