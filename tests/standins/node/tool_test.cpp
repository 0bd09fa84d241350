#include "tool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "base/text.h"
#include "mig.h"
#include "test_node.h"

namespace tranche::sim {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

class Tool : public testing::Test {
 protected:
  int run(const std::string& line) {
    std::vector<std::string> words{"--node", place_.dir()};
    for (const auto word : words_of(line)) words.emplace_back(word);
    return run_bare(words);
  }
  int run_bare(const std::vector<std::string>& words) {
    std::ostringstream out, err;
    const int status = run_tool(words, out, err);
    out_ = out.str();
    err_ = err.str();
    return status;
  }
  TestNode place_{"gpus: {profile: H200, count: 2}\ntopology: vm\n"};
  std::unique_ptr<Node> node_ = place_.open();
  std::string out_, err_;
};

TEST_F(Tool, MakesANodeAndRefusesToMakeItTwice) {
  const std::string dir = place_.dir() + "/new";
  EXPECT_EQ(run_bare({"init", dir, "--profile", "B200", "--gpus", "8"}), 0) << err_;
  EXPECT_THAT(out_, StartsWith("export TRANCHE_SIM_NODE=/"));
  EXPECT_EQ((*Node::open(dir))->gpus().size(), 8u);
  EXPECT_EQ(run_bare({"init", dir}), 1);
  EXPECT_THAT(err_, HasSubstr("already"));
  EXPECT_EQ(run_bare({"init", place_.dir() + "/bad", "--profile", "H20O"}), 1);
  EXPECT_THAT(err_, HasSubstr("did you mean H200?"));
  EXPECT_FALSE(std::filesystem::exists(place_.dir() + "/bad/node.yaml")) << "a second try must be possible";
}

TEST_F(Tool, ShowsWhatIsThere) {
  ASSERT_EQ(run("process add 1 4711 2GiB --kind mps-client --sms 24"), 0) << err_;
  ASSERT_EQ(run("fail nvmlDeviceGetUUID 999 --gpu 0"), 0) << err_;
  ASSERT_EQ(run("show"), 0);
  EXPECT_THAT(out_, HasSubstr("driver 580.159.04  CUDA 13.0  topology vm"));
  EXPECT_THAT(out_, HasSubstr("process 4711  mps-client  2.00 GiB  24 SMs"));
  EXPECT_THAT(out_, HasSubstr("fail nvmlDeviceGetUUID 999 on GPU 0"));
}

TEST_F(Tool, ChangesAGpu) {
  EXPECT_EQ(run("gpu 1 xid 79"), 0);
  EventRow event;
  ASSERT_TRUE(node_->wait_event(0, 0, &event));
  EXPECT_EQ(event.data, 79u);
  EXPECT_EQ(event.gpu, 1);
  EXPECT_EQ(run("gpu 1 lost"), 0);
  EXPECT_EQ(node_->gpu_state(1).lost, 1u);
  EXPECT_EQ(run("gpu 1 back"), 0);
  EXPECT_EQ(node_->gpu_state(1).lost, 0u);
  EXPECT_EQ(run("gpu 0 memory 10GiB"), 0);
  EXPECT_EQ(node_->memory_used(0), 644939776u + (10ull << 30));
  EXPECT_EQ(run("gpu 0 mode exclusive-process"), 0);
  EXPECT_EQ(node_->compute_mode(0), 3);
  EXPECT_EQ(run("gpu 0 ecc double"), 0);
  EXPECT_EQ(node_->gpu_state(0).ecc.uncorrected_volatile, 1u);
  EXPECT_EQ(run("gpu 0 utilization 80 30"), 0);
  EXPECT_EQ(node_->gpu_state(0).memory_utilization, 30u);
  EXPECT_EQ(run("gpu 0 link 3 down"), 0);
  EXPECT_EQ(node_->gpu_state(0).dead_links, 8u);
  EXPECT_EQ(run("gpu " + node_->gpus()[1].uuid + " temperature 91"), 0);
  EXPECT_EQ(node_->gpu_state(1).temperature_c, 91u);
  EXPECT_EQ(run("driver absent"), 0);
  EXPECT_FALSE(node_->driver_present());
}

TEST_F(Tool, CutsAGpuIntoMigInstances) {
  ASSERT_EQ(run("gpu 0 mig 1g.18gb 3g.71gb"), 0) << err_;
  EXPECT_EQ(mig_devices(node_->gpu_state(0)).size(), 2u);
  EXPECT_EQ(run("gpu 0 mig 7g.141gb 1g.18gb"), 2);
  EXPECT_THAT(err_, HasSubstr("no room for 1g.18gb"));
  EXPECT_EQ(mig_devices(node_->gpu_state(0)).size(), 2u) << "a refused layout changes nothing";
  EXPECT_EQ(run("gpu 0 mig off"), 0);
  EXPECT_EQ(node_->gpu_state(0).mig_mode, 0u);
}

TEST_F(Tool, SaysWhatIsWrongWithTheWords) {
  EXPECT_EQ(run("gpu 7 lost"), 2);
  EXPECT_THAT(err_, HasSubstr("there is no GPU \"7\""));
  EXPECT_EQ(run("gpu 0 explode"), 2);
  EXPECT_EQ(run("gpu 0 xid many"), 2);
  EXPECT_EQ(run("gpu 0 lost at once"), 2);
  EXPECT_THAT(err_, HasSubstr("\"at\" is too much"));
  EXPECT_EQ(node_->gpu_state(0).lost, 0u);
  EXPECT_EQ(run("process add 0 1 2GiB --sm 3"), 2);
  EXPECT_THAT(err_, HasSubstr("did you mean --sms?"));
  EXPECT_EQ(run("fail cuInit 3"), 2);
  EXPECT_EQ(run("frobnicate"), 2);
  EXPECT_EQ(run_bare({}), 2);
  EXPECT_EQ(run_bare({"help"}), 0);
  EXPECT_EQ(node_->newest_event(), 0u) << "nothing happened";
}

}  // namespace
}  // namespace tranche::sim
