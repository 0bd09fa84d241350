#include "labels/live/label_controller.h"

#include <gmock/gmock.h>

#include <filesystem>

#include "os/files/scratch_fixture.h"
#include "plan/plan.h"

namespace tranche::labels {
namespace label_controller_test {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

constexpr Duration kSoon = 60s;  // a deadline, not an expectation

class LabelControllerTest : public ::testing::Test {
 protected:
  LabelControllerTest() : loop_(*os::Loop::open()), worker_(os::Worker::start()) {
    config_.flags.gfd.output_file = file();
    config_.flags.gfd.machine_type_file = "";
    config_.sharing.strategy = config::SharingStrategy::kMps;
    config::SharedResource entry;
    entry.name = "nvidia.com/gpu";
    entry.replicas = 4;
    config_.sharing.resources = {entry};
    gpu::Gpu gpu;
    gpu.uuid = "GPU-1";
    gpu.name = "NVIDIA H200";
    gpu.memory = gib(141);
    gpu.compute_capability = {9, 0};
    gpu.sm_count = 132;
    inventory_.gpus = {gpu};
  }
  void open(LabelOutput output, Duration settle = 1ms) {
    LabelSettings settings;
    settings.output = output;
    settings.settle = settle;
    settings.system_root = scratch_.path();
    controller_ = std::make_unique<LabelController>(*loop_, *worker_, settings, [this] {
      if (check_ && check_()) loop_->stop();
    });
  }
  void follow() {
    auto plan = plan::make_plan(config_, inventory_);
    ASSERT_TRUE(plan);
    plan_ = *std::move(plan);
    controller_->follow(config_, inventory_, plan_);
  }
  bool until(const std::function<bool(const LabelReport&)>& holds) {
    bool held = holds(controller_->report());
    if (held) return true;
    check_ = [&] { return held = holds(controller_->report()); };
    const auto limit = loop_->after(kSoon, [this] { loop_->stop(); });
    loop_->run();
    loop_->cancel(limit);
    check_ = nullptr;
    return held;
  }
  bool until_written() {
    return until([](const LabelReport& report) { return report.state == "written"; });
  }
  // Runs everything that is posted and due.
  void settle() {
    loop_->after(20ms, [this] { loop_->stop(); });
    loop_->run();
  }
  std::string file() const { return scratch_ / "gfd"; }
  std::string content() const { return os::read_file(file()).value_or(""); }

  os::Scratch scratch_;
  std::unique_ptr<os::Loop> loop_;
  std::unique_ptr<os::Worker> worker_;
  config::Config config_;
  gpu::Inventory inventory_;
  plan::Plan plan_;
  std::unique_ptr<LabelController> controller_;
  std::function<bool()> check_;
};

TEST_F(LabelControllerTest, NothingIsWrittenWhereNoOutputIsAskedFor) {
  open(LabelOutput::kNone);
  follow();
  settle();
  EXPECT_EQ(controller_->report(), LabelReport{});
  EXPECT_FALSE(std::filesystem::exists(file()));
  EXPECT_EQ(controller_->labels().at("nvidia.com/gpu.count"), "1") << "shown all the same";
}

TEST_F(LabelControllerTest, WhatIsThereStaysUntilADriverHasReported) {
  ASSERT_TRUE(os::Dir::open(scratch_.path())->write_atomically("gfd", "nvidia.com/gpu.count=8\n"));
  open(LabelOutput::kFile);
  settle();
  EXPECT_EQ(controller_->report().state, "waiting");
  EXPECT_EQ(content(), "nvidia.com/gpu.count=8\n");
  follow();
  ASSERT_TRUE(until_written());
  EXPECT_THAT(content(), HasSubstr("nvidia.com/gpu.count=1\n"));
  controller_.reset();
  EXPECT_THAT(content(), HasSubstr("nvidia.com/gpu.count=1\n")) << "and after the end";
}

TEST_F(LabelControllerTest, ManyChangesAreOneWriteAndNoChangeIsNone) {
  open(LabelOutput::kFile, 100ms);
  for (std::uint32_t replicas = 2; replicas < 12; ++replicas) {
    config_.sharing.resources[0].replicas = replicas;
    follow();
  }
  ASSERT_TRUE(until_written());
  EXPECT_EQ(controller_->report().writes, 1u);
  EXPECT_THAT(content(), HasSubstr("nvidia.com/gpu.replicas=11\n"));
  for (int i = 0; i < 5; ++i) follow();
  EXPECT_EQ(controller_->report().state, "written");
  settle();
  EXPECT_EQ(controller_->report().writes, 1u);
}

TEST_F(LabelControllerTest, AnotherConfigurationOrAnotherGpuIsWritten) {
  open(LabelOutput::kFile);
  follow();
  ASSERT_TRUE(until_written());
  config_.sharing.resources[0].replicas = 7;
  follow();
  ASSERT_TRUE(until([](const LabelReport& report) { return report.writes == 2; }));
  EXPECT_THAT(content(), HasSubstr("nvidia.com/gpu.replicas=7\n"));
  inventory_.gpus.push_back(inventory_.gpus[0]);
  inventory_.gpus[1].uuid = "GPU-2";
  inventory_.gpus[1].index = 1;
  follow();
  ASSERT_TRUE(until([](const LabelReport& report) { return report.writes == 3; }));
  EXPECT_THAT(content(), HasSubstr("nvidia.com/gpu.count=2\n"));
}

TEST_F(LabelControllerTest, AFailureIsReportedAndTriedAgain) {
  config_.flags.gfd.output_file = scratch_ / "features.d/gfd";
  open(LabelOutput::kFile);
  follow();
  ASSERT_TRUE(until([](const LabelReport& report) { return report.state == "failing"; }));
  EXPECT_THAT(controller_->report().reason, HasSubstr("features.d"));
  std::filesystem::create_directory(scratch_ / "features.d");
  EXPECT_TRUE(until_written());
  EXPECT_EQ(controller_->report().reason, "");
}

TEST_F(LabelControllerTest, WithoutAnApiServerItSaysSo) {
  open(LabelOutput::kNode);
  follow();
  EXPECT_TRUE(until([](const LabelReport& report) { return report.reason.contains("no API server"); }));
  EXPECT_EQ(controller_->report().state, "waiting");
}

}  // namespace label_controller_test
}  // namespace tranche::labels
