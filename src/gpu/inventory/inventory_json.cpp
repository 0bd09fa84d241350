#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "base/json_text.h"
#include "base/text.h"
#include "gpu/inventory/inventory.h"

namespace tranche::gpu {
namespace {

using Json = nlohmann::ordered_json;

// A field must be there; may be absent; or may be absent and is not written if it has its default.
enum class Field { kRequired, kOptional, kSparse };
using enum Field;

bool read_text(std::string_view text, ComputeCapability& into) {
  const auto pieces = split(text, '.');
  const auto major = parse_unsigned(pieces.front());
  const auto minor = pieces.size() == 2 ? parse_unsigned(pieces.back()) : std::nullopt;
  constexpr std::uint64_t kMost = 99;
  if (!major || !minor || *major > kMost || *minor > kMost) return false;
  into = {static_cast<int>(*major), static_cast<int>(*minor)};
  return true;
}

bool read_text(std::string_view text, std::uint32_t& pci_class) {
  const auto value = text.starts_with("0x") ? parse_unsigned(text.substr(2), 16) : std::nullopt;
  if (!value || *value > 0xffffff) return false;
  pci_class = static_cast<std::uint32_t>(*value);
  return true;
}

// The fields of each object, for a Reader or a Writer.

template <class Fields>
void describe(Fields& field, std::array<std::uint32_t, 5>& engines) {
  const char* const names[] = {"copy", "decoder", "encoder", "jpeg", "ofa"};
  for (std::size_t i = 0; i < std::size(names); ++i) field(names[i], engines[i], kOptional);
}

template <class Fields>
void describe(Fields& field, MigDevice& mig) {
  field("uuid", mig.uuid);
  field("slot", mig.slot);
  field("gpuInstance", mig.gpu_instance);
  field("computeInstance", mig.compute_instance);
  field("profile", mig.profile);
  field("memoryBytes", mig.memory.value);
  field("smCount", mig.sm_count, kOptional);
  field("giSlices", mig.gi_slices);
  field("ciSlices", mig.ci_slices);
  field("engines", mig.engines, kOptional);
  field("nominalMemoryBytes", mig.nominal_memory.value, kSparse);
  field("giCap", mig.gi_cap, kSparse);
  field("ciCap", mig.ci_cap, kSparse);
  field.check(!mig.uuid.empty(), "uuid", "must not be empty");
}

template <class Fields>
void describe(Fields& field, Gpu& gpu) {
  // As text: a Reader has replaced it when it is checked.
  std::string pci_class = fmt::format("{:#08x}", gpu.pci_class);
  std::string capability = fmt::format("{}.{}", gpu.compute_capability.major, gpu.compute_capability.minor);
  field("uuid", gpu.uuid);
  field("index", gpu.index);
  field("minor", gpu.minor);
  field("name", gpu.name);
  field("pciBusId", gpu.pci_bus_id, kOptional);
  field("pciClass", pci_class, kOptional);
  field.check(read_text(pci_class, gpu.pci_class), "pciClass",
              "must be written like \"0x030200\", but is " + in_quotes(pci_class));
  field("pcieRoot", gpu.pcie_root, kSparse);
  field("numaNode", gpu.numa_node, kSparse);
  field("memoryBytes", gpu.memory.value);
  field("computeCapability", capability);
  field.check(read_text(capability, gpu.compute_capability), "computeCapability",
              "must be written like \"9.0\", but is " + in_quotes(capability));
  field("smCount", gpu.sm_count, kOptional);
  field("migCapable", gpu.mig_capable, kOptional);
  field("migEnabled", gpu.mig_enabled, kOptional);
  field("maxMigDevices", gpu.max_mig_devices, kOptional);
  field("computeMode", gpu.compute_mode, kOptional);
  field("fabricClique", gpu.fabric_clique, kSparse);
  field("migDevices", gpu.mig_devices, kOptional);
  field.check(!gpu.uuid.empty(), "uuid", "must not be empty");
}

template <class Fields>
void describe(Fields& field, GpuLink& link) {
  field("a", link.a);
  field("b", link.b);
  field("pcieLevel", link.pcie_level);
  field("nvlinks", link.nvlinks, kOptional);
}

template <class Fields>
void describe(Fields& field, Inventory& inventory) {
  field("platform", inventory.platform, kOptional);
  field("driverVersion", inventory.driver_version, kOptional);
  field("cudaDriverVersion", inventory.cuda_driver_version, kOptional);
  field("gpus", inventory.gpus);
  field("links", inventory.links, kOptional);
  field("unreadable", inventory.unreadable, kOptional);
  field("doubts", inventory.doubts, kOptional);
  for (std::size_t i = 0; i < inventory.links.size(); ++i) {
    const auto& [a, b, level, nvlinks] = inventory.links[i];
    field.check(a < b && b < inventory.gpus.size(), fmt::format("links[{}].b", i),
                "must be the place of a GPU in the list, above a");
  }
  std::set<std::string_view> seen;
  const auto once = [&](const std::string& uuid) {
    field.check(seen.insert(uuid).second, "gpus", "name the UUID " + uuid + " twice");
  };
  for (const Gpu& gpu : inventory.gpus) {
    once(gpu.uuid);
    for (const MigDevice& mig : gpu.mig_devices) once(mig.uuid);
  }
}

class Writer {
 public:
  template <class T>
  void operator()(const char* key, T& value, Field field = kRequired) {
    if constexpr (requires { value == T{}; })
      if (field == kSparse && value == T{}) return;
    json_[key] = made(value);
  }
  void check(bool, const std::string&, const std::string&) {}

