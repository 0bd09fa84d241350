#include "mps/protocol/mps_client.h"

#include <gmock/gmock.h>

#include "os/files/scratch_fixture.h"
#include "run_until.h"

namespace tranche::mps {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;

class MpsClientTest : public ::testing::Test {
 protected:
  void serve() {
    server_ = *os::StatusServer::open(
        *loop_, scratch_ / "mps.sock",
        [](const std::string&) { return Result<std::string>(R"({"pools":[],"pid":7})"); }, {},
        [this](const std::string& line, const os::StatusServer::Reply& reply) {
          const auto request = parse_mps_request(line);
          if (request && std::holds_alternative<TerminateRequest>(*request)) {
            terminating_ = reply;
            return;
          }
          const auto* open = request ? std::get_if<OpenEndpointRequest>(&*request) : nullptr;
          reply(open != nullptr ? done_reply() : error_reply({Kind::kNotFound, "no such endpoint", "", 0}));
        });
  }
  auto note() {
    return [this](const auto& reply) {
      answers_.push_back(reply ? "ok" : std::string(to_string(reply.error().kind)));
      if (answers_.size() == wanted_) loop_->stop();
    };
  }
  void await(std::size_t answers) {
    wanted_ = answers;
    os::run_until_stopped(*loop_);
  }

  os::Scratch scratch_;
  std::unique_ptr<os::Loop> loop_ = *os::Loop::open();
  std::unique_ptr<os::StatusServer> server_;
  os::StatusServer::Reply terminating_;
  std::size_t wanted_ = 0;
  std::vector<std::string> answers_;
  const EndpointName endpoint_{"set-1", "0011223344556677"};
};

TEST_F(MpsClientTest, RequestsInOrderAndReportsAnAbsentProgram) {
  MpsClient mps(*loop_, scratch_.path());
  mps.request(OpenEndpointRequest{endpoint_}, note());
  await(1);
  serve();
  mps.request(OpenEndpointRequest{endpoint_}, note());
  mps.request(RemoveEndpointRequest{endpoint_}, note());
  await(3);
  EXPECT_THAT(answers_, ElementsAre(to_string(Kind::kUnavailable), "ok", to_string(Kind::kUnavailable)));
}

TEST_F(MpsClientTest, RequestsDoNotWaitForClientsThatEnd) {
  serve();
  MpsClient mps(*loop_, scratch_.path());
  mps.request(TerminateRequest{endpoint_.pool, {7}}, note());
  mps.request(OpenEndpointRequest{endpoint_}, [this](const auto& status) {
    note()(status);
    if (terminating_) terminating_(end_reply({}));
  });
  await(2);
  EXPECT_THAT(answers_, ElementsAre("ok", "ok"));
}

TEST_F(MpsClientTest, FollowsTheReportsOfThePools) {
  MpsClient mps(*loop_, scratch_.path());
  std::vector<std::int64_t> pids;
  mps.follow([&](const PoolReports& reports) {
    pids.push_back(reports.connected ? reports.pid : 0);
    if (reports.connected) return loop_->stop();
    EXPECT_THAT(reports.problem, ::testing::HasSubstr("mps.sock"));
    serve();
  });
  await(1);
  EXPECT_THAT(pids, ElementsAre(0, 7));
}

}  // namespace
}  // namespace tranche::mps
