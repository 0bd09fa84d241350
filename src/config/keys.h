#pragma once
// All keys of a configuration file: those that the parser knows (config/document/fields.h reads a mapping's keys from
// here), that docs/reference/configuration.md lists, and that the JSON Schema allows. A key that is not here is unknown
// to all three. With the flags and variables of the programs that Tranche replaces: those of the keys, and a few
// without a key. cli/ builds its options from them, resolve() applies them. Pure.
#include <algorithm>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "config/model.h"

namespace tranche::config {

inline constexpr std::uint32_t kMostSlots = 65535;  // of one device; plan/make_plan.cpp knows the limit of a resource
inline constexpr std::uint32_t kMostClientsOfDrivers = 60;  // of one MPS server, with CUDA 13.1 (plan/plan_steps.h)
inline constexpr std::uint32_t kMostClients = 1024;         // that a file can set: the bound keeps products small

// Whether the keys below a mapping are accepted in any case (NVIDIA's plain structures) or only as written (objects
// with their own decoder, and extensions).
enum class KeyCase { kAny, kExact };

enum class KeyType {
  kSection,   // a mapping; its keys have rows below its path
  kSections,  // a list of mappings; their keys have rows below "<path>[]"
  kSwitch,    // true or false
  kText,
  kPath,
  kWord,      // one of `words`
  kWordList,  // one of them, or a list
  kCount,     // a whole number from `least` to `most`
  kFactor,    // a number from 0.01 to 100 with at most two places
  kDuration,
  kProof,     // 0, or a duration of at least 10s
  kSize,      // with a unit
  kReserve,   // one of `words`, or a size
  kThreads,   // one of `words`, or a mapping
  kMemory,    // one of `words`, a size, or a mapping
  kResource,  // the name of an extended resource
  kNames,     // a pattern of such names
  kDevices,   // all, a count, or a list of devices
  kGpus,      // a list of devices and patterns
  kSomeGpus,  // one of `words`, or such a list
  kIndex,     // a device by its index
  kChannels,  // empty, or the one channel 0
  kDriver,    // the name of a DRA driver: a DNS subdomain
  kTexts,     // a list, of flags only
};

enum class Origin {
  kNvidia,
  kOurs,
  kFork,    // of a fork of NVIDIA's plugin, accepted so that its files work
  kUnused,  // NVIDIA's or a fork's: checked, without effect there and here
};

// The programs with a flag or variable for a key. `tranche node` uses the device plugin's.
enum class Program { kDevicePlugin, kFeatureDiscovery, kMpsControlDaemon };

class Value;

// The values of a flag in order, or that of a variable. A flag without a value has none.
struct GivenTexts {
  std::vector<std::string> values;
  bool variable = false;
  bool empty() const { return values.empty() || (values.size() == 1 && values.front().empty()); }
};

struct Key {
  std::string path;  // "sharing.mps.resources[].name"; "" is the file itself
  KeyType type = KeyType::kText;
  Origin origin = Origin::kNvidia;
  std::string usual{};   // the default, in the file's notation, "" = none
  std::string sample{};  // a valid value, as YAML
  std::string_view meaning{};
  std::string_view see{};  // the document with details, "shares.md"
  std::vector<std::string_view> words{};
  std::uint32_t least = 0;  // kCount; kDuration: in milliseconds; kDriver: characters
  std::uint32_t most = 0;
  KeyCase below = KeyCase::kExact;  // kSection and kSections: of the keys below

  // Of a setting with one value, which is a member of Config (config/field.h); null for the others.
  void (*read)(const Value&, const Key&, Config&) = nullptr;
  nlohmann::ordered_json (*json)(const Config&) = nullptr;
  // Assigns what a flag or variable gives: the last value, or all of a list. Returns the error, or ""; absent: it does
  // not count as given.
  std::optional<std::string> (*assign)(Config&, const GivenTexts&) = nullptr;
  std::vector<Program> programs{};
  std::vector<std::string_view> flags{};      // without dashes; the first is the usual one
  std::vector<std::string_view> variables{};  // the first that exists applies; GFD_… of feature discovery only

  std::string_view name() const { return std::string_view(path).substr(path.rfind('.') + 1); }  // npos + 1 is 0
  std::string_view section() const {
    return std::string_view(path).substr(0, path.size() - std::min(path.size(), name().size() + 1));
  }
};

std::span<const Key> keys();              // a section comes before its keys
std::span<const Key> keyless_settings();  // without a key in the file: their paths have no dot
// What a program's command line has: rows of both, with the variables that this program reads, in their order.
std::span<const Key> settings_of(Program program);
std::string help_of(const Key& setting);

inline constexpr std::string_view kConfigFile = "configFile";  // path of the setting that names the file itself

// The names of the rows directly below a mapping, by its path with or without list indices.
std::vector<std::string_view> names_below(std::string_view path);
KeyCase key_case_below(std::string_view path);
// "a.b[3].c" → "a.b[].c"
std::string without_indices(std::string_view path);

// The table as docs/reference/configuration.md and as deploy/schema/config.schema.json, for editors; a test compares
// the files.
std::string reference_text();  // Markdown
std::string schema_json();     // draft 2020-12; keys in their usual case

}  // namespace tranche::config
