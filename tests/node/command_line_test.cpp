// The command line as NVIDIA's programs have it, and what `tranche check` says of a configuration: the real program.
#include <csignal>
#include <filesystem>

#include <nlohmann/json.hpp>

#include "base/text.h"
#include "config/keys.h"
#include "node/bed.h"

namespace tranche::e2e {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
namespace fs = std::filesystem;

// One switch for each of NVIDIA's flags and variables, so that all can be given at once.
std::string some_value(const config::Key& setting) {
  if (setting.type == config::KeyType::kSwitch) return "true";
  static const std::map<std::string_view, std::string> kWords{
      {"flags.migStrategy", "single"},
      {"flags.plugin.deviceListStrategy", "volume-mounts,cdi-cri"},
      {"flags.plugin.deviceIDStrategy", "index"},
      {"flags.plugin.sharedDevicesAllocationPolicy", "packed"},
      {"flags.deviceDiscoveryStrategy", "nvml"},
      {"imex.channelIDs", "0"},
      {"cdiDisableHooks", "all"},
      {"cdiFeatureFlags", "no-additional-gids-for-device-nodes"}};
  const auto word = kWords.find(setting.path);
  return word == kWords.end() ? "/some/" + std::string(setting.path) : word->second;
}

class CommandLine : public NodeBed {
 protected:
  // The program under another name: a link, as in an image.
  std::string called(const std::string& name) {
    if (!fs::exists(in(name))) fs::create_symlink(tranche(), in(name));
    return in(name);
  }
  Program& done(Strings argv, const Environment& environment = {}) {
    Program& program = start(std::move(argv), environment);
    finish(program);
    return program;
  }
  Environment own_places() const {
    return {{"TRANCHE_PLUGIN_DIR", in("plugins")},
            {"TRANCHE_RUN_DIR", in("run")},
            {"TRANCHE_POD_RESOURCES_SOCKET", in("run/pod-resources.sock")},
            {"TRANCHE_MPS_ROOT_CTR_PATH", in("mps")},
            {"DRIVER_ROOT_CTR_PATH", in("driver")},
            {"CONFIG_FILE", config_path_}};
  }
};

using DevicePlugin = CommandLine;
using MpsControlDaemon = CommandLine;
using CheckConfig = CommandLine;

// Promise: command-line: The plugin ends with status 0 on every signal.
TEST_F(DevicePlugin, CalledByItsNameServesWithNvidiasVariablesAndEndsWellOnEverySignal) {
  make_node(1);
  write("config.yaml", sharing("timeSlicing", 3, "    renameByDefault: true\n"));
  start_kubelet();
  Environment environment = own_places();
  environment["DEVICE_LIST_STRATEGY"] = "volume-mounts";
  for (const int signal : {SIGQUIT, SIGINT, SIGTERM}) {
    Program& plugin = start({called("nvidia-device-plugin"), "-device-id-strategy", "index"}, environment);
    const auto healthy = kubelet().wait_for_healthy("nvidia.com/gpu.shared", 3, kSoon);
    ASSERT_TRUE(healthy) << to_string(healthy.error()) << plugin.err();
    EXPECT_TRUE(fs::exists(in("plugins/nvidia-gpu.shared.sock")));
    stop(plugin, signal, 0);
    EXPECT_FALSE(fs::exists(in("plugins/nvidia-gpu.shared.sock"))) << signal;
    EXPECT_THAT(plugin.err(),
                AllOf(HasSubstr("config.effective"), HasSubstr("--device-id-strategy"),
                      HasSubstr("volume-mounts ($DEVICE_LIST_STRATEGY)"),
                      HasSubstr("nvidia.com/gpu in 3, as nvidia.com/gpu.shared (" + config_path_ + ":7:7)")));
  }
}

// Promise: command-line: Every flag and alias of NVIDIA's plugin is accepted with one dash or two.
TEST_F(DevicePlugin, TakesEveryFlagAndAliasOfNvidiasWithOneDashOrTwo) {
  std::size_t count = 0;
  for (const auto& setting : config::settings_of(config::Program::kDevicePlugin)) {
    for (const auto flag : setting.flags) {
      const std::string name(flag);
      const std::string value = some_value(setting);
      const bool is_switch = setting.type == config::KeyType::kSwitch;
      for (const Strings& words : is_switch ? std::vector<Strings>{{"--" + name}, {"-" + name + "=false"}}
                                            : std::vector<Strings>{{"--" + name, value}, {"-" + name + "=" + value}}) {
        Strings argv{tranche(), "device-plugin", "--config-file", in("absent.yaml")};
        if (name == "config-file") argv.resize(2);
        argv.insert(argv.end(), words.begin(), words.end());
        Program& plugin = done(argv);
        EXPECT_EQ(plugin.code(), 1) << words.front();
        EXPECT_THAT(plugin.err(), HasSubstr(": error: cannot open: ")) << words.front();
        ++count;
      }
    }
  }
  EXPECT_EQ(count, 52u) << "22 flags and 4 second names, twice each";
}

// Promise: command-line: Every variable of NVIDIA's plugin is accepted.
TEST_F(DevicePlugin, TakesEveryVariableOfNvidias) {
  Environment environment;
  for (const auto& setting : config::settings_of(config::Program::kDevicePlugin))
    if (setting.path != config::kConfigFile)
      for (const auto variable : setting.variables) environment[std::string(variable)] = some_value(setting);
  Program& check = done({tranche(), "check", "--explain", "--json"}, environment);
  ASSERT_EQ(check.code(), 0) << check.out() << check.err();
  const auto report = Json::parse(check.out(), nullptr, false);
  std::map<std::string, std::string> where;
  std::map<std::string, std::string> value;
  for (const auto& row : report["settings"]) {
    where[row["path"]] = row["where"];
    value[row["path"]] = row["value"];
  }
  for (const auto& setting : config::settings_of(config::Program::kDevicePlugin)) {
    if (setting.path == config::kConfigFile) continue;
    const std::string path(setting.path);
    EXPECT_EQ(where[path], "$" + std::string(setting.variables.front()));
    EXPECT_EQ(value[path], some_value(setting)) << path;
  }
}

// Promise: command-line: Failures of configuration or usage end NVIDIA's names with status 1.
TEST_F(DevicePlugin, EveryFailureOfConfigurationOrUsageEndsItWithStatusOne) {
  write("bad.yaml", "version: v1\nflags:\n  migStrategy: wrong\n");
  write("sound.yaml", "version: v1\n");
  struct Row {
    Strings words;
    Environment environment;
    std::string says;
  };
  const std::string plugin = called("nvidia-device-plugin");
  for (const Row& row :
       {Row{{"--config-file", in("bad.yaml")}, {}, "bad.yaml:3:16: error: flags.migStrategy: must be none"},
        Row{{"--config-file", in("absent.yaml")}, {}, in("absent.yaml") + ": error: cannot "},
        Row{{"--config-file", scratch_.path()}, {}, "error: cannot "},
        Row{{}, {{"CONFIG_FILE", in("absent.yaml")}}, in("absent.yaml") + ": error: cannot "},
        Row{{"--mig-strateg", "single"},
            {},
            "nvidia-device-plugin: has no flag --mig-strateg; did you mean --mig-strategy?"},
        Row{{"--mig-strategy"}, {}, "--mig-strategy"},
        Row{{"--mig-strategy="}, {}, "--mig-strategy: error: flags.migStrategy: must be none, single or mixed"},
        Row{{"--fail-on-init-error=perhaps"}, {}, "--fail-on-init-error"},
        Row{{}, {{"MIG_STRATEGY", ""}}, "$MIG_STRATEGY: error: flags.migStrategy"},
        Row{{"--log-level", "loud"}, {}, "--log-level"}}) {
    Strings argv{plugin};
    argv.insert(argv.end(), row.words.begin(), row.words.end());
    Program& program = done(argv, row.environment);
    EXPECT_EQ(program.code(), 1) << row.says;
    EXPECT_EQ(program.out(), "") << row.says;
    EXPECT_THAT(program.err(), HasSubstr(row.says));
  }
}

TEST_F(DevicePlugin, KubeletsSocketMayBeElsewhereOrNoneAndOursStayWhereTheyAre) {
  make_node(1);
  write("config.yaml", sharing("timeSlicing", 2));
  start_kubelet();
  Program& alone = start({tranche(), "device-plugin", "--kubelet-socket="}, own_places());
  until_node([](const Json& status) { return !status["resources"].empty() && status["resources"][0]["healthy"] == 2; });
  EXPECT_TRUE(fs::exists(plugin_socket()));
  EXPECT_TRUE(kubelet().registrations().empty()) << "an empty name means not to register";
  stop(alone, SIGTERM, 0);
  fs::create_directory(in("elsewhere"));
  fs::create_hard_link(in("plugins/kubelet.sock"), in("elsewhere/kubelet.sock"));
  Environment environment = own_places();
  environment["KUBELET_SOCKET"] = in("elsewhere/kubelet.sock");
  start({tranche(), "device-plugin"}, environment);
  EXPECT_TRUE(until_healthy(2));
  EXPECT_TRUE(fs::exists(plugin_socket()));
}

TEST_F(DevicePlugin, HelpAndVersionEndWell) {
  const std::string plugin = called("nvidia-device-plugin");
  for (const char* word : {"--help", "-h", "-help", "help"}) {
    Program& help = done({plugin, word});
    EXPECT_EQ(help.code(), 0) << word;
    for (const auto& setting : config::settings_of(config::Program::kDevicePlugin)) {
      for (const auto flag : setting.flags) EXPECT_THAT(help.out(), HasSubstr("--" + std::string(flag))) << word;
      for (const auto variable : setting.variables) EXPECT_THAT(help.out(), HasSubstr("[$" + std::string(variable)));
    }
    EXPECT_THAT(help.out(), HasSubstr("nvidia-device-plugin [OPTIONS]"));
  }
  for (const char* word : {"--version", "-v"}) {
    Program& version = done({plugin, word});
    EXPECT_EQ(version.code(), 0) << word;
    EXPECT_THAT(version.out(), HasSubstr("nvidia-device-plugin (tranche "));
  }
}

TEST_F(DevicePlugin, WhatFollowsAWordThatIsNoFlagIsIgnoredAsNvidiaIgnoresItButSaid) {
  Program& plugin = done(
      {called("nvidia-device-plugin"), "--config-file", in("absent.yaml"), "--gds-enabled", "false", "--no-such-flag"});
  EXPECT_EQ(plugin.code(), 1) << "of the file";
  EXPECT_THAT(plugin.err(), AllOf(HasSubstr("warning: ignored"), HasSubstr("\"false\" \"--no-such-flag\""),
                                  HasSubstr("cannot open")));
}

// Promise: command-line: An unknown flag or command is answered with the nearest.
TEST_F(CommandLine, AFlagOrCommandThatIsUnknownIsAnsweredWithTheNearest) {
  struct Row {
    Strings words;
    std::string says;
  };
  for (const Row& row : {Row{{"node", "--mig-strategie", "none"},
                             "tranche node: has no flag --mig-strategie; did you mean --mig-strategy?"},
                         Row{{"node", "--plugin-dri=/x"}, "did you mean --plugin-dir?"},
                         Row{{"node", "--gds-enabled", "false"}, "tranche node: accepts no argument \"false\""},
                         Row{{"nod"}, "tranche: has no command \"nod\"; did you mean node?"},
                         Row{{"check", "--explian"}, "did you mean --explain?"},
                         Row{{"check", "ten.yaml"}, "did you mean --config ten.yaml?"}}) {
    Strings argv{tranche()};
    argv.insert(argv.end(), row.words.begin(), row.words.end());
    Program& program = done(argv);
    EXPECT_EQ(program.code(), 2) << row.says;
    EXPECT_THAT(program.err(), HasSubstr(row.says));
    EXPECT_THAT(program.err(), HasSubstr("--help` lists what there is"));
  }
  EXPECT_EQ(run({tranche(), "--help"}), 0);
  EXPECT_EQ(run({tranche(), "node", "--help"}), 0);
  EXPECT_EQ(run({tranche(), "-v"}), 0);
  EXPECT_THAT(done({tranche()}).out(), HasSubstr("tranche [OPTIONS] SUBCOMMAND"));
  EXPECT_THAT(done({tranche(), "help"}).out(), HasSubstr("tranche [OPTIONS] SUBCOMMAND"));
  EXPECT_THAT(done({tranche(), "help", "node"}).out(), HasSubstr("tranche node [OPTIONS]"));
}

TEST_F(CommandLine, HelpFitsTheTerminalAndNamesWhatAValueMayBe) {
  for (const char* command : {"demo", "plan", "node", "verify"}) {
    const auto help = done({tranche(), command, "--help"}).out();
    for (const auto line : lines_of(help)) EXPECT_LE(line.size(), 80u) << line;
  }
  const auto demo = done({tranche(), "demo", "--help"}).out();
  EXPECT_THAT(demo, AllOf(HasSubstr("--gpus N"), HasSubstr("(1 to 16; default 4)"), Not(HasSubstr("UINT"))));
  EXPECT_THAT(done({tranche(), "top", "--help"}).out(), HasSubstr("(memory, limit, processes,"));
  EXPECT_THAT(done({tranche(), "plan", "--help"}).out(), AllOf(HasSubstr("RTX-5090"), HasSubstr("not with --against")));
}

TEST_F(CommandLine, TheVersionIsPrintedAsJsonToo) {
  const auto json = nlohmann::json::parse(done({tranche(), "version", "--json"}).out(), nullptr, false);
  EXPECT_THAT(done({tranche(), "version"}).out(), HasSubstr("tranche " + json.value("version", "")));
  EXPECT_TRUE(json.contains("commit") && json.contains("date")) << json;
}

TEST_F(CommandLine, AShellCompletesCommandsAndFlags) {
  const std::string words = "; COMP_WORDS=(tranche plan --inv); COMP_CWORD=2; _tranche; echo \"${COMPREPLY[@]}\"";
  Program& bash = done({"/bin/bash", "-c", "source <(" + tranche() + " completion bash)" + words});
  EXPECT_EQ(bash.out(), "--inventory --inventory-only\n") << bash.err();
  EXPECT_THAT(done({tranche(), "completion", "fish"}).out(), HasSubstr("__fish_seen_subcommand_from plan"));
}

TEST_F(CommandLine, ValuesThatCannotBeReadAreNamedInOurWords) {
  EXPECT_THAT(done({tranche(), "status", "--deadline", "abc"}).err(),
              HasSubstr("--deadline: \"abc\" is not a value that it accepts"));
  EXPECT_THAT(done({tranche(), "status", "--socket"}).err(), HasSubstr("--socket needs a value"));
}

TEST_F(CommandLine, AnEmptyValueAfterAnEqualsSignIsTheValueAndNotTheNextFlag) {
  Program& plan = done({tranche(), "plan", "--inventory=T4", "--against=", "--json"});
  EXPECT_TRUE(nlohmann::json::accept(plan.out())) << plan.out() << plan.err();
  EXPECT_THAT(done({tranche(), "status", "--deadline=", "--json"}).err(),
              HasSubstr("--deadline: \"\" is not a number"));
}

TEST_F(CommandLine, AStatusSocketThatDoesNotAnswerIsDistinguished) {
  write("plain", "");
  EXPECT_THAT(done({tranche(), "status", "--socket", in("plain")}).err(), HasSubstr("not a socket"));
  EXPECT_THAT(done({tranche(), "status", "--socket", in("none")}).err(), HasSubstr("no such socket"));
}

TEST_F(CommandLine, FlagsOfTheConfigurationAreListedOnRequest) {
  EXPECT_THAT(done({tranche(), "node", "--help"}).out(),
              AllOf(HasSubstr("--help-config"), Not(HasSubstr("--mig-strategy"))));
  Program& help = done({tranche(), "node", "--help-config"});
  EXPECT_EQ(help.code(), 0);
  EXPECT_THAT(help.out(), AllOf(HasSubstr("--mig-strategy"), HasSubstr("[$MIG_STRATEGY]"), HasSubstr("--listen")));
}

TEST_F(CommandLine, AConfigurationFileThatCannotBeReadIsNamedOnce) {
  Program& check = done({tranche(), "check", "--config", in("none.yaml")});
  EXPECT_EQ(check.code(), 2);
  EXPECT_THAT(check.out(), AllOf(HasSubstr("none.yaml: error: cannot open: No such file or directory; name a readable"),
                                 HasSubstr("--config")));
  write("config.yaml", "version: v1\n");
  Program& plan =
      done({tranche(), "plan", "--inventory", "T4", "--config", config_path_, "--against", in("none.yaml")});
  EXPECT_THAT(plan.err(), HasSubstr("name a readable file with --against"));
}

TEST_F(CommandLine, APlanNeedsNoNodeAndCountsNodes) {
  write("config.yaml", "sharing: {mps: {resources: [{name: nvidia.com/gpu, replicas: 2}]}}\n");
  Program& plan = done({tranche(), "plan", "--inventory", "8xH100-SXM5-80GB", "--config", config_path_});
  EXPECT_EQ(plan.code(), 0) << plan.out();
  EXPECT_THAT(plan.out(), AllOf(HasSubstr("8 GPUs"), HasSubstr("NVIDIA H100 80GB HBM3"), Not(HasSubstr("Labels"))));
  EXPECT_LT(plan.out().find("Notes"), plan.out().find("8 GPUs"));
  EXPECT_THAT(done({tranche(), "plan", "--inventory", "T4", "--config", config_path_, "--labels"}).out(),
              HasSubstr("nvidia.com/gpu.product=Tesla-T4-SHARED"));
  EXPECT_THAT(done({tranche(), "plan", "--inventory", "8xH100"}).err(), HasSubstr("did you mean H100-SXM5-80GB?"));
  EXPECT_THAT(done({tranche(), "plan", "--inventory", "h200"}).err(), HasSubstr("did you mean H200?"));
  EXPECT_THAT(done({tranche(), "plan", "--inventory", config_path_}).err(),
              HasSubstr("the file of --inventory is not JSON"));
  std::string pods;
  for (const char* name : {"a", "b", "c"})
    pods += std::string("---\napiVersion: v1\nkind: Pod\nmetadata: {name: ") + name +
            "}\nspec: {containers: [{name: m, resources: {limits: {nvidia.com/gpu: 1}}}]}\n";
  write("pods.yaml", pods);
  Program& two = done(
      {tranche(), "plan", "--inventory", "T4", "--config", config_path_, "--pods", in("pods.yaml"), "--nodes", "3"});
  EXPECT_EQ(two.code(), 0) << two.out();
  EXPECT_THAT(two.out(), AllOf(HasSubstr("Node 2 of 3"), HasSubstr("every pod lands on 2 of 3 nodes")));
  write("config.yaml", "sharing: {mps: {resources: [{name: nvidia.com/gpu, slotMemory: 200Gi}]}}\n");
  EXPECT_EQ(run({tranche(), "plan", "--inventory", "T4", "--config", config_path_}), 3) << "no GPU is offered";
}

TEST_F(CommandLine, ADemoOfAnUnknownModelIsRefusedAtOnce) {
  Program& demo = done({tranche(), "demo", "--profile", "H100"});
  EXPECT_EQ(demo.code(), 1);
  EXPECT_THAT(demo.err(), HasSubstr("\"H100\" is not a known GPU model; did you mean H100-SXM5-80GB?"));
}

TEST_F(CommandLine, OurOwnFlagsHaveVariablesOfTheirOwn) {
  for (const char* command : {"node", "device-plugin"}) {
    Program& help = done({tranche(), command, "--help"});
    for (const char* variable : {"TRANCHE_PLUGIN_DIR", "TRANCHE_POD_RESOURCES_SOCKET", "TRANCHE_RUN_DIR",
                                 "TRANCHE_MPS_ROOT_CTR_PATH", "TRANCHE_CDI_ROOT", "TRANCHE_HEALTH_QUIET_PERIOD",
                                 "TRANCHE_LISTEN", "TRANCHE_STRICT", "TRANCHE_LOG_FORMAT", "TRANCHE_LOG_LEVEL"})
      EXPECT_THAT(help.out(), HasSubstr(variable)) << command;
  }
}

TEST_F(MpsControlDaemon, CalledByItsNameOwnsTheDaemonsAndEndsWellOnSigquit) {
  make_node(1);
  write("config.yaml", sharing("mps", 4));
  Program& mps = start({called("mps-control-daemon"), "-config-file=" + config_path_}, own_places());
  until_serving(1);
  stop(mps, SIGQUIT, 0);
  EXPECT_TRUE(until_says(mps, "config.effective"));
}

// Promise: command-line: `mps-control-daemon` has NVIDIA's flags and status.
TEST_F(MpsControlDaemon, HasNvidiasTwoFlagsAndStatusOneForWhatCannotBeUsed) {
  const std::string daemon = called("mps-control-daemon");
  Program& help = done({daemon, "--help"});
  EXPECT_EQ(help.code(), 0);
  EXPECT_THAT(help.out(),
              AllOf(HasSubstr("--config-file"), HasSubstr("--mig-strategy"), Not(HasSubstr("--gds-enabled"))));
  EXPECT_EQ(run({daemon, "--version"}), 0);
  EXPECT_EQ(run({daemon, "--config-file", in("absent.yaml")}), 1);
  EXPECT_EQ(run({daemon, "--gds-enabled"}), 1);
}

// Promise: command-line: `mount-shm` has nothing to do and states why.
TEST_F(MpsControlDaemon, MountShmHasNothingToDoAndSaysWhy) {
  Program& mount = done({called("mps-control-daemon"), "mount-shm"});
  EXPECT_EQ(mount.code(), 0);
  EXPECT_THAT(mount.err(), HasSubstr("mount-shm has nothing to do"));
}

TEST_F(CheckConfig, ReportsEveryProblemWithoutANodeAndEndsWithStatusTwo) {
  write("config.yaml", "version: v2\nflags:\n  migStrategy: wrong\n  mpsRot: /x\n");
  Program& check = done({tranche(), "check", "--config", config_path_});
  EXPECT_EQ(check.code(), 2);
  EXPECT_THAT(check.out(),
              AllOf(HasSubstr(config_path_ + ":1:10: error: version: "), HasSubstr(":3:16: error: flags.migStrategy: "),
                    HasSubstr(":4:3: warning: flags.mpsRot: is not a known key and is ignored; did you mean mpsRoot?"),
                    HasSubstr("2 errors, 1 warning"), Not(HasSubstr("driver"))));
  Program& json = done({tranche(), "check", "--config-file", config_path_, "--json", "--explain"});
  EXPECT_EQ(json.code(), 2);
  const auto report = Json::parse(json.out(), nullptr, false);
  ASSERT_TRUE(report.is_object()) << json.out();
  EXPECT_EQ(report["problems"].size(), 3u);
  EXPECT_EQ(report["problems"][1]["line"], 3);
  EXPECT_EQ(report["usable"], false);
  EXPECT_FALSE(report.contains("settings")) << "what cannot be used has no values in force";
  EXPECT_EQ(run({tranche(), "check", "--config", in("absent.yaml")}), 2);
  EXPECT_EQ(run({tranche(), "check", "--config", "/dev/null"}), 0) << "an empty file is the default configuration";
}

TEST_F(CheckConfig, ExplainsWhereEveryValueComesFrom) {
  write("config.yaml", "flags:\n  migStrategy: single\n  mpsRoot: /m\n");
  Program& check = done({tranche(), "check", "--explain", "--device-id-strategy", "index"},
                        {{"CONFIG_FILE", config_path_}, {"GDS_ENABLED", "1"}, {"MIG_STRATEGY", "mixed"}});
  EXPECT_EQ(check.code(), 0) << check.out();
  for (const std::string& end :
       {std::string(" $MIG_STRATEGY\n"), std::string(" --device-id-strategy\n"), std::string(" $GDS_ENABLED\n"),
        " " + config_path_ + ":3:12\n", std::string(" default\n")})
    EXPECT_THAT(check.out(), HasSubstr(end));
}

TEST_F(CheckConfig, NamesWordsOfCdiThatNobodyKnows) {
  Program& check = done({tranche(), "check", "--config", "/dev/null", "--cdi-disable-hooks", "update-ldcach,chmod"});
  EXPECT_EQ(check.code(), 0) << check.out();
  EXPECT_THAT(check.out(), AllOf(HasSubstr("\"update-ldcach\""), HasSubstr("update-ldcache?"), HasSubstr("1 warning")));
}

TEST_F(CheckConfig, StrictMakesErrorsOfKeysWithoutEffectHereAndInTheAgents) {
  make_node(1);
  write("config.yaml", "flags:\n  migstrategi: none\n");
  EXPECT_EQ(run({tranche(), "check", "--config", config_path_}), 0);
  EXPECT_EQ(run({tranche(), "check", "--config", config_path_, "--strict"}), 2);
  Program& by_variable = done({tranche(), "check", "--config", config_path_}, {{"TRANCHE_STRICT", "true"}});
  EXPECT_EQ(by_variable.code(), 2);
  for (const char* command : {"node", "mps", "plan"}) {
    Program& agent = start_tranche(command, {"--strict"});
    EXPECT_EQ(finish(agent), 2) << command;
    EXPECT_THAT(agent.err(), HasSubstr("error: flags.migstrategi: is not a known key; did you mean migStrategy?"));
  }
}

TEST_F(CheckConfig, WithNodeLooksAtBoth) {
  write("config.yaml", "flags: {migStrategy: wrong}\n");
  Program& both = done({tranche(), "check", "--config", config_path_, "--node", "--root", scratch_.path(), "--json"});
  EXPECT_EQ(both.code(), 2);
  const auto report = Json::parse(both.out(), nullptr, false);
  ASSERT_TRUE(report.is_object()) << both.out();
  const Json& findings = report["checks"];
  EXPECT_GT(findings.size(), 5u);
  EXPECT_EQ(findings.back()["id"], "config.file");
  EXPECT_THAT(findings.back()["about"].get<std::string>(), HasSubstr(config_path_ + ":1:22"));
}

TEST_F(CheckConfig, APlanExplainsTooAndKeepsItsDocument) {
  make_node(1);
  write("config.yaml", sharing("mps", 4));
  Program& text = start_tranche("plan", {"--explain"});
  EXPECT_EQ(finish(text), 0) << text.err();
  EXPECT_THAT(text.out(), AllOf(HasSubstr("SETTING "), HasSubstr("nvidia.com/gpu in 4 ")));
  Program& json = start_tranche("plan", {"--explain", "--json"});
  EXPECT_EQ(finish(json), 0) << json.err();
  const auto document = Json::parse(json.out(), nullptr, false);
  ASSERT_TRUE(document.is_object()) << json.out();
  EXPECT_FALSE(document["configuration"]["settings"].empty());
  EXPECT_TRUE(document.contains("labels"));
}

}  // namespace
}  // namespace tranche::e2e
