#include "dra/slices.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "base/json_text.h"
#include "base/text.h"

namespace tranche::dra {
namespace {

using Json = nlohmann::json;

constexpr std::string_view kNvidia = "gpu.nvidia.com";  // whose names of attributes these are
constexpr std::size_t kLongestObjectName = 253;
const Counters kWholeGpu{{"gpu", 1}};
constexpr std::array kEngines{"copyEngines", "decoders", "encoders", "jpegEngines", "ofaEngines"};

std::string counter_set_of(const Device& device) {
  return fmt::format("gpu-{}-counter-set", device.index);
}

// "580.159.04" → "580.159.4": a version attribute must be semantic, without leading zeros. "" = it is not a version.
std::string semantic_version(std::string_view text) {
  std::vector<std::string> numbers;
  for (const auto part : split(text, '.')) {
    const auto number = parse_unsigned(part);
    if (!number || numbers.size() == 3) return "";
    numbers.push_back(std::to_string(*number));
  }
  while (numbers.size() < 3) numbers.emplace_back("0");
  return join(numbers, ".");
}

void add(Json& attributes, const std::string& name, const char* type, std::string_view value) {
  if (!value.empty()) attributes[name] = {{type, std::string(value.substr(0, kLongestAttribute))}};
}

void add_names(const Device& device, const std::string& domain, Json& attributes) {
  const auto [major, minor] = device.compute_capability;
  const auto text = [&](const char* name, std::string_view value) { add(attributes, domain + name, "string", value); };
  const auto version = [&](const char* name, const std::string& value) {
    add(attributes, domain + name, "version", value);
  };
  text("type", to_string(device.kind));
  if (!device.partition) text("uuid", device.gpu_uuid);  // an instance has one when it is made
  text("parentUUID", device.parent_uuid);
  text("profile", device.profile);
  text("productName", device.product);
  text("architecture", gpu::architecture_of(device.compute_capability));
  if (major > 0) version("cudaComputeCapability", fmt::format("{}.{}.0", major, minor));
  version("driverVersion", semantic_version(device.driver_version));
  if (const int cuda = device.cuda_driver_version; cuda > 0)
    version("cudaDriverVersion", fmt::format("{}.{}.0", cuda / 1000, cuda % 1000 / 10));
}

// Bare names belong to the driver's own domain; they are repeated under NVIDIA's, so that its selectors work.
Json attributes_of(const Device& device, const Pool& pool) {
  Json attributes = Json::object();
  add_names(device, "", attributes);
  if (pool.driver != kNvidia) add_names(device, std::string(kNvidia) + "/", attributes);
  add(attributes, "resource.kubernetes.io/pciBusID", "string", gpu::sysfs_address(device.pci_bus_id));
  add(attributes, "resource.kubernetes.io/pcieRoot", "string", device.pcie_root);
  if (device.numa_node) attributes["resource.kubernetes.io/numaNode"] = {{"int", *device.numa_node}};
  return attributes;
}

Json policy(const std::string& usual, const std::string& least, const std::string& step) {
  return {{"default", usual}, {"validRange", {{"min", least}, {"step", step}}}};
}

Json capacity_of(const Device& device) {
  Json capacity = Json::object();
  if (device.kind == Kind::kMonitor) return capacity;
  const bool shared = device.kind == Kind::kShared;
  if (device.memory.in_mib() > 0) capacity["memory"]["value"] = quantity_of(device.memory);
  if (!shared) {
    if (device.sms > 0) capacity["multiprocessors"]["value"] = std::to_string(device.sms);
    if (device.kind == Kind::kMig)
      for (std::size_t i = 0; i < kEngines.size(); ++i)
        capacity[kEngines[i]]["value"] = std::to_string(device.engines[i]);
    return capacity;
  }
  capacity["memory"]["requestPolicy"] =
      policy(quantity_of(std::min(kMemoryDefault, device.memory)), quantity_of(kMemoryLeast), quantity_of(kMemoryStep));
  const std::string least = std::to_string(device.cores_least);
  capacity["cores"] = {{"value", std::to_string(kCoresAll)}, {"requestPolicy", policy(least, least, "1")}};
  return capacity;
}

Json taint_of(const gpu::Unhealthy& fault, const Pool& pool) {
  return {{"key", pool.driver + "/unhealthy"},
          {"value", std::string(gpu::to_string(fault.cause))},
          {"effect", "NoSchedule"}};
}

// Whether a device draws on the counters of its GPU.
bool counts(const Device& device) {
  return has_endpoint(device.kind) || device.partition;
}

Json counters_json(const Counters& counters) {
  Json json = Json::object();
  for (const auto& [name, value] : counters)
    json[name]["value"] = name == "memory" ? quantity_of(mib(value)) : std::to_string(value);
  return json;
}

// The counter set of each GPU whose published devices draw on it, in their order.
Json counter_sets(const std::vector<const Device*>& published) {
  Json sets = Json::array();
  for (const Device* device : published) {
    const std::string name = counter_set_of(*device);
    if (!counts(*device) || std::ranges::any_of(sets, [&](const Json& set) { return set["name"] == name; })) continue;
    sets.push_back(
        {{"name", name}, {"counters", counters_json(device->partition ? device->partition->of_gpu : kWholeGpu)}});
  }
  return sets;
}

Json json_of_device(const Device& device, const Pool& pool) {
  Json json{{"name", device.name}, {"attributes", attributes_of(device, pool)}};
  if (Json capacity = capacity_of(device); !capacity.empty()) json["capacity"] = std::move(capacity);
  if (device.kind == Kind::kShared || device.kind == Kind::kMonitor) json["allowMultipleAllocations"] = true;
  if (device.kind == Kind::kMonitor) return json;
  if (pool.features.counters && counts(device))
    json["consumesCounters"] =
        Json::array({{{"counterSet", counter_set_of(device)},
                      {"counters", counters_json(device.partition ? device.partition->takes : kWholeGpu)}}});
  if (device.fault && pool.features.taints) json["taints"] = Json::array({taint_of(*device.fault, pool)});
  return json;
}

// What the server drops of the device, so that the scheduler would not respect its limits; none: it is published.
std::vector<std::string> why_withheld(const Device& device, const Features& features) {
  std::vector<std::string> why;
  const auto drops = [&why](const char* field, const char* withheld, const char* gate) {
    why.push_back(
        fmt::format("the API server drops {}: {} are not published; switch the feature gate {} on in API server and "
                    "scheduler (default since Kubernetes 1.36)",
                    field, withheld, gate));
  };
  const bool monitor = device.kind == Kind::kMonitor, shared = device.kind == Kind::kShared;
  if (!features.shares && (shared || monitor))
    drops("allowMultipleAllocations", "shared and monitor devices", "DRAConsumableCapacity");
  if (!features.counters && shared) drops("consumesCounters", "shared devices", "DRAPartitionableDevices");
  if (!features.counters && device.partition)
    drops("consumesCounters", "MIG partitions on demand", "DRAPartitionableDevices");
  if (!features.taints && device.fault && !monitor) drops("taints", "faulty devices", "DRADeviceTaints");
  return why;
}

std::vector<const Device*> in_order(const std::vector<Device>& devices, const Features& features) {
  std::vector<const Device*> out;
  for (const Kind kind : {Kind::kShared, Kind::kMig, Kind::kWhole, Kind::kMonitor}) {
    const auto begin = static_cast<std::ptrdiff_t>(out.size());
    for (const Device& device : devices)
      if (device.kind == kind && why_withheld(device, features).empty()) out.push_back(&device);
    std::ranges::stable_sort(out.begin() + begin, out.end(), [kind](const Device* a, const Device* b) {
      return kind == Kind::kWhole ? a->index > b->index : a->index < b->index;
    });
  }
  return out;
}

std::string slice_name(std::size_t place, const Pool& pool) {
  std::string name = fmt::format("{:05x}-{}-{}", place, pool.driver, pool.node);
  if (name.size() > kLongestObjectName)
    name = fmt::format("{:05x}-{}-{}", place, pool.driver, hex16(stable_hash(pool.node)));
  return name;
}

// `member`: "devices" or "sharedCounters".
void add_slices(const char* member, const Json& entries, std::size_t most, std::vector<Json>& specs) {
  for (std::size_t i = 0; i < entries.size(); ++i) {
    if (i % most == 0) specs.push_back({{member, Json::array()}});
    specs.back()[member].push_back(entries[i]);
  }
}

Json head_of(const Pool& pool, std::size_t count) {
  return {
      {"driver", pool.driver}, {"nodeName", pool.node}, {"pool", {{"name", pool.node}, {"resourceSliceCount", count}}}};
}

// --- what the server has -------------------------------------------------------------------------------------------

constexpr std::int64_t kMostGeneration = std::int64_t{1} << 60;  // far from where the next one would overflow

// Which the server adds to taints.
void erase_times(Json& value) {
  if (value.is_object()) value.erase("timeAdded");
  if (value.is_structured())
    for (Json& each : value) erase_times(each);
}

bool is_older(const std::string& version, const std::string& known) {
  const auto a = parse_unsigned(version);
  const auto b = parse_unsigned(known);
  return a && b && *a < *b;
}

}  // namespace

std::string quantity_of(Bytes bytes) {
  std::uint64_t number = bytes.in_mib();
  std::size_t unit = 0;
  constexpr std::string_view kUnits[] = {"Mi", "Gi", "Ti"};
  while (number > 0 && number % 1024 == 0 && unit + 1 < std::size(kUnits)) {
    number /= 1024;
    ++unit;
  }
  return number == 0 ? "0" : fmt::format("{}{}", number, kUnits[unit]);
}

Slices slices_of(const std::vector<Device>& devices, const Pool& pool) {
  Json published = Json::array();
  const auto ordered = in_order(devices, pool.features);
  for (const Device* device : ordered) published.push_back(json_of_device(*device, pool));
  const Json sets = pool.features.counters ? counter_sets(ordered) : Json::array();
  std::vector<Json> specs;
  add_slices("devices", published, kMostDevicesInSlice, specs);
  add_slices("sharedCounters", sets, kMostCounterSetsInSlice, specs);
  if (specs.empty()) specs.push_back(Json::object());
  Slices slices;
  for (std::size_t place = 0; place < specs.size(); ++place) {
    specs[place].update(head_of(pool, specs.size()));
    slices.list.push_back({slice_name(place, pool), json_text(specs[place])});
  }
  for (const Device& device : devices)
    for (auto& why : why_withheld(device, pool.features))
      if (std::ranges::find(slices.notes, why) == slices.notes.end()) slices.notes.push_back(std::move(why));
  return slices;
}

std::string probe_body(const Pool& pool) {
  Device device;
  device.name = "probe";
  device.kind = Kind::kShared;
  device.memory = gib(8);
  device.fault = gpu::Unhealthy{};
  Json spec = head_of(pool, 1);
  spec["pool"]["generation"] = 1;
  spec["devices"] = Json::array({json_of_device(device, {pool.driver, pool.node, {}})});
  return json_text(Json{{"apiVersion", "resource.k8s.io/v1"},
                        {"kind", "ResourceSlice"},
                        {"metadata", {{"name", slice_name(0xfffff, pool)}}},
                        {"spec", std::move(spec)}});
}

Features features_of(const Json& stored) {
  const Json& devices = list_at(map_at(stored, "spec"), "devices");
  if (devices.empty()) return {false, false, false};
  const Json& device = devices.front();
  return {truth_at(device, "allowMultipleAllocations") &&
              !map_at(map_at(map_at(device, "capacity"), "memory"), "requestPolicy").empty(),
          !list_at(device, "consumesCounters").empty(), !list_at(device, "taints").empty()};
}

StoredSlice read_slice(const Json& object) {
  const Json& metadata = map_at(object, "metadata");
  StoredSlice slice;
  slice.name = text_at(metadata, "name");
  slice.version = text_at(metadata, "resourceVersion");
  Json spec = map_at(object, "spec");
  slice.driver = text_at(spec, "driver");
  slice.node = text_at(spec, "nodeName");
  if (const auto pool = spec.find("pool"); pool != spec.end() && pool->is_object()) {
    slice.generation = std::clamp<std::int64_t>(number_at(*pool, "generation").value_or(0), 0, kMostGeneration);
    pool->erase("generation");
  }
  erase_times(spec);
  slice.spec = json_text(spec);
  return slice;
}

std::string body_of(const SliceWrite& write, const std::string& node, const std::string& node_uid) {
  Json metadata{
      {"name", write.name},
      {"ownerReferences",
       Json::array(
           {{{"apiVersion", "v1"}, {"kind", "Node"}, {"name", node}, {"uid", node_uid}, {"controller", true}}})}};
  if (write.what == SliceWrite::What::kUpdate) metadata["resourceVersion"] = write.version;
  Json spec = json_of(write.wanted);
  spec["pool"]["generation"] = write.generation;
  return json_text(Json{{"apiVersion", "resource.k8s.io/v1"},
                        {"kind", "ResourceSlice"},
                        {"metadata", std::move(metadata)},
                        {"spec", std::move(spec)}});
}

void SliceLedger::replace(std::vector<StoredSlice> all) {
  stored_.clear();
  for (StoredSlice& slice : all) {
    std::string name = slice.name;
    stored_.insert_or_assign(std::move(name), std::move(slice));
  }
}

void SliceLedger::apply(kube::Change change, const StoredSlice& one) {
  const auto known = stored_.find(one.name);
  if (known != stored_.end() && is_older(one.version, known->second.version)) return;
  if (change == kube::Change::kDeleted)
    stored_.erase(one.name);
  else
    stored_.insert_or_assign(one.name, one);
}

void SliceLedger::want(std::vector<Slice> wanted) {
  wanted_ = std::move(wanted);
  std::erase_if(made_, [this](const auto& made) {
    return std::ranges::find(wanted_, made.first, &Slice::name) == wanted_.end();
  });
}

bool SliceLedger::is_as_wanted(const StoredSlice& stored, const Slice& wanted) const {
  if (stored.spec == wanted.spec) return true;
  const auto made = made_.find(wanted.name);
  return made != made_.end() && made->second.wanted == wanted.spec && made->second.stored == stored.spec;
}

std::int64_t SliceLedger::generation() const {
  std::int64_t newest = 0;
  for (const auto& [name, slice] : stored_) newest = std::max(newest, slice.generation);
  return newest;
}

// Whether what has to change cannot be one step within the newest generation, nor the rest of the way into it. Only
// wanted slices are stored.
bool SliceLedger::needs_new_generation(std::int64_t newest) const {
  std::size_t there = 0;
  std::size_t changed = 0;
  for (const Slice& wanted : wanted_) {
    const auto stored = stored_.find(wanted.name);
    if (stored == stored_.end() || stored->second.generation != newest) continue;
    ++there;
    if (!is_as_wanted(stored->second, wanted)) ++changed;
  }
  return changed > 1 || (changed == 1 && there < wanted_.size());
}

std::optional<SliceWrite> SliceLedger::next() const {
  for (const auto& [name, slice] : stored_)
    if (std::ranges::find(wanted_, name, &Slice::name) == wanted_.end())
      return SliceWrite{SliceWrite::What::kDelete, name, slice.version};
  const std::int64_t newest = generation();
  const std::int64_t target = std::max<std::int64_t>(newest + (needs_new_generation(newest) ? 1 : 0), 1);
  const Slice* missing = nullptr;
  for (const Slice& wanted : wanted_) {
    const auto stored = stored_.find(wanted.name);
    if (stored == stored_.end()) {
      if (missing == nullptr) missing = &wanted;
    } else if (stored->second.generation != target || !is_as_wanted(stored->second, wanted)) {
      return SliceWrite{SliceWrite::What::kUpdate, wanted.name, stored->second.version, wanted.spec, target};
    }
  }
  if (missing == nullptr) return std::nullopt;
  return SliceWrite{SliceWrite::What::kCreate, missing->name, "", missing->spec, target};
}

void SliceLedger::written(const SliceWrite& write, const std::optional<StoredSlice>& stored) {
  if (!stored) {
    stored_.erase(write.name);
    return;
  }
  made_[write.name] = {write.wanted, stored->spec};
  apply(kube::Change::kModified, *stored);
}

}  // namespace tranche::dra
