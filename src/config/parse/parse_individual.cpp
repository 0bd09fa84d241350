// A fork's syntax for a resource per GPU: supported settings are converted to entries of this format, and settings
// without effect (there or here) cause a warning.

#include "base/text.h"
#include "config/document/amounts.h"
#include "config/keys.h"
#include "config/names.h"
#include "config/parse/sections.h"

namespace tranche::config {
namespace {

constexpr std::int64_t kMostMib = 1'000'000'000;
constexpr const char* kGpu = "nvidia.com/gpu";

// A whole number from 1; absent if it is missing or wrong.
std::optional<std::int64_t> counted(const Value& value, std::int64_t most, const char* remedy) {
  return value.given() ? value.integer(1, most, remedy) : std::nullopt;
}

// The MPS part of a GPU's entry; false if MPS does not serve the GPU.
bool parse_mps_of_gpu(const Value& section, IndividualGpu& into) {
  if (!is_mapping(section, "write mps: {enabled: true, replicas: 20}")) return false;
  const Fields f(section);
  bool enabled = false;
  f["enabled"].read(enabled);
  if (const auto count = counted(f["replicas"], kMostSlots, "write into how many slots the GPU is cut"))
    into.entry.replicas = static_cast<std::uint32_t>(*count);
  bool limited = true;
  f["enableMemoryLimit"].read(limited);
  if (!limited) into.memory = {.kind = MemoryPolicy::Kind::kOpen};
  if (const auto size = counted(f["pinnedMemoryLimit"], kMostMib, "write the MiB of one slot, or remove it"))
    into.memory = MemoryPolicy{MemoryPolicy::Kind::kSize, 100, mib(static_cast<std::uint64_t>(*size))};
  for (const char* key : {"activeThreadPercentage", "activeThreadLimit"})
    if (f[key].given())
      f[key].ignored("is a fork's key without effect there and here",
                     "remove it; threads of an entry of sharing.mps.resources limits a slot's SMs");
  return enabled;
}

// The UUID if given: an index that is not written does not mean index 0.
std::optional<DeviceRef> gpu_of(const Value& entry, const Fields& f) {
  const Value uuid = f["uuid"];
  const Value index = f["index"];
  const Value& named = uuid.given() && uuid.plain_text() != "" ? uuid : index;
  if (!named.given()) return entry.refused("names no GPU", "write index: 0, or uuid: GPU-…");
  auto ref = device_reference(named);
  if (!ref) named.error("must name a GPU, but is " + describe(named.node()), "write index: 0, or uuid: GPU-…");
  return ref;
}

void parse_gpu(const Value& entry, Individual& into) {
  if (!is_mapping(entry, "write - {index: 0, mps: {enabled: true, replicas: 20}}")) return;
  const Fields f(entry);
  const auto gpu = gpu_of(entry, f);
  IndividualGpu one;
  one.entry.name = kGpu;
  one.entry.strategy = SharingStrategy::kMps;
  one.entry.place = entry.place();
  const auto name = f["name"].given() ? read_resource_name(f["name"]) : std::nullopt;
  const bool served = parse_mps_of_gpu(f["mps"], one);
  if (!gpu) return;
  one.entry.devices = std::vector<DeviceRef>{*gpu};
  if (!name || *name == expand(into.pattern, {gpu->text, 0, {}}))
    one.entry.names = into.pattern;
  else
    one.entry.rename = name;
  if (served) return into.gpus.push_back(std::move(one));
  entry.warn("is not shared by MPS, so the GPU is advertised whole, as " + std::string(kGpu),
             "write mps: {enabled: true, replicas: 20}, or remove the entry");
}

}  // namespace

Individual parse_individual(const Value& section) {
  Individual individual;
  if (!is_mapping(section, "write enabled: true below it, or remove it")) return individual;
  const Fields f(section);
  f["enabled"].read(individual.enabled);
  if (const Value pattern = f["namePattern"]; pattern.given()) {
    const auto text = pattern.text();
    auto full = text ? name_pattern(*text) : Result<std::string>(individual.pattern);
    if (full && full->find("%d") != std::string::npos)
      individual.pattern = *std::move(full);
    else
      pattern.error(full ? "must hold %d, for the GPU's index" : full.error().what, "write for example gpu%d");
  }
  if (const Value list = f["gpuConfigs"]; list.given()) {
    if (list.node().kind != Node::Kind::kSequence)
      list.wrong_type("a list", "write - {index: 0, mps: {enabled: true, replicas: 20}}");
    else
      for (const Value& item : list.entries()) parse_gpu(item, individual);
  }
  return individual;
}

void apply_individual(const Individual& individual, const Value& fail_requests, std::optional<SplitPolicy> asked_split,
                      Sharing& sharing) {
  // That fork counts slots whatever the switch is set to, and its purpose is a container that requests gpu0: 5.
  if (sharing.fail_requests_greater_than_one && fail_requests.given())
    fail_requests.warn("has no effect beside individualGPU, where a container asks slots of each GPU",
                       "remove it, or write names: gpu%d in place of individualGPU");
  sharing.fail_requests_greater_than_one = false;
  const SplitPolicy split = asked_split.value_or(SplitPolicy::kSpan);
  for (SharedResource& entry : sharing.resources) {
    if (entry.name != kGpu || !entry.names.empty()) continue;
    entry.names = individual.pattern;
    entry.rename.reset();
    entry.split = split;
  }
  for (const IndividualGpu& gpu : individual.gpus) {
    SharedResource& entry = sharing.resources.emplace_back(gpu.entry);
    entry.threads = sharing.threads;
    entry.memory = gpu.memory.value_or(sharing.memory);
    entry.split = split;
  }
}

}  // namespace tranche::config
