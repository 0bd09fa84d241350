// This program as NVIDIA's config manager: an init container that chooses once, and a sidecar that follows the node's
// label and signals who reads the configuration (docs/compatibility/config-manager.md).
#include <csignal>
#include <filesystem>

#include "node/bed.h"
#include "standins/kube/api_server.h"

namespace tranche::e2e {
namespace config_manager_test {

using ::testing::HasSubstr;
namespace fs = std::filesystem;

constexpr const char* kNodes = "/api/v1/nodes";

class ConfigManager : public NodeBed {
 protected:
  ConfigManager() : api_(sim::ApiServer::start()) {
    for (const char* name : {"available", "config", "called"}) fs::create_directory(in(name));
    api_->put(kNodes, "n1", "{}");
    write("kubeconfig", api_->kubeconfig(""));
    write("available/a", sharing("mps", 2));
    write("available/b", sharing("mps", 4));
  }
  void label(const Json& value) {
    Json object;
    object["metadata"]["labels"]["nvidia.com/device-plugin.config"] = value;
    api_->put(kNodes, "n1", object.dump());
  }
  // A program by a name of its own.
  std::string called(const std::string& name, const std::string& program) {
    if (!fs::exists(in("called/" + name))) fs::create_symlink(program, in("called/" + name));
    return in("called/" + name);
  }
  // With the variables that NVIDIA's operator sets.
  Program& start_manager(Environment more) {
    Environment environment{{"ONESHOT", "false"},
                            {"KUBECONFIG", in("kubeconfig")},
                            {"NODE_NAME", "n1"},
                            {"NODE_LABEL", "nvidia.com/device-plugin.config"},
                            {"CONFIG_FILE_SRCDIR", in("available")},
                            {"CONFIG_FILE_DST", link()},
                            {"DEFAULT_CONFIG", ""},
                            {"FALLBACK_STRATEGIES", "empty"},
                            {"SEND_SIGNAL", "true"},
                            {"SIGNAL", "1"},
                            {"PROCESS_TO_SIGNAL", reader_name()}};
    for (auto& [name, value] : more) environment[name] = value;
    return start({called("config-manager", tranche())}, environment);
  }
  int choose_once(Environment more) {
    more.insert({{"ONESHOT", "true"}, {"SEND_SIGNAL", "false"}, {"SIGNAL", ""}, {"PROCESS_TO_SIGNAL", ""}});
    return finish(start_manager(std::move(more)));
  }
  Program& start_reader() {
    return start({called(reader_name(), "/usr/bin/sleep"), "1000"});  // SIGHUP ends it: status 129
  }
  // Of this test alone: outside of containers every process sees the same folders.
  std::string reader_name() const { return "reader-" + scratch_.path().substr(scratch_.path().rfind('/') + 1); }
  std::string link() const { return in("config/config.yaml"); }
  std::string leads_to() const { return fs::is_symlink(link()) ? fs::read_symlink(link()).string() : ""; }

