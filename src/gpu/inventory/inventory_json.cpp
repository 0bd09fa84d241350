#include "gpu/inventory/inventory_json.h"

#include <fmt/format.h>

#include <limits>
#include <nlohmann/json.hpp>
#include <set>

#include "base/enum_names.h"
#include "base/json_text.h"
#include "base/text.h"

namespace tranche::inventory {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::array<std::string_view, 5> kEngines{"copy", "decoder", "encoder", "jpeg", "ofa"};

Json to_json(const MigDevice& mig) {
  Json json{{"uuid", mig.uuid},
            {"slot", mig.slot},
            {"gpuInstance", mig.gpu_instance},
            {"computeInstance", mig.compute_instance},
            {"profile", mig.profile},
            {"memoryBytes", mig.memory.value},
            {"smCount", mig.sm_count},
            {"giSlices", mig.gi_slices},
            {"ciSlices", mig.ci_slices}};
  for (std::size_t i = 0; i < kEngines.size(); ++i) json["engines"][std::string(kEngines[i])] = mig.engines[i];
  if (mig.nominal_memory.value != 0) json["nominalMemoryBytes"] = mig.nominal_memory.value;
  if (mig.gi_cap) json["giCap"] = *mig.gi_cap;
  if (mig.ci_cap) json["ciCap"] = *mig.ci_cap;
  return json;
}

Json to_json(const Gpu& gpu) {
  Json json{{"uuid", gpu.uuid}, {"index", gpu.index},         {"minor", gpu.minor},
            {"name", gpu.name}, {"pciBusId", gpu.pci_bus_id}, {"pciClass", fmt::format("{:#08x}", gpu.pci_class)}};
  if (!gpu.pcie_root.empty()) json["pcieRoot"] = gpu.pcie_root;
  if (gpu.numa_node) json["numaNode"] = *gpu.numa_node;
  json["memoryBytes"] = gpu.memory.value;
  json["computeCapability"] = fmt::format("{}.{}", gpu.compute_capability.major, gpu.compute_capability.minor);
  json["smCount"] = gpu.sm_count;
  json["migCapable"] = gpu.mig_capable;
  json["migEnabled"] = gpu.mig_enabled;
  json["maxMigDevices"] = gpu.max_mig_devices;
  json["computeMode"] = std::string(to_string(gpu.compute_mode));
  if (!gpu.fabric_clique.empty()) json["fabricClique"] = gpu.fabric_clique;
  json["migDevices"] = Json::array();
  for (const auto& mig : gpu.mig_devices) json["migDevices"].push_back(to_json(mig));
  return json;
}

// Reads the members of one object and keeps the first error, with the path of the field.
class Object {
 public:
  Object(const Json& json, std::string path, std::optional<Error>& error, std::string_view source)
      : json_(json), path_(std::move(path)), error_(error), source_(source) {
    if (!json_.is_object()) refuse("", "must be an object");
  }

  const Json* find(const char* key, bool required) const {
    if (error_) return nullptr;
    const auto found = json_.find(key);
    if (found != json_.end()) return &*found;
    if (required) refuse(key, "is missing");
    return nullptr;
  }

  template <class Number>
  void number(const char* key, Number& into, bool required = true) const {
    const Json* value = find(key, required);
    if (value == nullptr) return;
    if (!value->is_number_integer()) return refuse(key, "must be a whole number");
    if (value->is_number_unsigned()
            ? value->get<std::uint64_t>() > static_cast<std::uint64_t>(std::numeric_limits<Number>::max())
            : true)
      return refuse(key, "is out of range");
    into = static_cast<Number>(value->get<std::uint64_t>());
  }
  void number(const char* key, std::optional<std::uint32_t>& into) const {
    if (find(key, false) == nullptr) return;
    std::uint32_t value = 0;
    number(key, value);
    into = value;
  }
  void boolean(const char* key, bool& into) const {
    const Json* value = find(key, false);
    if (value == nullptr) return;
    if (!value->is_boolean()) return refuse(key, "must be true or false");
    into = value->get<bool>();
  }
  void text(const char* key, std::string& into, bool required = true) const {
    const Json* value = find(key, required);
    if (value == nullptr) return;
    if (!value->is_string()) return refuse(key, "must be text");
    into = value->get<std::string>();
  }
  template <class Read>
  void each(const char* key, bool required, Read read) const {
    const Json* value = find(key, required);
    if (value == nullptr) return;
    if (!value->is_array()) return refuse(key, "must be a list");
    for (std::size_t i = 0; i < value->size() && !error_; ++i)
      read((*value)[i], path_of(key) + "[" + std::to_string(i) + "]");
  }
  Object object(const char* key, const Json& json) const { return {json, path_of(key), error_, source_}; }
  Object item(const Json& json, std::string path) const { return {json, std::move(path), error_, source_}; }