  template <class T>
  static Json made(T& value) {
    if constexpr (requires(Writer& fields) { describe(fields, value); }) {
      Writer fields;
      describe(fields, value);
      return fields.json_;
    } else if constexpr (requires { *value; }) {
      return value ? Json(*value) : Json();
    } else if constexpr (Enumeration<T>) {
      return to_string(value);
    } else if constexpr (std::constructible_from<Json, T>) {
      return value;
    } else {
      Json list = Json::array();
      for (auto& each : value) list.push_back(made(each));
      return list;
    }
  }

 private:
  Json json_ = Json::object();
};

// Keeps the first error, with the path of the field.
class Reader {
 public:
  Reader(const Json& json, std::string path, std::optional<std::string>& error)
      : json_(json), path_(std::move(path)), error_(error) {}

  template <class T>
  void operator()(const char* key, T& into, Field field = kRequired) {
    const auto found = json_.find(key);
    if (found != json_.end()) return read(*found, path_of(key), into);
    check(field != kRequired, key, "is missing");
  }
  void check(bool good, const std::string& key, const std::string& what) {
    if (!good && !error_) error_ = path_of(key) + " " + what;
  }

  template <class T>
  void read(const Json& json, const std::string& path, T& into) {
    const auto accept = [&](bool good, const std::string& what) {
      if (!good && !error_) error_ = path + " must be " + what;
      return good && !error_;
    };
    if constexpr (requires { describe(*this, into); }) {
      Reader fields(json, path == "the inventory" ? "" : path, error_);
      if (accept(json.is_object(), "an object")) describe(fields, into);
    } else if constexpr (requires { *into; }) {
      read(json, path, into.emplace());
    } else if constexpr (std::same_as<T, bool>) {
      if (accept(json.is_boolean(), "true or false")) into = json.get<bool>();
    } else if constexpr (std::same_as<T, std::string>) {
      if (accept(json.is_string(), "text")) into = json.get<std::string>();
    } else if constexpr (std::integral<T>) {
      if (!accept(json.is_number_integer(), "a whole number")) return;
      if (json.is_number_unsigned() && std::in_range<T>(json.get<std::uint64_t>()))
        into = json.get<T>();
      else
        error_ = path + " is out of range";
    } else if constexpr (Enumeration<T>) {
      std::string text;
      read(json, path, text);
      const auto value = enum_of<T>(text);
      if (accept(value.has_value(), text_of_all(enum_names<T>()) + ", but is " + in_quotes(text)))
        into = value.value_or(T{});
    } else if (accept(json.is_array(), "a list")) {
      for (std::size_t i = 0; i < json.size() && !error_; ++i)
        read(json[i], path + "[" + std::to_string(i) + "]", into.emplace_back());
    }
  }

 private:
  std::string path_of(const std::string& key) const { return path_.empty() ? key : path_ + "." + key; }

  const Json& json_;
  std::string path_;
  std::optional<std::string>& error_;
};

}  // namespace

nlohmann::ordered_json to_json(const Inventory& inventory) {
  Inventory written = inventory;
  return Writer::made(written);
}

Result<Inventory> parse_inventory(std::string_view json_text, std::string_view source) {
  const Json json = json_of(json_text);
  if (json.is_discarded()) return fail(Kind::kInvalid, "the file of --inventory is not JSON", std::string(source));
  std::optional<std::string> error;
  Inventory inventory;
  Reader(json, "", error).read(json, "the inventory", inventory);
  if (error) return fail(Kind::kInvalid, *error, std::string(source));
  return inventory;
}

}  // namespace tranche::gpu
