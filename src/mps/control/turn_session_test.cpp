#include <gmock/gmock.h>

#include "base/text.h"
#include "mps/control/questions.h"

namespace tranche::mps {
namespace turn_session_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const std::string kA = "GPU-3f2a1b4c-0000-1111-2222-333344445555";
const std::string kB = "GPU-9d8e7f60-aaaa-bbbb-cccc-ddddeeeeffff";
const DaemonLimits kLimits{{{kA, mib(7188)}}, Percent{550}};
const DaemonLimits kTwo{{{kA, mib(7188)}, {kB, mib(1)}}, Percent{550}};

TEST(TurnSession, SetsDefaultsAndServersReadsBothBackAndAsksWhichRun) {
  EXPECT_THAT(
      lines_of(turn_session({12}, kLimits)),
      ElementsAre("set_default_device_pinned_mem_limit " + kA + " 7188M", "set_default_active_thread_percentage 5.5",
                  "set_device_pinned_mem_limit 12 " + kA + " 7188M", "set_active_thread_percentage 12 5.5",
                  "get_default_active_thread_percentage", "get_default_device_pinned_mem_limit " + kA,
                  "get_active_thread_percentage 12", "get_device_pinned_mem_limit 12 " + kA, "get_server_list"));
}

TEST(TurnSession, EverythingAsSetGivesTheServersThatRun) {
  EXPECT_THAT(parse_turn_session({}, kLimits, "5.5\n5.5\n7G\n")->servers, IsEmpty());
  EXPECT_THAT(parse_turn_session({}, kLimits, "5.5\n5.5\n7G\n12\n")->servers, ElementsAre(12)) << "it began meanwhile";
  EXPECT_THAT(parse_turn_session({12}, kLimits, "5.5\n5.5\n5.5\n7G\n5.5\n7G\n12\n")->servers, ElementsAre(12));
  EXPECT_EQ(parse_turn_session({}, kLimits, "5.5\n5.5\n7G\n")->defaults, (DaemonLimits{{{kA, gib(7)}}, Percent{550}}));
  EXPECT_THAT(parse_turn_session({12}, kTwo, "5.5\n5.5\n5.5\n7G\n1M\n5.5\n7G\n1M\n12\n")->servers, ElementsAre(12));
}

TEST(TurnSession, WhateverIsNotAsSetIsAnError) {
  const auto why = [](std::vector<int> servers, const DaemonLimits& limits, std::string_view text) {
    const auto parsed = parse_turn_session(servers, limits, text);
    return parsed ? "taken" : to_string(parsed.error());
  };
  EXPECT_THAT(why({12}, kLimits, "5.5\n5.5\n5.5\n7G\n5.5\n14G\n12\n"), HasSubstr("server 12"));
  EXPECT_THAT(why({12}, kLimits, "5.5\n5.5\n5.5\n14G\n5.5\n7G\n12\n"), HasSubstr("the daemon's defaults"));
  EXPECT_THAT(why({12}, kLimits, "5.5\n5.5\n5.5\n7G\n10.0\n7G\n12\n"), HasSubstr("percentage"));
  EXPECT_THAT(why({12}, kLimits, "5.5\n5.5\n5.5\n7G\n7G\n12\n"), HasSubstr("server 12"));
  EXPECT_THAT(why({12}, kLimits, "5.5\n5.5\n5.5\n7G\n5.5\n12\n"), HasSubstr("was not read back"));
  EXPECT_THAT(why({12}, kTwo, "5.5\n5.5\n5.5\n7G\n1M\n5.5\n1M\n12\n"), HasSubstr("was not read back"));
  EXPECT_THAT(why({}, kLimits, "5.5\n5.5\n"), HasSubstr("was not read back"));
  EXPECT_THAT(why({}, kLimits, ""), HasSubstr("was not read back"));
  EXPECT_THAT(why({}, kLimits, "5.5\n5.5\n7G\nhello\n"), HasSubstr("hello"));
  EXPECT_THAT(why({}, kLimits, "Insufficient privileges to set\n"), HasSubstr("Insufficient"));
  EXPECT_EQ(parse_turn_session({12}, kLimits, "5.5\nServer 12 not found\n5.5\n7G\n").error().kind, Kind::kNotFound);
}

}  // namespace turn_session_test
}  // namespace tranche::mps
