// Pods asked once, as `tranche plan --pods cluster` does.
#include "kube/client/ask_once.h"

#include <set>

#include "kube/client/find_access.h"
#include "kube/kube_bed.h"
#include "kube/object.h"

namespace tranche::kube {
namespace list_pods_test {

using ::testing::HasSubstr;

constexpr const char* kHere = R"({"spec":{"nodeName":"n1"}})";
constexpr int kMany = 600;

class PodsAskedOnce : public KubeBed {
 protected:
  void put_many() {
    for (int i = 0; i < kMany; ++i) server_->put_pod("default", "p" + std::to_string(i), i % 2 == 0 ? kHere : "{}");
  }
  static std::multiset<std::string> names_in(const std::vector<std::string>& pages) {
    std::multiset<std::string> names;
    for (const auto& body : pages)
      (void)parse_list(body, [&names](const nlohmann::json& object) -> Status {
        names.insert(name_of(object));
        return {};
      });
    return names;
  }
};

// Promise: api-server/watch: `--pods cluster` asks once, page by page.
TEST_F(PodsAskedOnce, ComePageByPageBySelectorAndNothingIsAskedAfterwards) {
  put_many();
  const auto here = list_pods(access(), {"spec.nodeName=n1"});
  ASSERT_TRUE(here) << to_string(here.error());
  EXPECT_EQ(here->size(), 2u);
  const auto both = list_pods(access(), {"spec.nodeName=n1", "spec.nodeName="});
  ASSERT_TRUE(both) << to_string(both.error());
  const auto names = names_in(*both);
  EXPECT_EQ(names.size(), static_cast<std::size_t>(kMany));
  EXPECT_EQ(std::set<std::string>(names.begin(), names.end()).size(), names.size());
  EXPECT_EQ(server_->requests().size(), 6u);
  EXPECT_EQ(server_->watches(), 0u);
}

// Promise: api-server/watch: `--pods cluster` asks once, page by page.
TEST_F(PodsAskedOnce, AListThatExpiresIsAskedAgainFromItsBeginningOnce) {
  put_many();
  const auto later_page = [](const sim::ApiRequest& request) {
    return request.query.find("continue=") != std::string::npos;
  };
  const std::string gone = R"({"kind":"Status","code":410,"reason":"Expired","message":"too old"})";
  server_->refuse(1, 410, gone, later_page);
  const auto again = list_pods(access(), {"spec.nodeName=n1"});
  ASSERT_TRUE(again) << to_string(again.error());
  EXPECT_EQ(names_in(*again).size(), static_cast<std::size_t>(kMany / 2));
  server_->refuse(2, 410, gone, later_page);
  const auto never = list_pods(access(), {"spec.nodeName=n1"});
  ASSERT_FALSE(never);
  EXPECT_THAT(never.error().what, HasSubstr("too old (410)"));
}

TEST_F(PodsAskedOnce, ARefusalAndSilenceAreSaid) {
  server_->take_token("another");
  const auto refused = list_pods(access(), {"spec.nodeName=n1"});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, Kind::kDenied);
  const auto where = access();
  server_.reset();
  const auto silent = list_pods(where, {"spec.nodeName=n1"});
  ASSERT_FALSE(silent);
  EXPECT_THAT(silent.error().what, HasSubstr("the API server does not answer"));
}

TEST_F(PodsAskedOnce, AccessIsFoundInAFileOrSaidToBeMissing) {
  std::vector<Problem> problems;
  write("kubeconfig", server_->kubeconfig(scratch_ / "token"));
  EXPECT_TRUE(find_access(scratch_ / "kubeconfig", {}, problems));
  EXPECT_TRUE(problems.empty());
  write("kubeconfig", "kind: Config\ncurrent-context: nowhere\n");
  const auto broken = find_access(scratch_ / "kubeconfig", {}, problems);
  ASSERT_FALSE(broken);
  EXPECT_THAT(broken.error().what, HasSubstr("kubeconfig:2:18"));
  EXPECT_FALSE(problems.empty());
  EXPECT_FALSE(find_access(scratch_ / "nothing", {}, problems));
  EXPECT_FALSE(find_access("", {}, problems)) << "this is no pod";
}

}  // namespace list_pods_test
}  // namespace tranche::kube
