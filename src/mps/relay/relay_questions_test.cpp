#include "mps/relay/handshake.h"

#include <gtest/gtest.h>

#include "mps/protocol/requests.h"

namespace tranche::mps {
namespace relay_questions_test {

std::string sent(const std::string& command) {
  return command + std::string("\n\0", 2);
}
std::string text(const std::string& said) {
  return std::string(4, '\0') + said;
}

TEST(RelayQuestions, AreTheTwoAboutOnesOwnShareAndNoOthers) {
  EXPECT_EQ(parse_question(sent("get_default_active_thread_percentage")), RelayQuestion{});
  EXPECT_EQ(parse_question(sent("get_default_device_pinned_mem_limit 0")), RelayQuestion{"0"});
  EXPECT_EQ(parse_question(sent("get_default_device_pinned_mem_limit GPU-0a-1")), RelayQuestion{"GPU-0a-1"});
  for (const std::string command :
       {"quit", "ps", "get_server_list", "set_default_active_thread_percentage 100", "terminate_client 1 2", "",
        "get_default_active_thread_percentage 1", "get_default_device_pinned_mem_limit",
        "get_default_device_pinned_mem_limit 0 1", "get_default_device_pinned_mem_limit 0;quit",
        "get_default_active_thread_percentage\nquit"})
    EXPECT_FALSE(parse_question(sent(command))) << command;
  EXPECT_FALSE(parse_question("get_default_active_thread_percentage\n")) << "without its end";
}

TEST(RelayQuestions, LengthsAreEightBytes) {
  EXPECT_EQ(length_announced(std::string_view("&\0\0\0\0\0\0\0", 8)), 38u);
  EXPECT_EQ(length_announced(std::string_view("\0\0\0\0\0\0\0\1", 8)), 1ull << 56);
  EXPECT_FALSE(length_announced("1234567"));
  EXPECT_FALSE(length_announced(""));
}

// As a Tesla T4 (15360 MiB) with four slots answers.
TEST(RelayQuestions, AreAnsweredInTheDaemonsSpelling) {
  const DaemonLimits limits{{{"GPU-a", mib(3840)}, {"GPU-b", mib(500)}}, Percent{2500}};
  const auto memory = [&](const std::string& device) { return answer_to({device}, limits); };
  EXPECT_EQ(answer_to({}, limits), text("25.0"));
  EXPECT_EQ(memory("0"), text("3G"));
  EXPECT_EQ(memory("GPU-a"), text("3G"));
  EXPECT_EQ(memory("1"), text("500M"));
  EXPECT_EQ(memory("2"), "") << "not this container's";
  EXPECT_EQ(memory("GPU-c"), "") << "not this container's";
  EXPECT_EQ(memory("-1"), "");
  EXPECT_EQ(memory("99999999999999999999999"), "");
  EXPECT_EQ(answer_to({}, {{}, Percent{3333}}), text("33.3"));
  EXPECT_EQ(answer_to({"0"}, {{{"GPU-a", kNoMemoryLimit}}, {}}), "");
}

}  // namespace relay_questions_test
}  // namespace tranche::mps
