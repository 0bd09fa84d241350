#include "tool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "base/text.h"
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

TEST_F(Tool, SaysWhatIsWrongWithTheWords) {
  EXPECT_EQ(run("gpu 7 lost"), 2);
  EXPECT_THAT(err_, HasSubstr("there is no GPU \"7\""));
  EXPECT_EQ(run("gpu 0 explode"), 2);
  EXPECT_EQ(run("gpu 0 xid many"), 2);
  EXPECT_EQ(run("gpu 0 lost at once"), 2);
  EXPECT_THAT(err_, HasSubstr("\"at\" is too much"));
  EXPECT_EQ(node_->gpu_state(0).lost, 0u);
  EXPECT_EQ(run("fail nvmlInit 3 --skp 3"), 2);
  EXPECT_THAT(err_, HasSubstr("did you mean --skip?"));
  EXPECT_EQ(run("fail cuInit 3"), 2);
  EXPECT_EQ(run("frobnicate"), 2);
  EXPECT_EQ(run_bare({}), 2);
  EXPECT_EQ(run_bare({"help"}), 0);
  EXPECT_EQ(node_->newest_event(), 0u) << "nothing happened";
}

}  // namespace
}  // namespace tranche::sim