  void refuse(std::string_view key, std::string_view what) const {
    if (!error_) error_ = Error{Kind::kInvalid, path_of(key) + " " + std::string(what), std::string(source_), 0};
  }
  bool failed() const { return error_.has_value(); }

 private:
  std::string path_of(std::string_view key) const {
    if (key.empty()) return path_.empty() ? "the inventory" : path_;
    return path_.empty() ? std::string(key) : path_ + "." + std::string(key);
  }

  const Json& json_;
  std::string path_;
  std::optional<Error>& error_;
  std::string_view source_;
};

MigDevice read_mig(const Object& object) {
  MigDevice mig;
  object.text("uuid", mig.uuid);
  object.number("slot", mig.slot);
  object.number("gpuInstance", mig.gpu_instance);
  object.number("computeInstance", mig.compute_instance);
  object.text("profile", mig.profile);
  object.number("memoryBytes", mig.memory.value);
  object.number("smCount", mig.sm_count, false);
  object.number("giSlices", mig.gi_slices);
  object.number("ciSlices", mig.ci_slices);
  if (const Json* engines = object.find("engines", false)) {
    const Object counts = object.object("engines", *engines);
    for (std::size_t i = 0; i < kEngines.size(); ++i)
      counts.number(std::string(kEngines[i]).c_str(), mig.engines[i], false);
  }
  object.number("nominalMemoryBytes", mig.nominal_memory.value, false);
  object.number("giCap", mig.gi_cap);
  object.number("ciCap", mig.ci_cap);
  if (mig.uuid.empty()) object.refuse("uuid", "must not be empty");
  return mig;
}

void read_capability(const Object& object, ComputeCapability& into) {
  std::string text;
  object.text("computeCapability", text);
  if (object.failed()) return;
  const auto pieces = split(text, '.');
  const auto major = parse_unsigned(pieces.front());
  const auto minor = pieces.size() == 2 ? parse_unsigned(pieces.back()) : std::nullopt;
  constexpr std::uint64_t kMost = 99;
  if (!major || !minor || *major > kMost || *minor > kMost)
    return object.refuse("computeCapability", "must be written like \"9.0\", but is " + in_quotes(text));
  into = {static_cast<int>(*major), static_cast<int>(*minor)};
}

void read_pci_class(const Object& object, std::uint32_t& into) {
  if (object.find("pciClass", false) == nullptr) return;
  std::string text;
  object.text("pciClass", text);
  if (object.failed()) return;
  const auto value = text.starts_with("0x") ? parse_unsigned(std::string_view(text).substr(2), 16) : std::nullopt;
  if (!value || *value > 0xffffff) return object.refuse("pciClass", "must be written like \"0x030200\"");
  into = static_cast<std::uint32_t>(*value);
}

void read_compute_mode(const Object& object, ComputeMode& into) {
  std::string text(to_string(into));
  object.text("computeMode", text, false);
  if (const auto mode = enum_of<ComputeMode>(text))
    into = *mode;
  else
    object.refuse("computeMode", "must be DEFAULT, EXCLUSIVE_THREAD, PROHIBITED or EXCLUSIVE_PROCESS");
}

void read_platform(const Object& object, Platform& into) {
  std::string text(to_string(into));
  object.text("platform", text, false);
  if (const auto platform = enum_of<Platform>(text))
    into = *platform;
  else
    object.refuse("platform", "must be nvml, wsl or tegra, but is " + in_quotes(text));
}

void read_sentences(const Object& object, const char* key, std::vector<std::string>& into) {
  object.each(key, false, [&](const Json& item, const std::string& path) {
    if (item.is_string())
      into.push_back(item.get<std::string>());
    else
      object.refuse(path, "must be text");
  });
}

Gpu read_gpu(const Object& object) {
  Gpu gpu;
  object.text("uuid", gpu.uuid);
  object.number("index", gpu.index);
  object.number("minor", gpu.minor);
  object.text("name", gpu.name);
  object.text("pciBusId", gpu.pci_bus_id, false);
  object.text("pcieRoot", gpu.pcie_root, false);
  read_pci_class(object, gpu.pci_class);
  object.number("numaNode", gpu.numa_node);
  object.number("memoryBytes", gpu.memory.value);
  read_capability(object, gpu.compute_capability);
  object.number("smCount", gpu.sm_count, false);
  object.boolean("migCapable", gpu.mig_capable);
  object.boolean("migEnabled", gpu.mig_enabled);
  object.number("maxMigDevices", gpu.max_mig_devices, false);
  read_compute_mode(object, gpu.compute_mode);
  object.text("fabricClique", gpu.fabric_clique, false);
  object.each("migDevices", false, [&](const Json& json, std::string path) {
    gpu.mig_devices.push_back(read_mig(object.item(json, std::move(path))));
  });
  if (gpu.uuid.empty()) object.refuse("uuid", "must not be empty");
  return gpu;
}

GpuLink read_link(const Object& object, std::size_t gpus) {
  GpuLink link;
  object.number("a", link.a);
  object.number("b", link.b);
  object.number("pcieLevel", link.pcie_level);
  object.number("nvlinks", link.nvlinks, false);
  if (!object.failed() && (link.a >= link.b || link.b >= gpus))
    object.refuse("b", "must be the place of a GPU in the list, above a");
  return link;
}

void check_unique(const Inventory& inventory, const Object& root) {
  std::set<std::string_view> seen;
  for (const Gpu& gpu : inventory.gpus) {
    if (!seen.insert(gpu.uuid).second) root.refuse("gpus", "name the UUID " + gpu.uuid + " twice");
    for (const MigDevice& mig : gpu.mig_devices)
      if (!seen.insert(mig.uuid).second) root.refuse("gpus", "name the UUID " + mig.uuid + " twice");
  }
}

}  // namespace

