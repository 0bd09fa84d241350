// docs/internals/kubelet-contract.md names each of these tests beside the fact it pins, and no test that is not there.
#include <gmock/gmock.h>

#include <cstdlib>
#include <fstream>
#include <set>
#include <sstream>
#include <string>

namespace tranche::contract {
namespace {

// "Suite.Name" for every such word in backquotes on the page.
std::set<std::string> names_on(const std::string& page) {
  std::set<std::string> names;
  std::size_t at = 0;
  while ((at = page.find('`', at)) != std::string::npos) {
    const std::size_t end = page.find('`', at + 1);
    if (end == std::string::npos) break;
    names.insert(page.substr(at + 1, end - at - 1));
    at = end + 1;
  }
  return names;
}

TEST(KubeletContract, NamesEveryContractTestAndNoOther) {
  const char* source = std::getenv("TRANCHE_SOURCE");
  if (source == nullptr) GTEST_SKIP() << "set $TRANCHE_SOURCE to the source folder, as ctest does";
  std::ifstream file(std::string(source) + "/docs/internals/kubelet-contract.md");
  ASSERT_TRUE(file.good());
  std::stringstream page;
  page << file.rdbuf();
  const std::set<std::string> documented = names_on(page.str());

  std::set<std::string> suites;
  const testing::UnitTest& all = *testing::UnitTest::GetInstance();
  std::set<std::string> tests;
  for (int i = 0; i < all.total_test_suite_count(); ++i) {
    const testing::TestSuite& suite = *all.GetTestSuite(i);
    if (std::string_view(suite.name()) == "KubeletContract") continue;
    suites.insert(suite.name());
    for (int j = 0; j < suite.total_test_count(); ++j) {
      tests.insert(std::string(suite.name()) + "." + suite.GetTestInfo(j)->name());
    }
  }
  for (const std::string& test : tests)
    EXPECT_TRUE(documented.contains(test)) << test << " pins a fact that is not written down";
  for (const std::string& name : documented) {
    if (suites.contains(name.substr(0, name.find('.')))) {
      EXPECT_TRUE(tests.contains(name)) << "the page names " << name << ", which is not there";
    }
  }
}

}  // namespace
}  // namespace tranche::contract
