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
    : callbacks_(std::move(callbacks)), driver_(loop, [this] { look(); }) {}

void MigPartitions::look() {
  again_ = std::exchange(looking_, true);
  if (again_) return;
  driver_.read(callbacks_.driver(), [this](const MigDriver::Reading& reading) {
    looking_ = false;
    on_read(reading);
    if (again_) look();
  });
}

void MigPartitions::change(const std::string& gpu_uuid, const MigPartition& partition, Changed done) {
  const auto known = gpus_.find(gpu_uuid);
  // MigDriver passes over a GPU that hangs by its index; a GPU that was never read has none.
  MigDriver::Work work{{.index = known == gpus_.end() ? ~0u : known->second.index, .uuid = gpu_uuid}, partition};
  driver_.apply(
      callbacks_.driver(), {std::move(work)},
      [this, done = std::move(done)](const std::vector<MigDriver::Done>& all) { on_changed(all.front(), done); });
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

void MigPartitions::on_changed(const MigDriver::Done& result, const Changed& done) {
  const auto& [work, outcome, made] = result;
  const bool removes = work.partition->what == MigPartition::What::kRemove;
  const bool changed = made.now && is_new(*made.now);
  if (outcome.what != MigOutcome::What::kDone)
    done(fail(Kind::kUnavailable, outcome.why + "; kubelet asks again", work.target.uuid));
  else if (!made.status && !(removes && made.status.error().kind == Kind::kNotFound))
    done(std::unexpected(made.status.error()));
  else
    done(made.uuid);
  if (changed) callbacks_.changed();  // after whose it is was recorded
}

}  // namespace tranche::mig
