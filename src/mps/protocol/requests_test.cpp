#include "mps/protocol/requests.h"

#include <gmock/gmock.h>

namespace tranche::agent {
namespace requests_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

template <class T>
T parsed(std::string_view line) {
  const auto request = parse_mps_request(line);
  EXPECT_TRUE(request) << to_string(request.error());
  const auto* found = request ? std::get_if<T>(&*request) : nullptr;
  EXPECT_NE(found, nullptr) << line;
  return found == nullptr ? T{} : *found;
}

TEST(MpsRequests, EachIsRead) {
  const EndpointName endpoint{"gpu-3f2a1b4c", "0011223344556677"};
  EXPECT_EQ(
      parsed<OpenEndpointRequest>(R"({"do":"openEndpoint","pool":"gpu-3f2a1b4c","grant":"0011223344556677"})").endpoint,
      endpoint);
  EXPECT_EQ(parsed<RemoveEndpointRequest>(R"({"do":"removeEndpoint","pool":"gpu-3f2a1b4c","grant":"0011223344556677"})")
                .endpoint,
            endpoint);
  const auto admit = parsed<AdmitRequest>(
      R"({"do":"admit","pool":"gpu-3f2a1b4c","grant":"0011223344556677","open":false,"reason":"memory: over"})");
  EXPECT_EQ(admit.endpoint, endpoint);
  EXPECT_FALSE(admit.open);
  EXPECT_EQ(admit.reason, "memory: over");
  const auto terminate = parsed<TerminateRequest>(R"({"do":"terminate","pool":"gpu-1","pids":[7,8],"reason":"x"})");
  EXPECT_THAT(terminate.pids, ElementsAre(7, 8));
  const auto drain = parsed<DrainRequest>(
      R"({"do":"drain","pool":"gpu-3f2a1b4c","grant":"0011223344556677","reason":"stop","spare":true,"signal":15})");
  EXPECT_TRUE(drain.spare);
  EXPECT_EQ(drain.stop_signal, 15);
}

TEST(MpsRequests, ToOpenAnEndpointMayNameSlotsAsEarlierReleasesDid) {
  const auto open =
      parsed<OpenEndpointRequest>(R"({"do":"openEndpoint","pool":"gpu-1","grant":"0011223344556677","slots":[3,0]})");
  EXPECT_EQ(open.endpoint.pool, "gpu-1");
}

TEST(MpsRequests, AnEndpointMayTellWhatItsGrantIsWorth) {
  const auto open = parsed<OpenEndpointRequest>(
      R"({"do":"openEndpoint","pool":"gpu-1","grant":"0011223344556677","limits":[{"uuid":"GPU-3f2a1b4c-0000-1111-2222-333344445555","memoryMiB":7188,"threadsHundredths":500}]})");
  const mps::GrantLimits expected{{"GPU-3f2a1b4c-0000-1111-2222-333344445555", mib(7188), Percent{500}}};
  EXPECT_EQ(open.limits, expected);
  EXPECT_EQ(parsed<OpenEndpointRequest>(R"({"do":"openEndpoint","pool":"gpu-1","grant":"0011223344556677"})").limits,
            std::nullopt);
}

// Promise: mps/requests: Limits of a wrong form are refused.
TEST(MpsRequests, LimitsThatAreNotExactlyThatAreRefused) {
  const std::vector<std::pair<std::string, std::string>> rows{
      {"7", "list of limits"},
      {"[]", "one device at least"},
      {"[7]", "a limit is an object"},
      {R"([{"uuid":"GPU-1","memoryMiB":1}])", "threadsHundredths"},
      {R"([{"uuid":"GPU-1","memoryMiB":-1,"threadsHundredths":0}])", "memoryMiB"},
      {R"([{"uuid":"GPU-1","memoryMiB":1.5,"threadsHundredths":0}])", "memoryMiB"},
      {R"([{"uuid":"GPU-1","memoryMiB":"1","threadsHundredths":0}])", "memoryMiB"},
      {R"([{"uuid":"GPU-1","memoryMiB":99999999999,"threadsHundredths":0}])", "memory of GPU-1"},
      {R"([{"uuid":"GPU-1","memoryMiB":18446744073709551615,"threadsHundredths":0}])", "memory of GPU-1"},
      {R"([{"uuid":"GPU-1","memoryMiB":1,"threadsHundredths":10001}])", "10000"},
      {R"([{"uuid":"0","memoryMiB":1,"threadsHundredths":1}])", "\"0\""},
      {R"([{"uuid":"GPU-1","memoryMiB":1,"threadsHundredths":1,"sms":8}])", "\"sms\""},
      {R"([{"uuid":"GPU-1","memoryMiB":1,"threadsHundredths":1},{"uuid":"GPU-1","memoryMiB":1,"threadsHundredths":1}])",
       "twice"},
  };
  for (const auto& [limits, words] : rows) {
    const auto request =
        parse_mps_request(R"({"do":"openEndpoint","pool":"gpu-1","grant":"0011223344556677","limits":)" + limits + "}");
    ASSERT_FALSE(request) << limits;
    EXPECT_THAT(to_string(request.error()), HasSubstr(words)) << limits;
  }
}

TEST(MpsRequests, ADrainOfAnOlderAgentEndsAll) {
  const auto old = parsed<DrainRequest>(R"({"do":"drain","pool":"gpu-1","grant":"0011223344556677","deadlineMs":250})");
  EXPECT_FALSE(old.spare);
  EXPECT_EQ(old.stop_signal, 0);
}

// Promise: mps/requests: A request that is wrong is refused by field.
TEST(MpsRequests, WhatIsWrongIsNamed) {
  const std::vector<std::pair<std::string, std::string>> rows{
      {"[]", "JSON object"},
      {"{", "JSON object"},
      {"{}", "\"do\""},
      {R"({"do":"quit"})", "\"quit\""},
      {R"({"do":"openEndpoint"})", "\"pool\""},
      {R"({"do":"openEndpoint","pool":"../..","grant":"0011223344556677"})", "\"../..\""},
      {R"({"do":"openEndpoint","pool":"gpu-1","grant":"../../../etc/passw"})", "16 hexadecimal digits"},
      {R"({"do":"openEndpoint","pool":"gpu-1","grant":"00112233445566778"})", "16 hexadecimal digits"},
      {R"({"do":"openEndpoint","pool":"gpu-1","grant":"0011223344556677","force":true})", "\"force\""},
      {R"({"do":"admit","pool":"gpu-1","grant":"0011223344556677","open":"no"})", "true or false"},
      {R"({"do":"terminate","pool":"gpu-1","pids":7})", "list of process ids"},
      {R"({"do":"terminate","pool":"gpu-1","pids":[0]})", "positive"},
      {R"({"do":"terminate","pool":"gpu-1","pids":[-4]})", "positive"},
      {R"({"do":"terminate","pool":"gpu-1","pids":["7"]})", "positive"},
      {R"({"do":"drain","pool":"gpu-1","grant":"0011223344556677","spare":1})", "true or false"},
      {R"({"do":"drain","pool":"gpu-1","grant":"0011223344556677","signal":65})", "from 0 (not known) to 64"}};
  for (const auto& [line, word] : rows) {
    const auto request = parse_mps_request(line);
    ASSERT_FALSE(request) << line;
    EXPECT_EQ(request.error().kind, Kind::kInvalid);
    EXPECT_THAT(request.error().what, HasSubstr(word)) << line;
  }
}

TEST(MpsRequests, RepliesAreOneLineOfJson) {
  EXPECT_EQ(done_reply(), R"({"ok":true})");
  EXPECT_EQ(error_reply({Kind::kNotFound, "no such pool", "gpu-1", 0}),
            R"({"ok":false,"error":"no such pool [gpu-1]"})");
  EXPECT_EQ(terminated_reply({{7, mps::TerminateOutcome::kTerminated, ""}, {8, mps::TerminateOutcome::kRefused, "no"}},
                             std::chrono::milliseconds(12), 3),
            R"({"ok":true,"clients":[{"pid":7,"outcome":"terminated","note":"","waitedMs":0},)"
            R"({"pid":8,"outcome":"refused","note":"no","waitedMs":0}],"neighbours":3,"tookMs":12})");
}

}  // namespace requests_test
}  // namespace tranche::agent
