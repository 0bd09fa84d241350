#include "dra/claim.h"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <nlohmann/json.hpp>

#include "base/text.h"
#include "plan/shares.h"

namespace tranche::dra {
namespace {

using Json = nlohmann::json;

constexpr std::string_view kNvidiaConfigVersion = "resource.nvidia.com/v1beta1";
constexpr std::uint32_t kMostPercent = 100;
constexpr const char* kTimeSlicing = "TimeSlicing";
constexpr const char* kMps = "MPS";
constexpr const char* kGpuConfig = "GpuConfig";
constexpr const char* kMigConfig = "MigDeviceConfig";

// A member that is null counts as absent, as it does for the API server.
class Fields {
 public:
  Fields(const Json& object, std::string path) : object_(object), path_(std::move(path)) {}

  Status only(std::initializer_list<std::string_view> known) const {
    if (!object_.is_object()) return wrong_field(path_, "is not an object", "write its fields below it");
    for (const auto& [key, value] : object_.items()) {
      if (std::ranges::find(known, key) != known.end()) continue;
      return wrong_field(path_, fmt::format("has no field {}", in_quotes(key)),
                         fmt::format("remove it, or write one of: {}", fmt::join(known, ", ")));
    }
    return {};
  }
  const Json* find(const char* key) const {
    const auto at = object_.find(key);
    return at == object_.end() || at->is_null() ? nullptr : &*at;
  }
  std::string path(const char* key) const { return path_ + "." + key; }
  // "" = absent.
  Result<std::string> word(const char* key, std::initializer_list<std::string_view> words) const {
    const Json* value = find(key);
    if (value == nullptr) return std::string();
    const auto text = value->is_string() ? value->get<std::string>() : std::string();
    if (std::ranges::find(words, text) != words.end()) return text;
    return wrong_field(path(key), "is " + (value->is_string() ? in_quotes(text) : "not a string"),
                       fmt::format("write one of: {}", fmt::join(words, ", ")));
  }

