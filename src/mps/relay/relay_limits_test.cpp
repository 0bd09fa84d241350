// Clients whose grants have limits, one after the other (docs/internals/mps-contract.md, "A grant's own limits").
#include "mps/relay/relay_fixture.h"

namespace tranche::mps {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Grants with different limits: the test answers `prepare`.
class RelayWithLimits : public RelayAtTheEndpoint {
 protected:
  RelayWithLimits() {
    prepare_ = [this](const std::string& grant, const RelayOwner::Prepared& done) {
      prepared_.push_back(grant);
      waiting_.push_back(done);
      if (at_once_) waiting_.back()(status_);
    };
  }
  bool comes_in(const sim::Fd& fd) {
    sim::Packet packet = next(fd);
    if (packet.bytes != sim::kDescriptor) return false;
    servers_.push_back(join(packet.descriptor));
    return sim::send_packet(fd.get(), sim::kAcknowledged);
  }
  bool at_once_ = true;
  Status status_;
  std::vector<std::string> prepared_;
  std::vector<RelayOwner::Prepared> waiting_;
  std::vector<sim::Fd> servers_;
};

TEST_F(RelayWithLimits, NobodyIsIntroducedBeforeItsLimitsAreSet) {
  at_once_ = false;
  const sim::Fd fd = introduced(kOne);
  ASSERT_TRUE(until([&] { return !prepared_.empty(); }));
  turns(20ms);
  EXPECT_FALSE(readable(fd.get()));
  waiting_[0]({});
  EXPECT_TRUE(comes_in(fd));
  EXPECT_THAT(prepared_, ElementsAre(kOne));
}

// Promise: mps/limits/limits: A step of admission ends with the client's exchange.
TEST_F(RelayWithLimits, OthersWaitForTheEndOfTheExchange) {
  const sim::Fd one = introduced(kOne);
  sim::Packet packet = next(one);
  ASSERT_EQ(packet.bytes, sim::kDescriptor);
  const sim::Fd other = introduced(kOther);
  turns(20ms);
  EXPECT_THAT(prepared_, ElementsAre(kOne));
  const sim::Fd channel = join(packet.descriptor);
  ASSERT_TRUE(sim::send_packet(one.get(), sim::kAcknowledged));
  EXPECT_TRUE(comes_in(other));
  EXPECT_THAT(prepared_, ElementsAre(kOne, kOther));
}

// Promise: mps/relay: A client that stalls in its exchange delays the next one by little.
TEST_F(RelayWithLimits, OneThatStaysSilentDelaysTheNextByLittle) {
  const sim::Fd one = introduced(kOne);
  EXPECT_EQ(next(one).bytes, sim::kDescriptor);  // and stays silent
  const sim::Fd other = introduced(kOther);
  EXPECT_TRUE(comes_in(other));
}

// Promise: mps/limits/limits: A client whose limits cannot be set stays out and the reason is reported.
TEST_F(RelayWithLimits, WhoseLimitsCannotBeSetIsKeptOut) {
  status_ = fail(Kind::kInvalid, "they read back otherwise");
  const sim::Fd fd = introduced(kOne);
  EXPECT_EQ(next(fd).bytes, "end");
  EXPECT_THAT(ends_, ElementsAre(RelayEnd::kNoLimits));
  EXPECT_EQ(relay_->counters(kOne).failed, 1u);
  status_ = {};
  EXPECT_TRUE(comes_in(introduced(kOther)));
}

// Promise: mps/limits/limits: A client waits while the daemon is busy.
TEST_F(RelayWithLimits, WhileTheDaemonIsBusyTheClientWaits) {
  status_ = fail(Kind::kConflict, "somebody else holds the session");
  const sim::Fd fd = introduced(kOne);
  ASSERT_TRUE(until([&] { return prepared_.size() == 2; })) << "tried again";
  EXPECT_FALSE(readable(fd.get()));
  status_ = {};
  EXPECT_TRUE(comes_in(fd));
  EXPECT_THAT(ends_, IsEmpty());
}

TEST_F(RelayWithLimits, OneThatLeavesWhileItsLimitsAreBeingSetHoldsNobodyUpAfterwards) {
  at_once_ = false;
  sim::Fd fd = introduced(kOne);
  ASSERT_TRUE(until([&] { return !prepared_.empty(); }));
  fd = sim::Fd();
  const sim::Fd other = introduced(kOther);
  turns(20ms);
  EXPECT_THAT(prepared_, ElementsAre(kOne)) << "the daemon sets the limits of one grant at a time";
  waiting_[0]({});
  ASSERT_TRUE(until([&] { return prepared_.size() == 2; }));
  waiting_[1]({});
  EXPECT_TRUE(comes_in(other));
}

TEST_F(RelayWithLimits, AnAnswerAfterTheRelayHasGoneIsHarmless) {
  at_once_ = false;
  const sim::Fd fd = introduced(kOne);
  ASSERT_TRUE(until([&] { return !prepared_.empty(); }));
  relay_.reset();
  waiting_[0]({});
  EXPECT_EQ(next(fd).bytes, "end");
}

TEST_F(RelayWithLimits, ATurnOfOurOwnKeepsClientsOutUntilItIsGivenBack) {
  bool came = false;
  auto turn = relay_->take_turn([&] { came = true; });
  EXPECT_TRUE(came);
  const sim::Fd fd = introduced(kOne);
  turns(20ms);
  EXPECT_THAT(prepared_, ElementsAre(""));
  turn.reset();
  EXPECT_TRUE(comes_in(fd));
}

}  // namespace
}  // namespace tranche::mps
