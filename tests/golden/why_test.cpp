// A status document × what is asked for → `tranche why`, as text and as JSON.
#include <gtest/gtest.h>

#include "golden/golden.h"
#include "observe/why/why.h"

namespace tranche {
namespace {

TEST(WhyOutput, IsAsInTheFiles) {
  const std::string status = golden::read(golden::source("tests/golden/why/status.json"));
  std::string text;
  for (const char* name : {"team/a", "team/b", "gone", "0", "1", "12", "GPU-aaaaaaaa::2", "GPU-bbbbbbbb::3"}) {
    const auto found = why::explain(status, name, WallTime{std::chrono::seconds(1000)});
    ASSERT_TRUE(found) << name;
    text += "$ tranche why " + std::string(name) + "\n" + why::render(*found, false, 100) + "\n";
  }
  golden::compare(golden::source("tests/golden/why/expected.txt"), text);
  const auto found = why::explain(status, "team/a", WallTime{std::chrono::seconds(1000)});
  golden::compare(golden::source("tests/golden/why/expected.json"), why::to_json(found.value()) + "\n");
}

}  // namespace
}  // namespace tranche