  std::unique_ptr<sim::ApiServer> api_;
};

// Promise: config-manager: With `--oneshot` the label that the node has from the beginning is chosen.
TEST_F(ConfigManager, OnceTakesTheLabelThatTheNodeHasFromTheBeginning) {
  label("b");
  api_->slow(std::chrono::milliseconds(100));
  EXPECT_EQ(choose_once({{"DEFAULT_CONFIG", "a"}}), 0);
  EXPECT_EQ(leads_to(), in("available/b"));
  EXPECT_EQ(std::distance(fs::directory_iterator(in("config")), {}), 1) << "nothing beside the link";
}

// Promise: config-manager: With `--oneshot` the default comes first, then the fallbacks in their order.
TEST_F(ConfigManager, OnceChoosesTheDefaultThenTheFallbacksInTheirOrder) {
  EXPECT_EQ(choose_once({{"DEFAULT_CONFIG", "a"}}), 0);
  EXPECT_EQ(leads_to(), in("available/a"));
  EXPECT_EQ(choose_once({{"FALLBACK_STRATEGIES", "named,single,empty"}}), 0);
  EXPECT_EQ(leads_to(), "/dev/null");
  write("available/default", "version: v1\n");
  EXPECT_EQ(choose_once({{"FALLBACK_STRATEGIES", "named,single"}}), 0);
  EXPECT_EQ(leads_to(), in("available/default"));
  fs::remove(in("available/default"));
  fs::remove(in("available/a"));
  EXPECT_EQ(choose_once({{"FALLBACK_STRATEGIES", "named, single"}}), 0);
  EXPECT_EQ(leads_to(), in("available/b"));
}

TEST_F(ConfigManager, OnceFailsWithTheReasonWhenNothingCanBeChosen) {
  Program& none = start_manager({{"ONESHOT", "true"}, {"FALLBACK_STRATEGIES", "single"}});
  EXPECT_EQ(finish(none), 1);
  EXPECT_THAT(none.err(), HasSubstr("it has a, b"));
  EXPECT_EQ(choose_once({{"DEFAULT_CONFIG", "c"}}), 1);
  EXPECT_EQ(choose_once({{"FALLBACK_STRATEGIES", "first"}}), 1);
  EXPECT_EQ(leads_to(), "");
}

// Promise: config-manager: An unknown label is skipped and reported.
TEST_F(ConfigManager, ALabelThatNamesNoneIsSkippedAndSaid) {
  label("c");
  Program& once = start_manager({{"ONESHOT", "true"}, {"DEFAULT_CONFIG", "a"}});
  EXPECT_EQ(finish(once), 0);
  EXPECT_THAT(once.err(), HasSubstr("does not have: it has a, b"));
  EXPECT_EQ(leads_to(), in("available/a"));
}

TEST_F(ConfigManager, WithoutAnApiServerTheDefaultCountsAndThenWhatWasChosenLast) {
  label("b");
  EXPECT_EQ(choose_once({{"DEFAULT_CONFIG", "a"}}), 0);
  EXPECT_EQ(leads_to(), in("available/b"));
  api_.reset();
  EXPECT_EQ(choose_once({{"DEFAULT_CONFIG", "a"}}), 0);
  EXPECT_EQ(leads_to(), in("available/b"));
  fs::remove(link());
  EXPECT_EQ(choose_once({{"DEFAULT_CONFIG", "a"}}), 0);
  EXPECT_EQ(leads_to(), in("available/a"));
}

// Promise: config-manager: A changed label moves the link and signals the reader.
TEST_F(ConfigManager, AChangedLabelMovesTheLinkAndSignalsTheReader) {
  ASSERT_EQ(choose_once({{"DEFAULT_CONFIG", "a"}}), 0);
  Program& reader = start_reader();
  Program& other = start({called(reader_name() + "-helper", "/usr/bin/sleep"), "1000"});
  Program& manager = start_manager({{"DEFAULT_CONFIG", "a"}});
  ASSERT_TRUE(until_says(manager, "config.kept"));
  EXPECT_TRUE(reader.running()) << "nothing has changed";
  label("b");
  EXPECT_EQ(finish(reader), 128 + SIGHUP);
  EXPECT_EQ(leads_to(), in("available/b"));
  EXPECT_TRUE(other.running());
  label("c");
  ASSERT_TRUE(until_says(manager, "does not have: it has a, b"));
  EXPECT_TRUE(manager.running()) << "an unknown label is skipped";
  EXPECT_EQ(leads_to(), in("available/b"));
  stop(manager, SIGTERM, 0);
}

TEST_F(ConfigManager, AReaderThatIsNamedByItsPathIsFoundByItsName) {
  ASSERT_EQ(choose_once({{"DEFAULT_CONFIG", "a"}}), 0);
  Program& reader = start_reader();
  start_manager({{"DEFAULT_CONFIG", "a"}, {"PROCESS_TO_SIGNAL", "/opt/somewhere/" + reader_name()}});
  label("b");
  EXPECT_EQ(finish(reader), 128 + SIGHUP);
}

// Promise: config-manager: Edited contents are signalled.
TEST_F(ConfigManager, EditedContentsAreSignalledToo) {
  ASSERT_EQ(choose_once({{"DEFAULT_CONFIG", "a"}}), 0);
  Program& reader = start_reader();
  Program& manager = start_manager({{"DEFAULT_CONFIG", "a"}});
  ASSERT_TRUE(until_says(manager, "config.kept"));
  write("available/b", sharing("mps", 5));
  write("available/a", sharing("mps", 3));
  EXPECT_EQ(finish(reader), 128 + SIGHUP);
  EXPECT_EQ(leads_to(), in("available/a"));
  EXPECT_TRUE(manager.running());
}

TEST_F(ConfigManager, AReaderThatIsNotThereIsNoFault) {
  Program& manager = start_manager({{"PROCESS_TO_SIGNAL", "a-reader-that-starts-later"}});
  ASSERT_TRUE(until_says(manager, "reader.not_signalled"));
  EXPECT_TRUE(manager.running());
}

TEST_F(ConfigManager, WhatIsMissingOrWrongOnItsCommandLineIsSaidWithStatusOne) {
  const std::vector<std::pair<Environment, const char*>> wrong{
      {{{"NODE_NAME", ""}}, "--node-name"},
      {{{"CONFIG_FILE_SRCDIR", ""}}, "--config-file-srcdir"},
      {{{"CONFIG_FILE_DST", ""}}, "--config-file-dst"},
      {{{"ONESHOT", "perhaps"}}, "--oneshot"},
      {{{"SIGNAL", "HUP"}}, "from 1 to 64"},
  };
  for (const auto& [environment, words] : wrong) {
    Program& program = start_manager(environment);
    EXPECT_EQ(finish(program), 1) << words;
    EXPECT_THAT(program.err(), HasSubstr(words));
  }
  Program& flags = start({tranche(), "config-manager", "-oneshot", "-kubeconfig", in("kubeconfig"), "-node-name=n1",
                          "-config-file-srcdir", in("available"), "-config-file-dst", link(), "-default-config", "b",
                          "-send-signal=false"});
  EXPECT_EQ(finish(flags), 0) << flags.err();
  EXPECT_EQ(leads_to(), in("available/b"));
}

}  // namespace config_manager_test
}  // namespace tranche::e2e
