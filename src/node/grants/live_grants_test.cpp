#include "node/grants/answers.h"

#include <gmock/gmock.h>

namespace tranche::node {
namespace live_grants_test {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;
using Ids = std::vector<std::string>;

const MonoTime kNow{1000s};

grants::Grant grant(const Ids& slots) {
  grants::Grant made;
  made.slots = slots;
  made.id = grants::grant_id(slots);
  return made;
}

grants::Held holding(const std::string& pod, const Ids& slots) {
  return {"default", pod, "main", "nvidia.com/gpu", slots};
}

// How many are alive, by device.
std::map<std::string, std::uint32_t> count(LiveGrants& grants, const std::vector<grants::Held>& holdings,
                                           MonoTime listed, const Ids& asked_for) {
  grants::Around around;
  around.room = {{"GPU-0", {}}, {"GPU-1", {}}};
  grants.count_into(around, holdings, listed, asked_for);
  std::map<std::string, std::uint32_t> live;
  for (const auto& [device, room] : around.room)
    if (room.live > 0) live[device] = room.live;
  return live;
}

TEST(LiveGrants, AreThoseThatKubeletListsOnEachDeviceOnce) {
  LiveGrants grants;
  const std::vector<grants::Held> listed{holding("a", {"GPU-0::1", "GPU-0::2"}), holding("b", {"GPU-0::3", "GPU-1::0"}),
                                         holding("c", {"GPU-1"})};
  EXPECT_THAT(count(grants, listed, kNow, Ids{}), ElementsAre(Pair("GPU-0", 2u), Pair("GPU-1", 2u)));
}

TEST(LiveGrants, SlotsAreCountedOnEachDevice) {
  LiveGrants grants;
  grants::Around around;
  around.room = {{"GPU-0", {}}, {"GPU-2", {}}};
  grants.count_into(around, {holding("a", {"GPU-0::1", "GPU-0::2"}), holding("b", {"GPU-0::3", "GPU-1::0"})}, kNow,
                    Ids{});
  EXPECT_EQ(around.room["GPU-0"].held, 3u);
  EXPECT_EQ(around.room["GPU-2"].held, 0u);
}

TEST(LiveGrants, OneThatIsGivenCountsBeforeKubeletListsItAndOnceAfter) {
  LiveGrants grants;
  grants.given(grant({"GPU-0::1"}), kNow);
  EXPECT_THAT(count(grants, {}, kNow - 1s, Ids{}), ElementsAre(Pair("GPU-0", 1u)));
  const std::vector<grants::Held> listed{holding("a", {"GPU-0::1"})};
  EXPECT_THAT(count(grants, listed, kNow - 1s, Ids{}), ElementsAre(Pair("GPU-0", 1u))) << "the former holder's";
  EXPECT_THAT(count(grants, listed, kNow + 1s, Ids{}), ElementsAre(Pair("GPU-0", 1u)));
  EXPECT_THAT(count(grants, {}, kNow + 2s, Ids{}), IsEmpty()) << "its pod has ended, and its place is free";
}

TEST(LiveGrants, OneThatKubeletNeverListsHasComeToNothing) {
  LiveGrants grants;
  grants.given(grant({"GPU-0::1"}), kNow);
  EXPECT_THAT(count(grants, {}, kNow + 1s, Ids{}), ElementsAre(Pair("GPU-0", 1u)));
  EXPECT_THAT(count(grants, {}, kNow + grants::kPatience.listed_within + 1s, Ids{}), IsEmpty());
}

TEST(LiveGrants, WhoHeldTheSlotsThatAreAskedForIsGone) {
  LiveGrants grants;
  grants.given(grant({"GPU-0::1", "GPU-0::2"}), kNow);
  const std::vector<grants::Held> listed{holding("a", {"GPU-0::3"})};
  EXPECT_THAT(count(grants, listed, kNow - 1s, Ids{"GPU-0::3"}), ElementsAre(Pair("GPU-0", 1u)));
  EXPECT_THAT(count(grants, listed, kNow - 1s, Ids{"GPU-0::2", "GPU-0::3"}), IsEmpty());
  grants.given(grant({"GPU-0::2"}), kNow + 1s);
  EXPECT_THAT(count(grants, {}, kNow, Ids{}), ElementsAre(Pair("GPU-0", 1u))) << "in place of the first";
}

}  // namespace live_grants_test
}  // namespace tranche::node
