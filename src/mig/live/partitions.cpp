#include "mig/live/partitions.h"

#include <utility>

namespace tranche::mig {
namespace {

// What decisions are made from: not who uses what.
bool same_layout(const GpuState& a, const GpuState& b) {
  const auto same = [](const GpuInstance& x, const GpuInstance& y) {
    return x.id == y.id && x.profile_id == y.profile_id && x.placement == y.placement && x.compute == y.compute;
  };
  return a.enabled == b.enabled && a.index == b.index && a.profiles == b.profiles &&
         std::ranges::equal(a.instances, b.instances, same);
}

}  // namespace

MigPartitions::MigPartitions(os::Loop& loop, Callbacks callbacks)
    : callbacks_(std::move(callbacks)), driver_(loop, "", [this] { look(); }) {}

void MigPartitions::look() {
  look_ = true;
  step();
}

void MigPartitions::change(const std::string& gpu_uuid, const MigPartition& partition, Changed done) {
  jobs_.push_back({gpu_uuid, partition, std::move(done)});
  step();
}

void MigPartitions::step() {
  if (busy_) return;
  if (!jobs_.empty()) {
    busy_ = true;
    const Job& job = jobs_.front();
    const auto known = gpus_.find(job.gpu);
    // MigDriver passes over a GPU that hangs by its index; a GPU that was never read has none.
    MigDriver::Work work{known == gpus_.end() ? ~0u : known->second.index, job.gpu, {}, job.partition};
    return driver_.apply(callbacks_.driver(), {std::move(work)}, "", [this](std::vector<MigDriver::Done> done) {
      busy_ = false;
      const Job changed = std::move(jobs_.front());
      jobs_.pop_front();
      on_changed(changed, done.front());
      step();
    });
  }
  if (!std::exchange(look_, false)) return;
  busy_ = true;
  driver_.read(callbacks_.driver(), [this](const MigDriver::Reading& reading) {
    busy_ = false;
    on_read(reading);
    step();
  });
}

bool MigPartitions::is_new(const GpuState& gpu) {
  const auto before = gpus_.find(gpu.uuid);
  const bool changed = before == gpus_.end() || !same_layout(before->second, gpu);
  gpus_.insert_or_assign(gpu.uuid, gpu);
  return changed;
}

// A GPU that does not answer keeps what was read of it: its instances are as they were.
void MigPartitions::on_read(const MigDriver::Reading& reading) {
  bool changed = !std::exchange(known_, true) || problem_ != reading.problem;
  problem_ = reading.problem;
  for (const auto& gpu : reading.gpus) changed |= is_new(gpu);
  if (changed) callbacks_.changed();
}

void MigPartitions::on_changed(const Job& job, const MigDriver::Done& result) {
  const bool removes = job.partition.what == MigPartition::What::kRemove;
  const bool changed = result.partition.now && is_new(*result.partition.now);
  if (result.outcome.what != MigOutcome::What::kDone)
    job.done(fail(Kind::kUnavailable, result.outcome.why + "; kubelet asks again", job.gpu));
  else if (!result.partition.status && !(removes && result.partition.status.error().kind == Kind::kNotFound))
    job.done(std::unexpected(result.partition.status.error()));
  else
    job.done(result.partition.uuid);
  if (changed) callbacks_.changed();  // after whose it is was recorded
}

}  // namespace tranche::mig
