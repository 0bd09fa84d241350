#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "doctor/finding_fixture.h"
#include "doctor/verify/checks.h"

namespace tranche::doctor {
namespace deep_checks_test {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;

const DeepGrant kGrant{"GPU-1", 14000, 12};

ProbeRun reported(const std::string& json) {
  return {.output = "a line of its own\n" + json + "\n"};
}
ProbeRun had(std::uint64_t sms = 12) {
  return reported(
      R"({"mps":{"connected":true},"sms":{"attribute":)" + std::to_string(sms) +
      R"(,"seen":8},"allocations":[{"granted":true}],"answers":{"checked":10,"wrong":0},"throughput":{"launches":3}})");
}
ProbeRun refused() {
  return reported(
      R"({"mps":{"connected":true},"sms":{"attribute":12,"seen":8},"allocations":[{"granted":false}],"answers":{"checked":10,"wrong":0}})");
}
const ProbeRun kEnded{.status = 1, .output = "tranche probe: CUDA_ERROR_MPS_CLIENT_TERMINATED\n"};
const ProbeRun kBroken{.status = 1, .output = "tranche probe: no CUDA\n"};
const ProbeRun kNotContained{.status = kNoContainer, .output = "tranche probe: cannot have a mount namespace\n"};

TEST(VerifyDeep, SizesLeaveRoomForAContextAndGoWellBeyond) {
  EXPECT_EQ(within_mib(14000), 13300u);
  EXPECT_EQ(within_mib(1000), 744u);
  EXPECT_EQ(within_mib(300), 150u);
  EXPECT_EQ(beyond_mib(14000), 14701u);
}

TEST(VerifyDeep, AGrantIsItsMemoryItsSmsAndRightAnswers) {
  Findings checks;
  judge_grant(kGrant, had(), checks);
  EXPECT_THAT(checks, ElementsAre(is(Verdict::kPass, "deep.memory.within"), is(Verdict::kPass, "deep.sms"),
                                  is(Verdict::kPass, "deep.answers")));
  checks.clear();
  judge_grant(kGrant, refused(), checks);
  EXPECT_THAT(checks, Contains(is(Verdict::kFail, "deep.memory.within")));
  checks.clear();
  judge_grant(kGrant, had(132), checks);
  EXPECT_THAT(checks, Contains(is(Verdict::kFail, "deep.sms")));
  checks.clear();
  judge_grant(kGrant, reported(R"({"sms":{"attribute":12},"answers":{"checked":9,"wrong":1}})"), checks);
  EXPECT_THAT(checks, AllOf(Contains(is(Verdict::kFail, "deep.answers")), Contains(is(Verdict::kFail, "deep.mps"))));
}

TEST(VerifyDeep, MoreThanTheGrantMustBeRefusedOrEnded) {
  const auto judged = [](const ProbeRun& run) {
    Findings checks;
    judge_beyond("x", kGrant, "", run, checks);
    return checks.at(0).verdict;
  };
  EXPECT_EQ(judged(refused()), Verdict::kPass);
  EXPECT_EQ(judged(kEnded), Verdict::kPass);
  EXPECT_EQ(judged({.status = 137, .output = {}}), Verdict::kPass) << "by the guard";
  EXPECT_EQ(judged(had()), Verdict::kFail);
  EXPECT_EQ(judged(kBroken), Verdict::kFail);
  EXPECT_EQ(judged({.timed_out = true, .status = 137, .output = {}}), Verdict::kFail);
  EXPECT_EQ(judged(kNotContained), Verdict::kSkip);
  EXPECT_EQ(judged({.not_started = "no file"}), Verdict::kSkip);
}

// With a variable that lifts its limit the relay does not let it in; without one, that is a failure.
TEST(VerifyDeep, AProcessThatIsNotLetInForItsVariableHadNothing) {
  const ProbeRun kept_out{.status = 1, .output = "tranche probe: CUDA_ERROR_MPS_CONNECTION_FAILED: no daemon\n"};
  for (const auto& [means, verdict] :
       {std::pair{std::string("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=zz"), Verdict::kPass}, {"", Verdict::kFail}}) {
    Findings checks;
    judge_beyond("x", kGrant, means, kept_out, checks);
    EXPECT_EQ(checks.at(0).verdict, verdict) << means;
  }
}

TEST(VerifyDeep, ASecondProcessCountsToTheSameContainer) {
  const auto judged = [](const ProbeRun& first, const ProbeRun& second, bool observed = false) {
    Findings checks;
    judge_second(kGrant, first, second, observed, checks);
    return checks.at(0).verdict;
  };
  EXPECT_EQ(judged(had(), kEnded), Verdict::kPass);
  EXPECT_EQ(judged(kEnded, had()), Verdict::kPass);
  EXPECT_EQ(judged(had(), refused()), Verdict::kPass);
  EXPECT_EQ(judged(had(), had()), Verdict::kFail);
  EXPECT_EQ(judged(had(), had(), true), Verdict::kSkip);
  EXPECT_EQ(judged(kBroken, had()), Verdict::kFail);
  EXPECT_EQ(judged(had(), kNotContained), Verdict::kSkip);
}

// Promise: verify: A client's death must be held by tranche-keeper and reach no neighbour.
TEST(VerifyDeep, ADeathMustBeHeldAndReachNoNeighbour) {
  const auto judged = [](const DeathTries& tries) {
    Findings checks;
    judge_deaths(kGrant, tries, checks);
    EXPECT_EQ(checks.size(), 1u);
    EXPECT_EQ(checks.at(0).id, "deep.deaths");
    EXPECT_EQ(checks.at(0).remedy.empty(), checks.at(0).verdict == Verdict::kPass);
    return std::string(to_string(checks.at(0).verdict)) + " " + checks.at(0).what;
  };
  EXPECT_EQ(
      judged({.deaths = 3, .neighbours = {had(), had()}}),
      "PASS deaths with work in flight: 3 of 3; tranche-keeper released each client, and 2 neighbours computed right "
      "all the while, 6 launches");
  EXPECT_EQ(judged({.deaths = 1, .neighbours = {had(), kEnded}}),
            "FAIL deaths with work in flight: 1 of 3; 1 of 2 neighbours did not survive: tranche probe: "
            "CUDA_ERROR_MPS_CLIENT_TERMINATED (it ended with status 1)");
  const auto wrong = reported(R"({"answers":{"checked":9,"wrong":1}})");
  EXPECT_EQ(judged({.deaths = 1, .neighbours = {had(), wrong}}).substr(0, 4), "FAIL");
  EXPECT_EQ(
      judged({.not_held = "no CAP_SYS_PTRACE", .deaths = 3, .neighbours = {had(), had()}}),
      "FAIL deaths with work in flight: 3 of 3; the neighbours survived by chance; tranche-keeper did not hold the "
      "client: no CAP_SYS_PTRACE");
  EXPECT_EQ(
      judged({.not_made = "pods' clients run", .not_held = "no program", .neighbours = {had(), had()}}),
      "FAIL deaths with work in flight: 0 of 3; pods' clients run; tranche-keeper did not hold the client: no program");
  EXPECT_EQ(
      judged({.not_made = "it did not compute", .deaths = 2, .victim = kBroken, .neighbours = {had(), had()}}),
      "FAIL deaths with work in flight: 2 of 3; it did not compute; tranche probe: no CUDA (it ended with status 1)");
  EXPECT_EQ(judged({.neighbours = {kBroken, had()}}),
            "FAIL the probe failed: tranche probe: no CUDA (it ended with status 1)");
  EXPECT_EQ(judged({.neighbours = {kNotContained, had()}}).substr(0, 4), "SKIP");
  EXPECT_EQ(judged({.skipped = "only one slot is free"}), "SKIP only one slot is free");
}

TEST(VerifyDeep, VariablesUsersCommandsAndNeighbours) {
  Findings checks;
  judge_all_sms(kGrant, had(132), checks);
  judge_all_sms(kGrant, had(12), checks);
  judge_user(kGrant, 65534, kBroken, checks);
  judge_user(kGrant, 65534, had(), checks);
  judge_control(kGrant, std::string("4711\n"), checks);
  judge_control(kGrant, fail(Kind::kTimeout, "no answer"), checks);
  judge_control(kGrant, fail(Kind::kUnavailable, "no program"), checks);
  judge_neighbour(kGrant, kEnded, checks);
  judge_neighbour(kGrant, refused(), checks);
  judge_neighbour(kGrant, had(), checks);
  EXPECT_THAT(checks, ElementsAre(is(Verdict::kFail, "deep.sms.variable"), is(Verdict::kPass, "deep.sms.variable"),
                                  is(Verdict::kFail, "deep.other-user"), is(Verdict::kPass, "deep.other-user"),
                                  is(Verdict::kFail, "deep.control"), is(Verdict::kPass, "deep.control"),
                                  is(Verdict::kSkip, "deep.control"), is(Verdict::kFail, "deep.neighbour"),
                                  is(Verdict::kSkip, "deep.neighbour"), is(Verdict::kPass, "deep.neighbour")));
}

}  // namespace deep_checks_test
}  // namespace tranche::doctor