nlohmann::ordered_json to_json(const Inventory& inventory) {
  Json json{{"platform", std::string(to_string(inventory.platform))},
            {"driverVersion", inventory.driver_version},
            {"cudaDriverVersion", inventory.cuda_driver_version}};
  json["gpus"] = Json::array();
  for (const auto& gpu : inventory.gpus) json["gpus"].push_back(to_json(gpu));
  json["links"] = Json::array();
  for (const auto& link : inventory.links)
    json["links"].push_back({{"a", link.a}, {"b", link.b}, {"pcieLevel", link.pcie_level}, {"nvlinks", link.nvlinks}});
  json["unreadable"] = inventory.unreadable;
  json["doubts"] = inventory.doubts;
  return json;
}

Result<Inventory> parse_inventory(std::string_view json_text, std::string_view source) {
  const Json json = json_of(json_text);
  if (json.is_discarded()) return fail(Kind::kInvalid, "the file of --inventory is not JSON", std::string(source));
  std::optional<Error> error;
  const Object root(json, "", error, source);
  Inventory inventory;
  read_platform(root, inventory.platform);
  root.text("driverVersion", inventory.driver_version, false);
  root.number("cudaDriverVersion", inventory.cuda_driver_version, false);
  root.each("gpus", true, [&](const Json& item, std::string path) {
    inventory.gpus.push_back(read_gpu(root.item(item, std::move(path))));
  });
  root.each("links", false, [&](const Json& item, std::string path) {
    inventory.links.push_back(read_link(root.item(item, std::move(path)), inventory.gpus.size()));
  });
  read_sentences(root, "unreadable", inventory.unreadable);
  read_sentences(root, "doubts", inventory.doubts);
  if (!error) check_unique(inventory, root);
  if (error) return std::unexpected(*std::move(error));
  return inventory;
}

}  // namespace tranche::inventory
