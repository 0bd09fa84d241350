#include "mps/protocol/requests.h"

#include <gmock/gmock.h>

namespace tranche::mps {
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
  const auto terminate = parsed<TerminateRequest>(R"({"do":"terminate","pool":"gpu-1","pids":[7,8],"reason":"x"})");
  EXPECT_THAT(terminate.pids, ElementsAre(7, 8));
}

TEST(MpsRequests, AnEndpointMayStateTheLimitsOfItsGrant) {
  const auto open = parsed<OpenEndpointRequest>(
      R"({"do":"openEndpoint","pool":"gpu-1","grant":"0011223344556677","limits":[{"uuid":"GPU-3f2a1b4c-0000-1111-2222-333344445555","memoryMiB":7188,"threadsHundredths":500}]})");
  const GrantLimits expected{{"GPU-3f2a1b4c-0000-1111-2222-333344445555", mib(7188), Percent{500}}};
  EXPECT_EQ(open.terms.limits, expected);
  EXPECT_EQ(parsed<OpenEndpointRequest>(R"({"do":"openEndpoint","pool":"gpu-1","grant":"0011223344556677"})").terms,
            EndpointTerms());
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
      {R"({"do":"openEndpoint","pool":"gpu-1","grant":"0011223344556677","anyPod":"no"})", "true or false"},
      {R"({"do":"terminate","pool":"gpu-1","pids":7})", "list of process ids"},
      {R"({"do":"terminate","pool":"gpu-1","pids":[0]})", "positive"},
      {R"({"do":"terminate","pool":"gpu-1","pids":[-4]})", "positive"},
      {R"({"do":"terminate","pool":"gpu-1","pids":["7"]})", "positive"}};
  for (const auto& [line, word] : rows) {
    const auto request = parse_mps_request(line);
    ASSERT_FALSE(request) << line;
    EXPECT_EQ(request.error().kind, Kind::kInvalid);
    EXPECT_THAT(request.error().what, HasSubstr(word)) << line;
  }
}

TEST(MpsRequests, AreReadAsTheyAreWritten) {
  const EndpointName endpoint{"set-1", "0011223344556677"};
  const std::vector<std::pair<MpsRequest, std::string>> rows{
      {OpenEndpointRequest{endpoint, {GrantLimits{{"GPU-1", mib(7188), Percent{500}}, {"GPU-2", {}, {}}}}, true},
       R"({"do":"openEndpoint","pool":"set-1","grant":"0011223344556677","limits":[)"
       R"({"uuid":"GPU-1","memoryMiB":7188,"threadsHundredths":500},)"
       R"({"uuid":"GPU-2","memoryMiB":0,"threadsHundredths":0}],"newTenant":true})"},
      {OpenEndpointRequest{endpoint, {.any_pod = true}},
       R"({"do":"openEndpoint","pool":"set-1","grant":"0011223344556677","anyPod":true})"},
      {OpenEndpointRequest{endpoint, {.pod = "3f-2a"}},
       R"({"do":"openEndpoint","pool":"set-1","grant":"0011223344556677","pod":"3f-2a"})"},
      {RemoveEndpointRequest{endpoint, 5},
       R"({"do":"removeEndpoint","pool":"set-1","grant":"0011223344556677","made":5})"},
      {TerminateRequest{"gpu-1", {7, 9}, "memory: 5000 MiB of 4096 MiB"},
       R"({"do":"terminate","pool":"gpu-1","pids":[7,9],"reason":"memory: 5000 MiB of 4096 MiB"})"}};
  for (const auto& [request, line] : rows) {
    EXPECT_EQ(request_line(request), line);
    const auto read = parse_mps_request(line);
    ASSERT_TRUE(read) << to_string(read.error());
    EXPECT_EQ(request_line(*read), line);
  }
}

TEST(MpsRequests, AreOneLineOfAsciiThatFitsTheSocket) {
  const TerminateRequest most{std::string(64, 'p'), std::vector<int>(kMostPids, 4194304), std::string(120, 'r')};
  EXPECT_LT(request_line(most).size(), 8192u);
  EXPECT_THAT(request_line(TerminateRequest{"p", {1}, "a\n\xff\u00fc"}),
              testing::Not(testing::ContainsRegex("[^ -~]")));
}

}  // namespace requests_test
}  // namespace tranche::mps
