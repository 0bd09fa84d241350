#include "termination/program_arguments.h"

#include <gmock/gmock.h>

#include <vector>

namespace tranche::stopping {
namespace {

std::string_view killed(std::vector<const char*> argv) {
  argv.insert(argv.begin(), "runc");
  return read_kill_arguments(argv).container;
}

DrainArguments drain_arguments(std::vector<const char*> argv) {
  argv.insert(argv.begin(), "tranche-drain");
  return read_drain_arguments(argv);
}

TEST(KillArgumentsOf, ContainerdAndCrioAreRead) {
  EXPECT_EQ(killed({"--root", "/run/containerd/runc/k8s.io", "--log", "/x/log.json", "--log-format", "json", "kill",
                    "3f2a", "15"}),
            "3f2a");
  EXPECT_EQ(killed({"--systemd-cgroup", "--root=/run/runc", "kill", "--all", "3f2a", "9"}), "3f2a");
  EXPECT_EQ(killed({"kill", "-a", "3f2a", "KILL"}), "3f2a");
  EXPECT_EQ(killed({"--debug", "-root", "/x", "kill", "3f2a"}), "3f2a");
}

TEST(KillArgumentsOf, TheSignalIsReadByNumberAndByName) {
  const auto signal = [](const char* word) {
    const std::vector<const char*> argv{"runc", "kill", "3f2a", word};
    return read_kill_arguments(argv).signal;
  };
  EXPECT_EQ(signal("9"), 9);
  EXPECT_EQ(signal("KILL"), 9);
  EXPECT_EQ(signal("SIGTERM"), 15);
  EXPECT_EQ(signal("37"), 37);
  for (const char* word : {"65", "SIGRTMIN+3", "99999999999", "-1", "TERMINATE"}) EXPECT_EQ(signal(word), 0) << word;
  const std::vector<const char*> argv{"runc", "kill", "3f2a"};
  EXPECT_EQ(read_kill_arguments(argv).signal, 15);
}

TEST(KillArgumentsOf, EveryOtherCallAreNone) {
  EXPECT_EQ(killed({}), "");
  EXPECT_EQ(killed({"kill"}), "");
  EXPECT_EQ(killed({"--root", "kill", "state", "3f2a"}), "") << "kill is a folder here";
  EXPECT_EQ(killed({"exec", "--process", "/x", "3f2a"}), "");
  EXPECT_EQ(killed({"delete", "--force", "3f2a"}), "");
  EXPECT_EQ(killed({"--help"}), "");
}

TEST(KillArgumentsOf, DoubtAreNone) {
  EXPECT_EQ(killed({"--new-flag", "kill", "3f2a", "15"}), "") << "the flag may take the next word";
  EXPECT_EQ(killed({"kill", "--new-flag", "3f2a", "15"}), "");
  EXPECT_EQ(killed({"kill", "../3f2a", "15"}), "");
  EXPECT_EQ(killed({"kill", ".", "15"}), "");
  EXPECT_EQ(killed({"kill", "", "15"}), "");
  EXPECT_EQ(killed({"kill", "3f2a", "15", "more"}), "");
  EXPECT_EQ(killed({"kill", "3f2a", "0"}), "") << "asks only whether it lives";
}

TEST(DrainArgumentsOf, AHookWithoutACommand) {
  const auto arguments = drain_arguments({});
  EXPECT_EQ(arguments.what, DrainArguments::Do::kDrain);
  EXPECT_EQ(arguments.socket, kDrainSocketInContainer);
  EXPECT_EQ(arguments.timeout_ms, 5000);
  EXPECT_EQ(arguments.command_at, 0);
}

TEST(DrainArgumentsOf, AWrappedHookKeepItsWordsWhateverTheyAre) {
  const auto arguments = drain_arguments({"--timeout=300ms", "--socket", "/s", "--strict", "--", "--help", "--", "x"});
  EXPECT_EQ(arguments.what, DrainArguments::Do::kDrain);
  EXPECT_EQ(arguments.timeout_ms, 300);
  EXPECT_EQ(arguments.socket, "/s");
  EXPECT_TRUE(arguments.strict);
  EXPECT_EQ(arguments.command_at, 6);
  EXPECT_EQ(drain_arguments({"--"}).command_at, 0);
}

TEST(DrainArgumentsOf, AMistakeNameTheWord) {
  for (const auto& argv : std::vector<std::vector<const char*>>{{"sh"},
                                                                {"--timeout", "5"},
                                                                {"--timeout"},
                                                                {"--timeout=0s"},
                                                                {"--timeout=11m"},
                                                                {"--socket", "here"},
                                                                {"-x"}}) {
    const auto arguments = drain_arguments(argv);
    EXPECT_EQ(arguments.what, DrainArguments::Do::kRefuse) << argv[0];
    EXPECT_TRUE(arguments.refused.starts_with("-") || arguments.refused == "sh") << arguments.refused;
  }
}

TEST(RuntimeFiles, TheConfigurationNamesRuntimeAndRunDirectory) {
  const auto conf = read_runtime_conf("# ours\n runtime = /usr/bin/crun \r\nnew-key=1\nrun-dir=/run/t\n");
  EXPECT_EQ(conf.runtime, "/usr/bin/crun");
  EXPECT_EQ(conf.run_dir, "/run/t");
}

TEST(RuntimeFiles, WhatIsNoPathIsLeftOut) {
  const auto conf = read_runtime_conf("runtime=runc\nrun-dir=\nruntime\n=\n");
  EXPECT_EQ(conf.runtime, "");
  EXPECT_EQ(conf.run_dir, "/run/tranche");
}

TEST(RuntimeFiles, ARecordNamesTheEndpoint) {
  const auto record =
      read_container_record("pool=gpu-1\ngrant=0011\ndrain=/run/nvidia/mps/pools/gpu-1/endpoints/0011/drain\n");
  EXPECT_EQ(record.pool, "gpu-1");
  EXPECT_EQ(record.grant, "0011");
  EXPECT_EQ(record.drain, "/run/nvidia/mps/pools/gpu-1/endpoints/0011/drain");
  EXPECT_EQ(read_container_record("drain=relative").drain, "");
}

TEST(Answers, OnlyTheObjectsOwnOkCounts) {
  EXPECT_TRUE(says_ok(R"({"ok":true,"clients":[],"tookMs":3})"));
  EXPECT_TRUE(says_ok("{\"clients\":[{\"ok\":false}], \"ok\" : true }\n"));
  for (const char* line :
       {"", "{}", "ok", R"({"ok":false})", R"({"clients":[{"ok":true}]})", R"({"note":"\"ok\":true"})", R"({"ok":true)",
        R"({"ok":"true"})", R"({"ok":truely})", R"("ok":true)", R"({"error":"ok"})"})
    EXPECT_FALSE(says_ok(line)) << line;
}

TEST(Durations, AreWholeNumbersWithAUnit) {
  EXPECT_EQ(milliseconds_of("5s"), 5000);
  EXPECT_EQ(milliseconds_of("10m"), 600'000);
  for (const char* text : {"", "s", "5", "-5s", "5h", "601s", "99999999999999999999s", "1.5s"})
    EXPECT_EQ(milliseconds_of(text), 0) << text;
}

}  // namespace
}  // namespace tranche::stopping
