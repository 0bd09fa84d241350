#include <algorithm>
#include <tuple>

#include "base/time.h"
#include "gpu/driver/session.h"

namespace tranche::gpu::nvml {
namespace {

constexpr Duration kClientsAtLeastEvery = std::chrono::seconds(5);
constexpr Duration kUnchangedEvery = std::chrono::milliseconds(100);  // a GPU near its limit is read every 16 ms
constexpr std::uint64_t kGrowth = 16ULL << 20;  // between two reads of used memory, to trigger a full sample

bool has_grown(const Functions& f, Device device, std::optional<std::uint64_t>& used) {
  const auto memory = reported(f.memory, device);
  if (!memory) return false;  // the next full sample reports why
  const bool grown = used && memory->used > *used && memory->used - *used >= kGrowth;
  used = memory->used;
  return grown;
}

auto key(const GpuHolder& holder) {
  return std::tie(holder.pid, holder.gpu_instance, holder.compute_instance);
}

std::vector<GpuHolder> holders_of(const std::vector<ProcessInfo>& entries) {
  std::vector<GpuHolder> holders;
  holders.reserve(entries.size());
  for (const ProcessInfo& entry : entries) {
    GpuHolder holder{.pid = static_cast<pid_t>(entry.pid),
                     .gpu_instance = entry.gpu_instance,
                     .compute_instance = entry.compute_instance};
    if (entry.used_gpu_memory != kMemoryNotAvailable) holder.memory.value = entry.used_gpu_memory;
    holders.push_back(holder);
  }
  std::ranges::sort(holders, [](const GpuHolder& a, const GpuHolder& b) { return key(a) < key(b); });
  return holders;
}

// Assumes that earlier clients are still clients; true: a process is new.
bool keep_clients(const std::vector<GpuHolder>& before, std::vector<GpuHolder>& holders) {
  bool is_new = false;
  for (GpuHolder& holder : holders) {
    const auto old = std::ranges::lower_bound(before, holder.pid, {}, &GpuHolder::pid);
    if (old == before.end() || old->pid != holder.pid) {
      is_new = true;
    } else {
      holder.mps_client = old->mps_client;
    }
  }
  return is_new;
}

}  // namespace

// For the same GPUs only the pace changes; what is known of them is kept.
bool Sampler::follow(std::vector<SampleWish> wishes, MonoTime now) {
  const bool same = std::ranges::equal(samples_, wishes, {}, &GpuSample::uuid, &SampleWish::uuid);
  if (!same) {
    gpus_.clear();
    samples_.clear();
    for (const SampleWish& wish : wishes) {
      gpus_.emplace_back();
      samples_.push_back({.uuid = wish.uuid, .holders = {}, .problem = "was not read yet"});
    }
  }
  for (std::size_t i = 0; i < gpus_.size(); ++i) {
    Gpu& gpu = gpus_[i];
    if (gpu.wish == wishes[i]) continue;
    gpu.at = std::min(gpu.at, next_on_grid(now, wishes[i].every));
    if (gpu.wish.glance != wishes[i].glance) {
      gpu.glance_at = wishes[i].glance > Duration{} ? now : MonoTime::max();
      gpu.used.reset();
    }
    gpu.wish = std::move(wishes[i]);
  }
  plan();
  return !same;
}

void Sampler::plan() {
  due_ = MonoTime::max();
  for (const Gpu& gpu : gpus_) due_ = std::min({due_, gpu.at, gpu.glance_at});
}

void Sampler::handles(const std::vector<Held>& held) {
  for (std::size_t i = 0; i < gpus_.size(); ++i) {
    const auto found = std::ranges::find(held, samples_[i].uuid, &Held::uuid);
    gpus_[i].device = found == held.end() ? nullptr : found->device;
    gpus_[i].used.reset();
    if (gpus_[i].device != nullptr) continue;
    samples_[i].holders.clear();
    samples_[i].problem = "the driver does not answer for this GPU";
  }
}

bool Sampler::round(const Library& library, MonoTime now) {
  bool any = false;
  for (std::size_t i = 0; i < gpus_.size(); ++i) {
    Gpu& gpu = gpus_[i];
    bool due = now >= gpu.at;
    if (now >= gpu.glance_at) {
      gpu.glance_at = next_on_grid(now, gpu.wish.glance);
      if (gpu.device != nullptr && has_grown(library.functions(), gpu.device, gpu.used)) due = true;
    }
    if (!due) continue;
    gpu.at = next_on_grid(now, gpu.wish.every);
    const GpuSample before = samples_[i];
    samples_[i].at = now;
    if (gpu.device != nullptr) read(library, gpu, samples_[i], now);
    if (samples_[i].same_figures(before) && now - gpu.reported_at < kUnchangedEvery) continue;
    gpu.reported_at = now;
    any = true;
  }
  plan();
  return any;
}

void Sampler::read(const Library& library, Gpu& gpu, GpuSample& sample, MonoTime now) {
  const Functions& f = library.functions();
  const ProcessList all = list_processes(f.compute_processes, gpu.device);
  sample.problem.clear();
  if (all.code != Return::kSuccess)
    sample.problem = to_string(library.error(all.code, "cannot list the processes", sample.uuid));
  auto holders = holders_of(all.entries);
  if (keep_clients(sample.holders, holders)) {
    gpu.clients_at = now;
    gpu.pause = gpu.wish.every;
  }
  sample.holders = std::move(holders);
  if (sample.holders.empty() || now < gpu.clients_at) return;
  const auto clients = list_processes(f.mps_processes, gpu.device).entries;
  for (GpuHolder& holder : sample.holders)
    holder.mps_client = std::ranges::find(clients, holder.pid, &ProcessInfo::pid) != clients.end();
  sample.clients_read = now;
  gpu.clients_at = now + gpu.pause;
  gpu.pause = std::min(gpu.pause * 2, kClientsAtLeastEvery);
}

}  // namespace tranche::gpu::nvml
