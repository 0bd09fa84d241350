// Configurations broken on purpose, by seed: every defect that is put in is named at its path with its severity, what
// is sound beside it is left alone, and text broken at random never does more harm than a Problem.
#include <gmock/gmock.h>

#include <map>

#include "base/text.h"
#include "config/parse/parse.h"
#include "config/resolve.h"
#include "property/generate.h"

namespace tranche::property {
namespace config_test {

using Texts = std::vector<std::string>;

struct Key {
  std::string path;
  Texts good;
  Texts bad;
};

const Texts kSwitches{"true", "false", "yes", "off"};
const Texts kNoSwitches{"\"true\"", "1", "0.5", "[true]", "{a: b}", "maybe"};
const Texts kPaths{"/", "/run/nvidia/mps", "\"/with blank\""};
const Texts kNoPaths{"5", "true", "[a]", "{a: 1}", "1.5"};
const Texts kNoWords{"nonsense", "5", "off", "[none]", "{x: y}", "\"\""};
const Texts kLists{"[{name: gpu, replicas: 2}]",
                   "[{name: nvidia.com/gpu, replicas: 10}, {name: mig-1g.5gb, replicas: 3}]",
                   "[{name: gpu, replicas: 0x10, devices: all}]",
                   "[{name: gpu, replicas: 1}]",
                   "[{name: gpu, slotMemory: 4Gi, names: gpu%d}]",
                   "[{name: gpu, replicas: 60, threads: {sms: 16}, memory: 2Gi, split: span}]"};
const Texts kNoLists{"null",
                     "[]",
                     "5",
                     "{}",
                     "[x]",
                     "[{}]",
                     "[{name: gpu}]",
                     "[{replicas: 2}]",
                     "[{name: GPU, replicas: 2}]",
                     "[{name: gpu, replicas: 0}]",
                     "[{name: gpu, replicas: two}]",
                     "[{name: gpu, slotMemory: 4}]",
                     "[{name: gpu, replicas: 2, names: gpu}]",
                     "[{name: gpu, replicas: 2, threads: 50}]",
                     "[{name: gpu, replicas: 2, devices: 0}]",
                     "[{name: gpu, replicas: 2, rename: }]",
                     "[{name: gpu, replicas: 2}, {name: amd.com/gpu, replicas: 2}]"};

const std::vector<Key>& keys() {
  static const std::vector<Key> all{
      {"version", {"v1", "\"\""}, {"v2", "1", "[v1]"}},
      {"flags.migStrategy", {"none", "single"}, kNoWords},
      {"flags.failOnInitError", kSwitches, kNoSwitches},
      {"flags.mpsRoot", kPaths, kNoPaths},
      {"flags.nvidiaDriverRoot", kPaths, kNoPaths},
      {"flags.nvidiaDevRoot", kPaths, kNoPaths},
      {"flags.gdrcopyEnabled", kSwitches, kNoSwitches},
      {"flags.gdsEnabled", kSwitches, kNoSwitches},
      {"flags.mofedEnabled", kSwitches, kNoSwitches},
      {"flags.useNodeFeatureAPI", kSwitches, kNoSwitches},
      {"flags.deviceDiscoveryStrategy", {"auto", "nvml", "tegra"}, kNoWords},
      {"flags.plugin.passDeviceSpecs", kSwitches, kNoSwitches},
      {"flags.plugin.deviceListStrategy",
       {"envvar", "[volume-mounts]", "[cdi-cri, envvar]"},
       {"nonsense", "5", "{a: 1}", "[nonsense]", "[5]", "\"envvar,cdi-cri\""}},
      {"flags.plugin.deviceIDStrategy", {"uuid", "index"}, kNoWords},
      {"flags.plugin.cdiAnnotationPrefix", {"cdi.k8s.io/", "x/"}, kNoPaths},
      {"flags.plugin.nvidiaCTKPath", kPaths, kNoPaths},
      {"flags.plugin.containerDriverRoot", kPaths, kNoPaths},
      {"flags.plugin.sharedDevicesAllocationPolicy", {"distributed", "packed"}, kNoWords},
      {"flags.gfd.oneshot", kSwitches, kNoSwitches},
      {"flags.gfd.noTimestamp", kSwitches, kNoSwitches},
      {"flags.gfd.sleepInterval", {"60s", "infinite", "1m30s"}, {"\"30\"", "true", "[1s]", "{a: 1}", "5x"}},
      {"flags.gfd.outputFile", kPaths, kNoPaths},
      {"flags.gfd.machineTypeFile", kPaths, kNoPaths},
      {"imex.channelIDs", {"[]", "[0]"}, {"0", "[1]", "[x]", "{a: 1}", "true"}},
      {"imex.required", kSwitches, kNoSwitches},
      {"sharing.mps.renameByDefault", kSwitches, kNoSwitches},
      {"sharing.mps.failRequestsGreaterThanOne", kSwitches, kNoSwitches},
      {"sharing.mps.computeMode", {"exclusive", "leave"}, kNoWords},
      {"sharing.mps.smRounding", {"up", "down", "off"}, {"nonsense", "5", "[up]", "true"}},
      {"sharing.mps.threads",
       {"equal", "open", "tenant", "{factor: 2}", "{sms: 16}"},
       {"half", "5", "[open]", "{factor: 0}", "{sms: 0}", "{factor: 2, sms: 8}", "{}"}},
      {"sharing.mps.memory", {"equal", "open", "{factor: 1.5}", "4Gi"}, {"half", "4", "[open]", "{factor: x}", "4GB"}},
      {"sharing.mps.reserve", {"none", "auto", "600Mi"}, {"some", "600", "[auto]", "{}"}},
      {"sharing.mps.split", {"reject", "span"}, kNoWords},
      {"sharing.mps.stopPatience", {"100ms", "1.5s", "60s"}, {"5", "99ms", "61s", "soon", "[2s]", "{a: 1}"}},
      {"sharing.mps.frameworkEnvironment", kSwitches, kNoSwitches},
      {"devices.include", {"[0]", "[\"NVIDIA H200*\"]", "[]"}, {"0", "[-1]", "[GPU-1]", "{a: 1}", "[[0]]"}},
      {"devices.exclude", {"[\"0000:3b:00.0\"]", "[3, 4]"}, {"all", "[\"0:1\"]", "[1.5]"}},
      {"sharing.mps.resources", kLists, kNoLists},
  };
  return all;
}

struct Defect {
  std::string path;
  Severity severity = Severity::kError;
};

struct Broken {
  std::map<std::string, std::string> values;  // text by path
  std::vector<Defect> defects;
};

std::map<std::string, std::string> sound(Random& random) {
  std::map<std::string, std::string> values;
  const bool mps = random.chance(60);
  for (const Key& key : keys()) {
    const bool of_mps = key.path.starts_with("sharing.mps.");
    const bool needed = key.path == "sharing.mps.resources";
    if (of_mps ? mps && (needed || random.chance(30)) : random.chance(30)) values[key.path] = random.one_of(key.good);
  }
  return values;
}

// A letter more, less or another, so that no key is meant any more.
std::string misspelled(Random& random, std::string path) {
  const std::size_t from = path.rfind('.') + 1;
  path.insert(random.number(static_cast<std::uint32_t>(from), static_cast<std::uint32_t>(path.size())), 1, 'q');
  return path;
}

Broken broken(Random& random) {
  Broken out{sound(random), {}};
  const auto count = random.number(1, 4);
  for (std::uint32_t i = 0; i < count; ++i) {
    const Key& key = random.one_of(keys());
    const bool in_absent_section = key.path.starts_with("sharing.") && !out.values.contains("sharing.mps.resources");
    if (in_absent_section) continue;
    if (std::ranges::any_of(out.defects, [&key](const Defect& defect) { return defect.path == key.path; })) continue;
    if (random.chance(25)) {
      const std::string path = misspelled(random, key.path);
      out.values[path] = random.one_of(key.good);
      // At the top of the file a key that resembles a known one is an error: it may be the whole configuration.
      const bool at_the_top = path.find('.') == std::string::npos;
      out.defects.push_back({path, at_the_top ? Severity::kError : Severity::kWarning});
    } else {
      out.values[key.path] = random.one_of(key.bad);
      out.defects.push_back({key.path, Severity::kError});
    }
  }
  if (out.defects.empty()) {
    out.values["imex.required"] = "\"no\"";
    out.defects.push_back({"imex.required"});
  }
  return out;
}

// The values below `prefix` as a block, or in braces on one line.
std::string written(const std::map<std::string, std::string>& values, const std::string& prefix, int depth, bool flow) {
  std::string out;
  std::string last;
  for (const auto& [path, text] : values) {
    if (!path.starts_with(prefix)) continue;
    const std::string rest = path.substr(prefix.size());
    const auto dot = rest.find('.');
    const std::string name = rest.substr(0, dot);
    if (name == last) continue;
    last = name;
    if (flow && !out.empty()) out += ", ";
    if (!flow) out += std::string(static_cast<std::size_t>(depth) * 2, ' ');
    if (dot == std::string::npos) {
      out += name + ": " + text;
      if (!flow) out += "\n";
    } else if (flow) {
      out += name + ": {" + written(values, prefix + name + ".", depth + 1, flow) + "}";
    } else {
      out += name + ":\n" + written(values, prefix + name + ".", depth + 1, flow);
    }
  }
  return out;
}

std::string file_of(Random& random, const std::map<std::string, std::string>& values) {
  return random.chance(50) ? written(values, "", 0, false) : "{" + written(values, "", 0, true) + "}\n";
}

bool is_about(const Problem& problem, const Defect& defect) {
  return problem.severity == defect.severity && problem.path.starts_with(defect.path);
}

// Promise: config: Each seeded defect is named and nothing else.
TEST(BrokenConfig, EveryDefectIsNamedAndNothingElse) {
  constexpr std::uint32_t kFiles = 500;
  std::size_t defects = 0;
  for (std::uint32_t seed = 1; seed <= kFiles; ++seed) {
    Random random(seed);
    const Broken made = broken(random);
    const std::string text = file_of(random, made.values);
    SCOPED_TRACE("seed " + std::to_string(seed) + "\n" + text);
    const auto parsed = config::parse(text, "f");
    for (const Defect& defect : made.defects)
      EXPECT_TRUE(std::ranges::any_of(parsed.problems, [&](const Problem& p) { return is_about(p, defect); }))
          << defect.path;
    for (const Problem& problem : parsed.problems) {
      EXPECT_TRUE(std::ranges::any_of(made.defects, [&](const Defect& d) { return is_about(problem, d); }))
          << to_string(problem);
      EXPECT_GE(problem.place.line, 1);
      EXPECT_GE(problem.place.column, 1);
      EXPECT_FALSE(problem.remedy.empty());
    }
    defects += made.defects.size();
  }
  EXPECT_GT(defects, kFiles);
}

// Promise: config: Each seeded defect is named and nothing else.
TEST(BrokenConfig, ASoundOneHasNoProblem) {
  for (std::uint32_t seed = 1; seed <= 300; ++seed) {
    Random random(seed);
    const std::string text = file_of(random, sound(random));
    for (const Problem& problem : config::parse(text, "f").problems)
      ADD_FAILURE() << "seed " << seed << "\n" << text << to_string(problem);
  }
}

std::string damaged(Random& random, std::string text) {
  static const std::string kSigns = ":{}[],&*#?|->'\"%@`!\t \n0aZ\x01\xff~";
  const auto at = [&] { return random.number(0, static_cast<std::uint32_t>(text.size()) - 1); };
  const auto count = random.number(1, 6);
  for (std::uint32_t i = 0; i < count && !text.empty(); ++i) {
    switch (random.number(0, 4)) {
      case 0:
        text.erase(at(), 1);
        break;
      case 1:
        text.insert(at(), 1, kSigns[random.number(0, static_cast<std::uint32_t>(kSigns.size()) - 1)]);
        break;
      case 2:
        text[at()] = static_cast<char>(random.number(0, 255));
        break;
      case 3:
        text.resize(at());
        break;
      default:
        text += text.substr(at(), random.number(1, 40));
    }
  }
  return text;
}

// Promise: config: Random damage gives problems or a configuration that is read back.
TEST(BrokenConfig, RandomDamageGivesProblemsOrAConfigurationThatIsReadBack) {
  std::size_t with_problems = 0;
  for (std::uint32_t seed = 1; seed <= 2000; ++seed) {
    Random random(seed);
    const std::string text = damaged(random, file_of(random, sound(random)) + "flags: {}\n");
    SCOPED_TRACE("seed " + std::to_string(seed) + "\n" + in_quotes(text));
    auto parsed = config::parse(text, "f");
    if (!parsed.problems.empty()) ++with_problems;
    for (const Problem& problem : parsed.problems) EXPECT_FALSE(problem.what.empty() || problem.remedy.empty());
    if (has_error(parsed.problems)) continue;
    auto again = config::parse(config::render_line(parsed.config), "again");
    for (auto* sharing : {&parsed.config.sharing, &again.config.sharing})
      for (auto& resource : sharing->resources) resource.place = {};
    EXPECT_EQ(again.config, parsed.config);
  }
  EXPECT_GT(with_problems, 500u);
}

}  // namespace config_test
}  // namespace tranche::property
