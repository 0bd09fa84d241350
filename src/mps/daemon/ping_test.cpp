#include "mps/daemon/ping.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>

#include "os/files/scratch_fixture.h"
#include "os/socket/socket_fixture.h"

namespace tranche::mps {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

class PingTest : public ::testing::Test {
 protected:
  void SetUp() override { loop_ = *os::Loop::open(); }
  os::Fd listen() const { return os::socket_at(path_, 4, SOCK_SEQPACKET); }
  Result<bool> ping(Duration deadline, const std::function<void()>& meanwhile = {}) {
    std::optional<Result<bool>> answer;
    const Ping ping(*loop_, path_, deadline, [&](const Result<bool>& greeted) {
      answer = greeted;
      loop_->stop();
    });
    EXPECT_FALSE(answer) << "reported within the call";
    if (meanwhile) meanwhile();
    loop_->run();
    return *answer;
  }
  os::Scratch scratch_;
  std::unique_ptr<os::Loop> loop_;
  std::string path_ = scratch_ / "control";
};

TEST_F(PingTest, IsAnsweredByAGreetingAndGoesAway) {
  const os::Fd listener = listen();
  os::Fd accepted;
  EXPECT_EQ(ping(10s,
                 [&] {
                   accepted = os::Fd(::accept(listener.get(), nullptr, nullptr));
                   EXPECT_EQ(::send(accepted.get(), "OUTBHELL", 9, 0), 9);
                 }),
            Result<bool>(true));
  char rest[8];
  EXPECT_EQ(::recv(accepted.get(), rest, sizeof rest, 0), 0) << "it stays, which would hold the daemon up";
}

TEST_F(PingTest, KnowsAGreetingInOtherWords) {
  const os::Fd listener = listen();
  os::Fd accepted;
  const auto answer = ping(10s, [&] {
    accepted = os::Fd(::accept(listener.get(), nullptr, nullptr));
    EXPECT_EQ(::send(accepted.get(), "MPS3HELO", 9, 0), 9);
  });
  ASSERT_TRUE(answer);
  EXPECT_FALSE(*answer);
}

TEST_F(PingTest, FailsAtItsDeadlineWhenNobodyGreets) {
  const os::Fd listener = listen();
  const auto answer = ping(20ms);
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().kind, Kind::kTimeout);
  EXPECT_THAT(answer.error().what, HasSubstr("no greeting within 20 ms"));
}

TEST_F(PingTest, SaysThatNobodyIsThere) {
  EXPECT_EQ(ping(10s).error().kind, Kind::kNotFound);
  {
    const os::Fd stale = listen();
  }
  EXPECT_FALSE(ping(10s));
}

TEST_F(PingTest, SaysThatTheConnectionWasClosed) {
  const os::Fd listener = listen();
  const auto answer = ping(10s, [&] { const os::Fd gone(::accept(listener.get(), nullptr, nullptr)); });
  ASSERT_FALSE(answer);
  EXPECT_THAT(answer.error().what, HasSubstr("without a greeting"));
}

}  // namespace
}  // namespace tranche::mps
