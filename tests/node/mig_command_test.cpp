// `tranche mig` and `nvidia-mig-parted` as whole programs against the driver's stand-in.
#include <filesystem>
#include <fstream>

#include "node/bed.h"

namespace tranche::e2e {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
namespace fs = std::filesystem;

class MigCommand : public NodeBed {
 protected:
  void make_gpus(const std::string& profile, int count) {
    write("node/node.yaml", "gpus: {profile: " + profile + ", count: " + std::to_string(count) + "}\n");
    ASSERT_EQ(run({build() + "/standins/sim-node", "show"}), 0);
  }
  void add_nvidia_smi() {
    fs::create_directories(in("driver/usr/bin"));
    fs::copy(build() + "/standins/sim-node", in("driver/usr/bin/nvidia-smi"));
  }
  Environment places() const { return {{"DRIVER_ROOT_CTR_PATH", in("driver")}, {"TRANCHE_RUN_DIR", in("run")}}; }
  Program& mig(Strings words) {
    words.insert(words.begin(), {tranche(), "mig"});
    Program& program = start(std::move(words), places());
    finish(program);
    return program;
  }
  Program& piped(Strings words, const std::string& file) {  // parted(), with the file as its standard input
    words.insert(words.begin(), {"/bin/sh", "-c", "exec \"$0\" \"$@\" <'" + file + "'", in("nvidia-mig-parted")});
    Program& program = start(std::move(words), places());
    finish(program);
    return program;
  }
  Program& parted(Strings words, Environment environment = {}) {
    if (!fs::exists(in("nvidia-mig-parted"))) fs::create_symlink(tranche(), in("nvidia-mig-parted"));
    words.insert(words.begin(), in("nvidia-mig-parted"));
    environment.merge(places());
    Program& program = start(std::move(words), environment);
    finish(program);
    return program;
  }
  Json json_of(const Program& program) { return Json::parse(program.out(), nullptr, false); }
  // Instances of a GPU as `tranche mig profiles` lists them: "3g.71gb@4".
  std::vector<std::string> instances(int gpu) {
    std::vector<std::string> all;
    const Json document = json_of(mig({"profiles", "--json"}));
    for (const auto& one : document[static_cast<std::size_t>(gpu)]["instances"])
      all.push_back(one["profile"].get<std::string>() + "@" + std::to_string(one["start"].get<int>()));
    return all;
  }
  std::string uuid_of(int gpu) {
    return json_of(mig({"profiles", "--json"}))[static_cast<std::size_t>(gpu)]["uuid"].get<std::string>();
  }
  std::vector<std::string> devices(int gpu) {
    std::vector<std::string> all;
    const Json document = json_of(mig({"profiles", "--json"}));
    for (const auto& one : document[static_cast<std::size_t>(gpu)]["instances"])
      for (const auto& device : one["devices"]) all.push_back(device.get<std::string>());
    return all;
  }
};

// Promise: mig/command: `tranche mig apply` reaches a configuration and keeps what may stay.
TEST_F(MigCommand, AppliesADefaultConfigurationAndChangesOnlyWhatDiffers) {
  ASSERT_NO_FATAL_FAILURE(make_gpus("H200", 2));
  Program& planned = mig({"plan", "all-balanced"});
  EXPECT_EQ(planned.code(), 0) << planned.err();
  EXPECT_THAT(planned.out(), AllOf(HasSubstr("MIG is switched on"), HasSubstr("create 3g.71gb at slices 4-7")));
  EXPECT_EQ(mig({"assert", "all-balanced"}).code(), 3);
  Program& applied = mig({"apply", "all-balanced"});
  ASSERT_EQ(applied.code(), 0) << applied.out() << applied.err();
  EXPECT_THAT(instances(0), ::testing::ElementsAre("2g.35gb@0", "1g.18gb@2", "1g.18gb@3", "3g.71gb@4"));
  EXPECT_EQ(mig({"assert", "all-balanced"}).code(), 0);
  EXPECT_THAT(mig({"plan", "all-balanced"}).out(), HasSubstr("as configured"));
  EXPECT_THAT(mig({"export"}).out(), HasSubstr("  current:\n  - devices: all\n    mig-enabled: true\n"));

  write("mig.yaml",
        "version: v1\nmig-configs:\n  more:\n  - {devices: all, mig-enabled: true, mig-devices: {1g.18gb: 4, 3g.71gb: "
        "1}}\n");
  const auto before = devices(1);
  ASSERT_EQ(mig({"apply", "-f", in("mig.yaml")}).code(), 0);
  EXPECT_THAT(instances(1), ::testing::ElementsAre("1g.18gb@0", "1g.18gb@1", "1g.18gb@2", "1g.18gb@3", "3g.71gb@4"));
  const auto after = devices(1);
  for (const std::size_t kept : {1u, 2u, 3u})
    EXPECT_THAT(after, ::testing::Contains(before[kept])) << "its UUID is the same: it was not made anew";

  ASSERT_EQ(mig({"apply", "all-disabled"}).code(), 0);
  EXPECT_THAT(mig({"export", "-o", "json"}).out(), HasSubstr("\"mig-enabled\": false"));
}

// Promise: mig/command: On Ampere, apply reports that a GPU reset is missing, and goes on after it.
TEST_F(MigCommand, OnAmpereAResetIsMissing) {
  ASSERT_NO_FATAL_FAILURE(make_gpus("A100-SXM4-80GB", 1));
  EXPECT_EQ(mig({"plan", "all-3g.40gb"}).code(), 5);
  Program& applied = mig({"apply", "all-3g.40gb"});
  EXPECT_EQ(applied.code(), 5) << applied.err();
  EXPECT_THAT(applied.err(), HasSubstr("nvidia-smi --gpu-reset -i 0"));
  ASSERT_NO_FATAL_FAILURE(sim_node({"gpu", "0", "reset"}));
  Program& again = mig({"apply", "all-3g.40gb"});
  EXPECT_EQ(again.code(), 0) << again.err();
  EXPECT_THAT(instances(0), ::testing::ElementsAre("3g.40gb@0", "3g.40gb@4"));
}

// Promise: mig/command: `nvidia-mig-parted apply` resets the GPUs whose mode changes, and no others.
TEST_F(MigCommand, OnAmpereMigPartedResets) {
  ASSERT_NO_FATAL_FAILURE(make_gpus("A100-PCIE-40GB", 2));
  write("mig.yaml",
        "version: v1\nmig-configs:\n  one:\n  - {devices: [0], mig-enabled: false}\n"
        "  - {devices: [1], mig-enabled: true, mig-devices: {3g.20gb: 2}}\n");
  Program& without = parted({"apply", "-f", in("mig.yaml")});
  EXPECT_EQ(without.code(), 1);
  EXPECT_THAT(without.err(), HasSubstr("GPU 1 (NVIDIA A100-PCIE-40GB) could not be reset: there is no nvidia-smi"));
  add_nvidia_smi();
  Program& skipped = parted({"apply", "--skip-reset", "-f", in("mig.yaml")});
  EXPECT_EQ(skipped.code(), 1);
  EXPECT_THAT(skipped.err(), HasSubstr("nvidia-smi --gpu-reset -i 1"));
  Program& applied = parted({"apply", "-f", in("mig.yaml")});
  EXPECT_EQ(applied.code(), 0) << applied.err();
  EXPECT_THAT(applied.err(), Not(HasSubstr("reset")));
  EXPECT_THAT(instances(1), ::testing::ElementsAre("3g.20gb@0", "3g.20gb@4"));
}

// Promise: mig/command: A configuration that the GPUs cannot have is refused before anything changes.
TEST_F(MigCommand, RefusesWhatCannotBeHad) {
  ASSERT_NO_FATAL_FAILURE(make_gpus("H200", 1));
  write("mig.yaml",
        "version: v1\nmig-configs:\n  wrong:\n  - devices: all\n    mig-enabled: true\n    mig-devices:\n      1g.5gb: "
        "7\n");
  Program& unknown = mig({"apply", "--config-file", in("mig.yaml"), "wrong"});
  EXPECT_EQ(unknown.code(), 2);
  EXPECT_THAT(unknown.err(),
              HasSubstr(in("mig.yaml") + ":7:7: error: 1g.5gb: GPU 0 (NVIDIA H200) has no MIG profile 1g.5gb"));
  EXPECT_THAT(mig({"plan", "all-1g.5gb"}).err(), HasSubstr("has no configuration \"all-1g.5gb\""));
  EXPECT_EQ(mig({"plan", "all-1g.5gb"}).code(), 2);
  EXPECT_THAT(mig({"export"}).out(), HasSubstr("mig-enabled: false"));
}

// Promise: mig/command: Plans and profiles work without a GPU, for every model with known profiles.
TEST_F(MigCommand, PlansForGpusThatAreNotHere) {
  Program& planned = mig({"plan", "all-1g.5gb", "--inventory", "8xA100-SXM4-40GB", "--json"});
  EXPECT_EQ(planned.code(), 5) << planned.err();
  const Json plan = json_of(planned);
  ASSERT_EQ(plan["gpus"].size(), 8u);
  EXPECT_EQ(plan["gpus"][1]["made"].size(), 7u);
  EXPECT_THAT(mig({"profiles", "--inventory", "A30"}).out(),
              AllOf(HasSubstr("GPU 0  NVIDIA A30  MIG off"), HasSubstr("1g.6gb+me"), HasSubstr("{0,2}:2")));
  EXPECT_THAT(mig({"generate-config", "--inventory", "GB200"}).out(), HasSubstr("all-7g.186gb:"));
}

// Promise: driver/mig: The stand-in lists the MIG profiles that an H200's driver lists.
TEST_F(MigCommand, ProfilesAreThoseThatTheDriverLists) {
  ASSERT_NO_FATAL_FAILURE(make_gpus("H200", 1));
  EXPECT_THAT(mig({"profiles"}).out(), HasSubstr("nvidia.com/mig-1g.18gb.me"));
  const Json document = json_of(mig({"profiles", "--json"}));
  std::vector<std::string> all;
  for (const auto& one : document[0]["profiles"])
    all.push_back(one["profile"].get<std::string>() + " " +
                  std::to_string(one["memoryBytes"].get<std::uint64_t>() >> 20) + " MiB " +
                  std::to_string(one["smCount"].get<int>()) + " SMs " + std::to_string(one["atMost"].get<int>()));
  EXPECT_THAT(all, ::testing::ElementsAre("1g.18gb 16384 MiB 16 SMs 7", "1g.18gb+me 16384 MiB 16 SMs 1",
                                          "1g.35gb 33280 MiB 26 SMs 4", "2g.35gb 33280 MiB 32 SMs 3",
                                          "3g.71gb 71424 MiB 60 SMs 2", "4g.71gb 71424 MiB 64 SMs 1",
                                          "7g.141gb 143360 MiB 132 SMs 1"));
}

TEST_F(MigCommand, NamesTheProcessThatHoldsAnInstance) {
  ASSERT_NO_FATAL_FAILURE(make_gpus("H200", 1));
  sim_node({"gpu", "0", "mig", "3g.71gb", "3g.71gb"});
  const auto all = devices(0);
  ASSERT_EQ(all.size(), 2u);
  Program& cuda = start({build() + "/standins/sim-cuda", "--hold"}, {{"CUDA_VISIBLE_DEVICES", all[1]}});
  attached(cuda);
  Program& planned = mig({"plan", "all-1g.18gb"});
  EXPECT_EQ(planned.code(), 4) << planned.out() << planned.err();
  EXPECT_THAT(planned.out(), HasSubstr("process " + std::to_string(cuda.pid())));
  Program& applied = mig({"apply", "all-1g.18gb"});
  EXPECT_EQ(applied.code(), 4);
  EXPECT_THAT(applied.err(), AllOf(HasSubstr("is held by process"), HasSubstr("this much of the configuration fits")));
  EXPECT_EQ(devices(0), all) << "nothing was touched";
}

// Promise: mig/command: Called nvidia-mig-parted it takes NVIDIA's flags and variables and exits with 0 or 1.
TEST_F(MigCommand, AnswersToTheNameOfMigParted) {
  ASSERT_NO_FATAL_FAILURE(make_gpus("H200", 2));
  Program& generated = parted({"generate-config", "-f", in("generated.yaml")});
  ASSERT_EQ(generated.code(), 0) << generated.err();
  const Environment chosen{{"MIG_PARTED_CONFIG_FILE", in("generated.yaml")},
                           {"MIG_PARTED_SELECTED_CONFIG", "all-1g.18gb"}};
  Program& valid = parted({"assert", "--valid-config"}, chosen);
  EXPECT_EQ(valid.code(), 0) << valid.err();
  EXPECT_EQ(valid.out(), "Selected MIG configuration is valid\n");
  Program& differs = parted({"-d", "assert"}, chosen);
  EXPECT_EQ(differs.code(), 1);
  EXPECT_THAT(differs.err(), HasSubstr("Assertion failure: selected configuration not currently applied"));
  Program& applied = parted({"apply"}, chosen);
  EXPECT_EQ(applied.code(), 0) << applied.err();
  EXPECT_THAT(applied.out(), HasSubstr("MIG configuration applied successfully"));
  EXPECT_EQ(parted({"assert"}, chosen).out(), "Selected MIG configuration currently applied\n");
  EXPECT_EQ(parted({"assert", "-m", "-f", in("generated.yaml"), "-c", "all-7g.141gb"}).code(), 0) << "the mode is on";
  EXPECT_EQ(parted({"export"}).out(),
            "version: v1\nmig-configs:\n  current:\n  - devices: all\n    mig-enabled: true\n    mig-devices:\n"
            "      1g.18gb: 7\n");
  EXPECT_THAT(parted({"export", "--output-format=json", "-l", "now"}).out(), HasSubstr("\"now\""));
  EXPECT_EQ(parted({"assert"}).code(), 1) << "no file";
  EXPECT_EQ(parted({"assert", "-f", in("generated.yaml"), "-c", "all-1g.5gb"}).code(), 1);
  EXPECT_EQ(parted({"nothing"}).code(), 1);
  EXPECT_EQ(parted({"checkpoint"}).code(), 1);
  EXPECT_EQ(parted({}).code(), 0);
}

// Promise: mig/command: A checkpoint is restored at the same placements; what is there already is kept.
TEST_F(MigCommand, ACheckpointIsRestoredAtTheSamePlacements) {
  ASSERT_NO_FATAL_FAILURE(make_gpus("H200", 2));
  EXPECT_EQ(mig({"apply", "all-balanced"}).code(), 0);
  const auto before = instances(0);
  EXPECT_EQ(parted({"checkpoint", "-f", in("saved.json")}).code(), 0);
  EXPECT_EQ(parted({"restore", "-f", in("saved.json")}).code(), 0) << "nothing to do";
  EXPECT_EQ(mig({"apply", "all-3g.71gb"}).code(), 0);
  EXPECT_NE(instances(0), before);
  const auto kept = devices(0);
  Program& restored = parted({"restore", "-f", in("saved.json")});
  EXPECT_EQ(restored.code(), 0) << restored.err();
  EXPECT_EQ(instances(0), before);
  EXPECT_EQ(instances(1), before);
  const auto now = devices(0);
  EXPECT_TRUE(std::ranges::any_of(kept, [&](const auto& uuid) { return std::ranges::find(now, uuid) != now.end(); }))
      << "one 3g.71gb stays";
  EXPECT_EQ(mig({"apply", "all-3g.71gb"}).code(), 0);
  EXPECT_EQ(piped({"restore", "-f", "-"}, in("saved.json")).code(), 0);
  EXPECT_EQ(instances(0), before);
  EXPECT_EQ(mig({"apply", "--mode-change-only", "all-disabled"}).code(), 0);
  EXPECT_TRUE(instances(0).empty());
  EXPECT_EQ(parted({"restore", "-f", in("saved.json")}).code(), 0);
  sim_node({"gpu", "1", "mig", "off"});
  EXPECT_EQ(parted({"checkpoint", "-f", in("mixed.json")}).out(), "MIG configuration checkpointed successfully\n");
  EXPECT_EQ(mig({"apply", "all-1g.18gb"}).code(), 0);
  EXPECT_EQ(parted({"restore"}, {{"MIG_PARTED_CHECKPOINT_FILE", in("mixed.json")}}).out(),
            "MIG configuration restored successfully\n");
  EXPECT_EQ(instances(0), before);
  EXPECT_TRUE(instances(1).empty());
  EXPECT_THAT(shown_node(), HasSubstr("MIG"));
  write("other.json", R"({"Version":"v1","MigState":{"Devices":[{"UUID":"GPU-x","MigMode":0,"GpuInstances":null}]}})");
  EXPECT_EQ(parted({"restore", "-f", in("other.json")}).code(), 1);
  write("broken.json", "{}");
  EXPECT_EQ(parted({"restore", "-f", in("broken.json")}).code(), 1);
  sim_node({"process", "add", "0", "4711", "1GiB", "--gi", "1", "--ci", "0"});
  EXPECT_EQ(mig({"apply", "all-balanced"}).code(), 0);
  write("empty.json", "{\"Version\":\"v1\",\"MigState\":{\"Devices\":[{\"UUID\":\"" + uuid_of(0) +
                          "\",\"MigMode\":1,\"GpuInstances\":[]}]}}");
  EXPECT_EQ(parted({"restore", "-f", in("empty.json")}).code(), 1);
  EXPECT_EQ(instances(0), before);
}

// Promise: mig/command: Each default configuration can be generated, applied and asserted.
TEST_F(MigCommand, EveryDefaultConfigurationIsReachedAndExported) {
  add_nvidia_smi();
  for (const auto& [model, configurations] :
       {std::pair{"RTX-PRO-6000", 14u}, std::pair{"B200", 10u}, std::pair{"A100-PCIE-40GB", 10u}}) {
    SCOPED_TRACE(model);
    fs::remove_all(in("node"));
    fs::create_directory(in("node"));
    ASSERT_NO_FATAL_FAILURE(make_gpus(model, 1));
    Program& generated = parted({"generate-config", "-o", "json"});
    write("all.json", generated.out());
    const Json file = json_of(generated);
    ASSERT_EQ(file["mig-configs"].size(), configurations) << generated.err();
    for (const auto& [name, entries] : file["mig-configs"].items()) {
      Program& applied = parted({"apply", "-f", in("all.json"), "-c", name});
      EXPECT_EQ(applied.code(), 0) << name << ": " << applied.err();
      EXPECT_EQ(parted({"assert", "-f", in("all.json"), "-c", name}).code(), 0) << name;
      const Json exported = json_of(parted({"export", "-o", "json", "-l", name}));
      EXPECT_EQ(exported["mig-configs"][name][0]["mig-devices"], entries[0]["mig-devices"]) << name;
    }
  }
}

// Promise: mig/command: Hooks run around the change with NVIDIA's variables, the last one always.
TEST_F(MigCommand, RunsHooksAroundTheChange) {
  ASSERT_NO_FATAL_FAILURE(make_gpus("H200", 1));
  write("mig.yaml",
        "version: v1\nmig-configs:\n  on: [{devices: all, mig-enabled: true, mig-devices: {7g.141gb: 1}}]\n");
  const auto stage = [&](const std::string& name) {
    return "  " + name + ":\n  - {command: sh, workdir: " + scratch_.path() + ", envs: {STAGE: " + name +
           "}, args: [\"-c\", \"echo $STAGE $MIG_PARTED_SELECTED_CONFIG >> hooks.log\"]}\n";
  };
  write("hooks.yaml", "version: v1\nhooks:\n" + stage("apply-start") + stage("pre-apply-mode") +
                          stage("pre-apply-config") + stage("apply-exit"));
  Program& applied = parted({"apply", "-f", in("mig.yaml"), "-k", in("hooks.yaml")});
  ASSERT_EQ(applied.code(), 0) << applied.out() << applied.err();
  const auto log = [&] {
    std::ifstream file(in("hooks.log"));
    return std::string(std::istreambuf_iterator<char>(file), {});
  };
  EXPECT_EQ(log(), "apply-start on\npre-apply-mode on\npre-apply-config on\napply-exit on\n");
  fs::remove(in("hooks.log"));
  ASSERT_EQ(parted({"apply", "-f", in("mig.yaml"), "-k", in("hooks.yaml")}).code(), 0);
  EXPECT_EQ(log(), "apply-start on\napply-exit on\n") << "nothing changed";
  write("failing.yaml", "version: v1\nhooks: {apply-start: [{command: \"false\"}]}\n");
  EXPECT_EQ(parted({"apply", "-f", in("mig.yaml"), "-k", in("failing.yaml")}).code(), 1);
}

TEST_F(MigCommand, WithoutADriverSaysHowToPlanAllTheSame) {
  ASSERT_NO_FATAL_FAILURE(make_gpus("H200", 1));
  ASSERT_NO_FATAL_FAILURE(sim_node({"driver", "absent"}));
  Program& profiles = mig({"profiles"});
  EXPECT_EQ(profiles.code(), 1);
  EXPECT_THAT(profiles.err(), HasSubstr("--inventory 8xA100-SXM4-40GB"));
}

}  // namespace
}  // namespace tranche::e2e
