#include "mps/control/questions.h"

#include <gmock/gmock.h>

#include "base/text.h"

namespace tranche::mps {
namespace questions_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const std::string kA = "GPU-3f2a1b4c-0000-1111-2222-333344445555";
const std::string kB = "GPU-9d8e7f60-aaaa-bbbb-cccc-ddddeeeeffff";
const DaemonLimits kLimits{{{kA, mib(7188)}}, Percent{550}};
const DaemonLimits kTwo{{{kA, mib(7188)}, {kB, mib(1)}}, Percent{550}};

// Plays a list of replies; records the inputs of all runs and the answer.
struct Talk {
  std::vector<std::string> inputs;
  std::optional<Result<Answered>> answer;
  Talk(DaemonQuestion question, const std::vector<std::string>& replies) {
    for (const auto& reply : replies) {
      inputs.push_back(question.input());
      if ((answer = question.heard(reply))) return;
    }
  }
  std::vector<int> servers() const { return answer && *answer ? server_pids((*answer)->servers) : std::vector{-1}; }
};

TEST(Questions, StartTheDaemonAndEndIt) {
  EXPECT_THAT(daemon_options(false), ElementsAre("-f"));
  EXPECT_THAT(daemon_options(true), ElementsAre("-f", "-M"));
  EXPECT_EQ(quit_daemon(std::chrono::seconds(10)), "quit -t 10\n");
}

TEST(Questions, ReadDefaultsAndServers) {
  EXPECT_THAT(lines_of(DaemonQuestion({kLimits}, {12}).input()),
              ElementsAre("get_default_active_thread_percentage", "get_default_device_pinned_mem_limit " + kA,
                          "get_server_list", "get_server_status 12", "get_active_thread_percentage 12",
                          "get_device_pinned_mem_limit 12 " + kA, "get_client_list 12"));
  const Talk asked({{kLimits}, {12}}, {"5.5\n7G\n12\nACTIVE\n5.5\n7G\n101\n"});
  ASSERT_THAT(asked.servers(), ElementsAre(12));
  EXPECT_EQ((*asked.answer)->defaults, (DaemonLimits{{{kA, gib(7)}}, Percent{550}}));
  EXPECT_THAT((*asked.answer)->servers[0].clients, ElementsAre(101));
}

TEST(Questions, SetLimitsOfDaemonAndServersFirst) {
  EXPECT_THAT(DaemonQuestion({kLimits, true}, {12}).input(),
              testing::StartsWith("set_default_device_pinned_mem_limit " + kA +
                                  " 7188M\nset_default_active_thread_percentage 5.5\nset_device_pinned_mem_limit 12 " +
                                  kA + " 7188M\nset_active_thread_percentage 12 5.5\nget_default_active"));
  const Talk set({{kTwo, true}, {12}}, {"5.5\n5.5\n5.5\n7G\n1M\n12\nACTIVE\n5.5\n7G\n1M\n"});
  ASSERT_THAT(set.servers(), ElementsAre(12));
  EXPECT_TRUE(check_held(kTwo, **set.answer));
  const Talk refused({{kLimits, true}, {}}, {"Insufficient privileges for UID 7.\n"});
  EXPECT_EQ(refused.answer->error().kind, Kind::kDenied);
}

TEST(Questions, AreAskedAgainOfTheServersThatRunByNow) {
  const Talk began({{kLimits, true}, {}}, {"5.5\n5.5\n7G\n12\n", "5.5\n5.5\n5.5\n7G\n12\nACTIVE\n5.5\n7G\n"});
  EXPECT_THAT(began.servers(), ElementsAre(12));
  EXPECT_THAT(began.inputs.back(), HasSubstr("set_active_thread_percentage 12 5.5\n"));
  const std::string gone = "Server 13 not found\n";
  const Talk ended({{kLimits}, {12, 13}},
                   {"5.5\n7G\n12\nACTIVE\n5.5\n7G\n101\n" + gone + gone, "5.5\n7G\n12\nACTIVE\n5.5\n7G\n101\n"});
  EXPECT_THAT(ended.servers(), ElementsAre(12));
  const std::string listed = "5.5\n7G\n12\n13\nACTIVE\n5.5\n7G\n101\n" + gone;
  const Talk between({{kLimits}, {12, 13}}, {listed, listed, listed, listed});
  ASSERT_THAT(between.servers(), ElementsAre(12)) << "one that ends all the time is nobody's fault";
  EXPECT_THAT((*between.answer)->servers[0].clients, ElementsAre(101));
  const Talk unread({{kLimits}, {12}}, std::vector<std::string>(4, "5.5\n7G\n12\n14\nACTIVE\n5.5\n7G\n101\n"));
  EXPECT_THAT(unread.servers(), ElementsAre(12, 14));
}

TEST(Questions, WhateverIsNotAsSetIsAnError) {
  const auto why = [](const DaemonLimits& limits, const std::string& text) {
    const Talk talk({{limits, true}, {12}}, {"5.5\n5.5\n" + text});
    return talk.answer && *talk.answer ? to_string(check_held(limits, **talk.answer).error()) : "no answer";
  };
  EXPECT_THAT(why(kLimits, "5.5\n7G\n12\nACTIVE\n5.5\n14G\n"), HasSubstr("server 12"));
  EXPECT_THAT(why(kLimits, "5.5\n14G\n12\nACTIVE\n5.5\n7G\n"), HasSubstr("the daemon's defaults"));
  EXPECT_THAT(why(kLimits, "5.5\n7G\n12\nACTIVE\n10.0\n7G\n"), HasSubstr("percentage"));
  EXPECT_THAT(why(kLimits, "5.5\n7G\n12\nACTIVE\n7G\n"), HasSubstr("server 12"));
  EXPECT_THAT(why(kLimits, "5.5\n7G\n12\nACTIVE\n5.5\n"), HasSubstr("was not read back"));
  EXPECT_THAT(why(kTwo, "5.5\n7G\n1M\n12\nACTIVE\n5.5\n1M\n"), HasSubstr("was not read back"));
  EXPECT_THAT(why(kLimits, "5.5\n12\nACTIVE\n5.5\n7G\n"), HasSubstr("was not read back"));
}

}  // namespace questions_test
}  // namespace tranche::mps
