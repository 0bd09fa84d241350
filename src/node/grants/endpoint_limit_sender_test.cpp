#include "node/grants/tenants.h"

#include <gmock/gmock.h>

#include "os/files/scratch_fixture.h"

namespace tranche::node {
namespace endpoint_limit_sender_test {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

grants::Share share(std::uint64_t memory_mib, std::uint32_t threads) {
  return {"set-1", "nvidia.com/gpu", mib(memory_mib), Percent{threads}};
}

mps::GrantLimit limit(const std::string& uuid, std::uint64_t memory_mib, std::uint32_t threads) {
  return {uuid, mib(memory_mib), Percent{threads}};
}
std::string open_request(const std::string& grant, const mps::GrantLimits& limits) {
  return mps::request_line(mps::OpenEndpointRequest{{"set-1", grant}, {limits}});
}

const mps::GrantLimits kBoth{limit("GPU-0", 5000, 2500), limit("GPU-1", 3000, 1500)};

// `tranche mps` with two endpoints, which remembers what it is asked.
class EndpointLimitSenderTest : public ::testing::Test {
 protected:
  EndpointLimitSenderTest() {
    shares_ = {{{"g0", "GPU-0"}, share(5000, 2500)}, {{"g1", "GPU-1"}, share(3000, 1500)}};
    pools_.connected = true;
    pools_.pools["set-1"].endpoint = "relay";
    pools_.pools["set-1"].endpoints = {{"g0", {}, mps::GrantLimits{limit("GPU-0", 5000, 2500)}},
                                       {"g1", {}, mps::GrantLimits{limit("GPU-1", 3000, 1500)}}};
    auto opened = os::StatusServer::open(
        *loop_, scratch_ / "mps.sock", [](const std::string&) { return Result<std::string>("{}"); }, {},
        [this](const std::string& request, const os::StatusServer::Reply& reply) {
          asked_.push_back(request);
          reply(answer_);
          if (asked_.size() == wanted_) loop_->after(50ms, [this] { loop_->stop(); });
        });
    server_ = *std::move(opened);
    sender_ = std::make_unique<EndpointLimitSender>(*loop_, mps_);
  }

  void join() { grants::join_grants(shares_, {{"default/a/main", "g0"}, {"default/a/main", "g1"}}); }
  void all_have_both() {
    auto& endpoints = pools_.pools["set-1"].endpoints;
    endpoints = {{"g0", {}, kBoth}, {"g1", {}, kBoth}};
  }
  void follow() { sender_->follow(guard::tenants_of(shares_), pools_); }
  // What was asked once there is so much, or after a while.
  std::vector<std::string> asked(std::size_t count) {
    wanted_ = count;
    const auto timer = loop_->after(count == 0 ? Duration(100ms) : Duration(60s), [this] { loop_->stop(); });
    loop_->run();
    loop_->cancel(timer);
    return std::exchange(asked_, {});
  }

  os::Scratch scratch_;
  std::unique_ptr<os::Loop> loop_ = *os::Loop::open();
  std::unique_ptr<os::StatusServer> server_;
  mps::MpsClient mps_{*loop_, scratch_.path()};
  grants::Shares shares_;
  mps::PoolReports pools_;
  std::unique_ptr<EndpointLimitSender> sender_;
  std::string answer_ = R"({"ok":true})";
  std::size_t wanted_ = 0;
  std::vector<std::string> asked_;
};

TEST_F(EndpointLimitSenderTest, SendsNothingWhileEachEndpointHasTheLimitsOfItsGrant) {
  follow();
  EXPECT_THAT(asked(0), IsEmpty());
}

TEST_F(EndpointLimitSenderTest, SendsEachEndpointOfATenantTheLimitsOfAllItsGrants) {
  join();
  follow();
  EXPECT_THAT(asked(2), ElementsAre(open_request("g0", kBoth), open_request("g1", kBoth)));
  all_have_both();
  follow();
  EXPECT_THAT(asked(0), IsEmpty());
}

TEST_F(EndpointLimitSenderTest, AnEndpointThatIsGivenAnewHasNothingOfItsFormerTenant) {
  join();
  all_have_both();
  grants::part_grant(shares_, "g0");
  follow();
  EXPECT_THAT(asked(2), ElementsAre(open_request("g0", {limit("GPU-0", 5000, 2500)}),
                                    open_request("g1", {limit("GPU-1", 3000, 1500)})));
}

TEST_F(EndpointLimitSenderTest, DoesNotAskAgainAtOnceWhenItIsRefused) {
  join();
  answer_ = R"({"ok":false,"error":"not now"})";
  follow();
  EXPECT_THAT(asked(2), SizeIs(2));
  follow();
  EXPECT_THAT(asked(0), IsEmpty());
}

TEST_F(EndpointLimitSenderTest, LeavesLinksAlone) {
  join();
  pools_.pools["set-1"].endpoint = "link";
  follow();
  EXPECT_THAT(asked(0), IsEmpty());
}

}  // namespace endpoint_limit_sender_test
}  // namespace tranche::node