 private:
  const Json& object_;
  std::string path_;
};

// As NVIDIA's driver: whole MiB, and what is less than one is an error.
Result<Bytes> memory_limit(const Json& value, const std::string& field) {
  TRY(const auto amount, read_quantity(value, field, "write a quantity such as 10Gi"));
  const Bytes limit = mib(Bytes{amount}.in_mib());
  if (limit < plan::kSmallestContext)
    return wrong_field(field,
                       fmt::format("is {} MiB, and a CUDA context alone takes {} MiB", limit.in_mib(),
                                   plan::kSmallestContext.in_mib()),
                       "write more");
  return limit;
}

Status read_mps(const Json& json, const std::string& path, DeviceConfig& into) {
  const Fields fields(json, path);
  TRY_STATUS(fields.only({"defaultActiveThreadPercentage", "defaultPinnedDeviceMemoryLimit",
                          "defaultPerDevicePinnedMemoryLimit", "multiUser"}));
  if (const Json* threads = fields.find("defaultActiveThreadPercentage")) {
    if (!threads->is_number_unsigned() || threads->get<std::uint64_t>() > kMostPercent)
      return wrong_field(fields.path("defaultActiveThreadPercentage"), "is not a whole number from 0 to 100",
                         "write for example 50");
    into.threads = static_cast<std::uint32_t>(threads->get<std::uint64_t>());
  }
  if (const Json* memory = fields.find("defaultPinnedDeviceMemoryLimit")) {
    TRY(into.memory, memory_limit(*memory, fields.path("defaultPinnedDeviceMemoryLimit")));
  }
  if (const Json* each = fields.find("defaultPerDevicePinnedMemoryLimit")) {
    const auto at = fields.path("defaultPerDevicePinnedMemoryLimit");
    if (!each->is_object())
      return wrong_field(at, "is not an object", "write limits by UUID or number of the device, such as 0: 10Gi");
    for (const auto& [device, limit] : each->items()) {
      TRY(into.memory_on[device], memory_limit(limit, fmt::format("{}[{}]", at, in_quotes(device))));
    }
  }
  if (const Json* users = fields.find("multiUser"); users != nullptr && !users->is_boolean())
    return wrong_field(fields.path("multiUser"), "is not true or false", "write true or false");
  return {};
}

Status read_sharing(const Json& json, const std::string& path, DeviceConfig& into) {
  const Fields fields(json, path);
  const bool gpu = into.device == DeviceConfig::For::kGpu;
  TRY_STATUS(gpu ? fields.only({"strategy", "timeSlicingConfig", "mpsConfig"})
                 : fields.only({"strategy", "mpsConfig"}));
  TRY(const auto strategy, fields.word("strategy", {kTimeSlicing, kMps}));
  if (strategy.empty()) return wrong_field(fields.path("strategy"), "is absent", "write TimeSlicing or MPS");
  into.strategy = strategy == kMps ? DeviceConfig::Strategy::kMps : DeviceConfig::Strategy::kTimeSlicing;
  const auto* const other = strategy == kMps ? "timeSlicingConfig" : "mpsConfig";
  if (fields.find(other) != nullptr)
    return wrong_field(fields.path(other), "cannot be combined with the strategy " + strategy,
                       "remove it, or write the other strategy");
  if (const Json* slicing = fields.find("timeSlicingConfig")) {
    const Fields inside(*slicing, fields.path("timeSlicingConfig"));
    TRY_STATUS(inside.only({"interval"}));
    TRY_STATUS(inside.word("interval", {"Default", "Short", "Medium", "Long"}));  // without effect
  }
  if (const Json* mps = fields.find("mpsConfig")) return read_mps(*mps, fields.path("mpsConfig"), into);
  return {};
}

}  // namespace

Result<DeviceConfig> read_device_config(const Json& parameters, const std::string& field) {
  const Fields fields(parameters, field);
  if (!parameters.is_object()) return wrong_field(field, "is not an object", "write apiVersion, kind and sharing");
  const std::string remedy = fmt::format("write apiVersion: {} and kind: GpuConfig", kNvidiaConfigVersion);
  DeviceConfig config{.field = field};
  TRY(const auto version, fields.word("apiVersion", {kNvidiaConfigVersion}));
  if (version.empty()) return wrong_field(fields.path("apiVersion"), "is absent", remedy);
  TRY(const auto kind, fields.word("kind", {kGpuConfig, kMigConfig}));
  if (kind.empty()) return wrong_field(fields.path("kind"), "is absent", remedy);
  config.device = kind == kGpuConfig ? DeviceConfig::For::kGpu : DeviceConfig::For::kMig;
  TRY_STATUS(fields.only({"apiVersion", "kind", "sharing"}));
  if (const Json* sharing = fields.find("sharing")) TRY_STATUS(read_sharing(*sharing, fields.path("sharing"), config));
  return config;
}

Result<const DeviceConfig*> config_of(const std::vector<DeviceConfig>& configs, const std::string& request, Kind kind) {
  const DeviceConfig* found = nullptr;
  if (kind == Kind::kMonitor) return found;
  for (const auto& config : configs) {
    const bool named = std::ranges::find(config.requests, request) != config.requests.end();
    const bool of_its_kind = (config.device == DeviceConfig::For::kMig) == (kind == Kind::kMig);
    if (!config.requests.empty() && !named) continue;
    if (named && !of_its_kind)
      return wrong_field(
          config.field + ".kind",
          kind == Kind::kMig
              ? fmt::format("is for GPUs, and request {} has a MIG device", in_quotes(request))
              : fmt::format("is for MIG devices, and request {} has a GPU without MIG", in_quotes(request)),
          fmt::format("write {}, or remove the request from the configuration's requests",
                      kind == Kind::kMig ? kMigConfig : kGpuConfig));
    const bool hidden = found != nullptr && config.from_class && !found->from_class;
    if (of_its_kind && !hidden) found = &config;
  }
  return found;
}

}  // namespace tranche::dra
