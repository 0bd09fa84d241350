#include "node/dra/claims.h"

#include <algorithm>
#include <utility>

#include "os/log/log.h"

namespace tranche::node {
namespace {

using Act = mig::MigPartition::What;

mig::MigPartition partition_of(const dra::Part& part, Act what) {
  return {part.instance.value_or(mig::WholeInstance{}), what, part.is_made() ? part.gpu_uuid : std::string()};
}

void log_change(const char* event, const dra::PreparedClaim& claim, const dra::Part& part, const std::string& device) {
  log::info(event, {{"claim", dra::to_string(claim.name)},
                    {"gpu", part.parent_uuid},
                    {"device", part.devices.front().device},
                    {"uuid", device}});
}

}  // namespace

ClaimPartitions::ClaimPartitions(os::Loop& loop, mig::MigPartitions& mig, Callbacks callbacks)
    : loop_(loop), mig_(mig), callbacks_(std::move(callbacks)) {}

struct ClaimPartitions::Making {
  dra::PreparedClaim claim;
  std::function<void(Status)> done;
  std::size_t at = 0;
  dra::Part& part() { return claim.parts[at]; }
};

void ClaimPartitions::make(const dra::PreparedClaim& claim, std::function<void(Status)> done) {
  make_next(std::make_shared<Making>(Making{claim, std::move(done)}));
}

void ClaimPartitions::make_next(const std::shared_ptr<Making>& making) {
  const auto& parts = making->claim.parts;
  while (making->at < parts.size() && !parts[making->at].instance) ++making->at;
  if (making->at == parts.size()) return making->done({});
  change(making, making->part().is_made() ? Act::kFind : making->part().begun ? Act::kFinish : Act::kLook);
}

void ClaimPartitions::change(const std::shared_ptr<Making>& making, Act what) {
  mig_.change(making->part().parent_uuid, partition_of(making->part(), what),
              [this, making, what](const Result<std::string>& device) { on_changed(making, what, device); });
}

// False: it is not on disk, and the making is over.
bool ClaimPartitions::record(const std::shared_ptr<Making>& making) {
  const auto recorded = callbacks_.record(making->claim.name.uid, making->at, making->part());
  if (!recorded) making->done(recorded);
  return recorded.has_value();
}

void ClaimPartitions::on_changed(const std::shared_ptr<Making>& making, Act what, const Result<std::string>& device) {
  auto& part = making->part();
  if (!device && what == Act::kFind && device.error().kind == Kind::kNotFound) {
    log::warning("claim.partition_gone", {{"claim", dra::to_string(making->claim.name)},
                                          {"uuid", part.gpu_uuid},
                                          {"effect", "it is made again, with a different UUID"}});
    part.gpu_uuid = part.parent_uuid;
    part.begun = false;
    if (record(making)) make_next(making);
    return;
  }
  if (!device) {
    auto why = within(device.error(), "cannot make the MIG instance of " + part.devices.front().device);
    if (what == Act::kMake && why.kind == Kind::kConflict) {
      part.begun = false;
      const auto recorded = callbacks_.record(making->claim.name.uid, making->at, part);
      if (!recorded) why = recorded.error();
    }
    return making->done(std::unexpected(std::move(why)));
  }
  if (what == Act::kLook) {
    part.begun = true;
    if (record(making)) change(making, Act::kMake);
    return;
  }
  if (part.gpu_uuid != *device) {
    part.gpu_uuid = *device;
    if (!record(making)) return;
    log_change("claim.partition_made", making->claim, part, *device);
  }
  if (!found_.contains(*device)) callbacks_.rescan();
  wait_for(*device, [this, making](const Status& there) {
    if (!there) return making->done(there);
    ++making->at;
    make_next(making);
  });
}

void ClaimPartitions::wait_for(const std::string& device, std::function<void(Status)> done) {
  if (found_.contains(device)) return done({});
  const auto at = waiting_.insert(waiting_.end(), Waiting{device, std::move(done), std::make_unique<os::Timer>(loop_)});
  at->timer->start(kScanPatience, [this, at] {
    const auto late = std::move(*at);
    waiting_.erase(at);
    late.done(fail(Kind::kUnavailable,
                   "the driver made the MIG device and the scan of the GPUs does not have it yet, "
                   "or not the device nodes that open it; kubelet asks again",
                   late.device));
  });
}

void ClaimPartitions::found(std::set<std::string> devices) {
  found_ = std::move(devices);
  std::list<Waiting> there;
  for (auto at = waiting_.begin(); at != waiting_.end();) {
    const auto one = at++;
    if (found_.contains(one->device)) there.splice(there.end(), waiting_, one);
  }
  for (auto& each : there) {
    each.timer->stop();
    each.done({});
  }
}

void ClaimPartitions::remove(const dra::PreparedClaim& claim, std::function<void(Status)> done, std::size_t at) {
  while (at < claim.parts.size() && !claim.parts[at].owns_its_place()) ++at;
  if (at == claim.parts.size()) return done({});
  const auto& part = claim.parts[at];
  mig_.change(part.parent_uuid, partition_of(part, Act::kRemove),
              [this, claim, at, done = std::move(done)](const Result<std::string>& removed) {
                const auto& gone = claim.parts[at];
                if (!removed)
                  return done(std::unexpected(within(
                      removed.error(),
                      "cannot destroy the MIG instance of " + gone.devices.front().device + "; kubelet asks again")));
                log_change("claim.partition_removed", claim, gone, gone.is_made() ? gone.gpu_uuid : "");
                callbacks_.rescan();
                remove(claim, done, at + 1);
              });
}

}  // namespace tranche::node
