#include "termination/live/watched_pod.h"

#include <gmock/gmock.h>

namespace tranche::agent {
namespace {

using namespace std::chrono_literals;

kube::PodSeen seen() {
  kube::PodSeen pod;
  pod.uid = "u1";
  pod.pod_namespace = "default";
  pod.name = "train";
  pod.containers = {{"main", "containerd://3f2a", true, true, false, {"/run/tranche/bin/tranche-drain"}, 0, "SIGQUIT"}};
  return pod;
}

TEST(WatchedPods, OneThatRunsIsNotStopping) {
  const auto pod = watched_pod(seen());
  EXPECT_EQ(pod.uid, "u1");
  EXPECT_EQ(pod.grace, std::nullopt);
  EXPECT_FALSE(pod.gone);
  ASSERT_EQ(pod.containers.size(), 1u);
  EXPECT_TRUE(pod.containers[0].hooked);
  EXPECT_EQ(pod.containers[0].stop_signal, 3);
}

TEST(WatchedPods, ADeletionHasItsGraceAndTheTimeThatItWasSeen) {
  auto deleted = seen();
  deleted.deleting = true;
  deleted.deletion_seen = MonoTime{5s};
  deleted.deletion_grace_seconds = 30;
  const auto pod = watched_pod({kube::PodChange::What::kDeleting, deleted});
  EXPECT_EQ(pod.grace, 30s);
  EXPECT_EQ(pod.seen, MonoTime{5s});
  EXPECT_FALSE(pod.gone);
  EXPECT_TRUE(watched_pod({kube::PodChange::What::kGone, deleted}).gone);
}

TEST(WatchedPods, AGraceOfAnyNumberIsWithinAYear) {
  auto deleted = seen();
  deleted.deleting = true;
  for (const std::int64_t grace : {std::int64_t{9'300'000'000}, INT64_MAX, std::int64_t{18'446'744'074}}) {
    deleted.deletion_grace_seconds = grace;
    EXPECT_EQ(watched_pod({kube::PodChange::What::kDeleting, deleted}).grace, 365 * 24h) << grace;
  }
  deleted.deletion_grace_seconds = INT64_MIN;
  EXPECT_EQ(watched_pod({kube::PodChange::What::kDeleting, deleted}).grace, 0s);
}

TEST(WatchedPods, AHookOfItsOwnIsAnyButOursAndASleep) {
  auto pod = seen();
  const auto own_hook = [&pod] { return watched_pod(pod).containers[0].own_hook; };
  EXPECT_FALSE(own_hook());
  pod.containers[0].pre_stop = {"/bin/save"};
  EXPECT_TRUE(own_hook());
  pod.containers[0].pre_stop = {};
  pod.containers[0].pre_stop_sleep = 5;
  EXPECT_FALSE(own_hook());
  pod.containers[0].pre_stop_other = true;
  EXPECT_TRUE(own_hook());
}

TEST(WatchedPods, SignalsAreNamedAsKubernetesNamesThem) {
  EXPECT_EQ(signal_number("SIGTERM"), 15);
  EXPECT_EQ(signal_number("SIGRTMIN"), 34);
  EXPECT_EQ(signal_number("SIGRTMIN+3"), 37);
  EXPECT_EQ(signal_number("SIGRTMAX-1"), 63);
  for (const char* name : {"", "TERM", "SIG", "SIGNONE", "SIGRTMIN-1", "SIGRTMIN+x", "SIGRTMIN+99"})
    EXPECT_EQ(signal_number(name), 0) << name;
}

}  // namespace
}  // namespace tranche::agent
