#include "cdi/live/write_specs.h"

#include <gmock/gmock.h>

#include "os/files/tree_fixture.h"

namespace tranche::cdi {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr const char* kGpuFile = "k8s.device-plugin.nvidia.com-gpu.json";
constexpr const char* kGdsFile = "k8s.device-plugin.nvidia.com-gds.json";

Spec spec(const std::string& cls, const std::string& name = "GPU-1") {
  Spec spec{kVendor, cls, {}, {}};
  spec.devices.push_back({name, {}});
  spec.devices.front().edits.env = {"A=b"};
  return spec;
}

class CdiFiles : public testing::Test {
 protected:
  Result<WrittenSpecs> write(const std::vector<Spec>& specs) { return write_specs(tree_.path("/run/cdi"), specs); }
  std::string text(const std::string& name) const {
    return os::read_file(tree_.path("/run/cdi/") + name).value_or("nothing");
  }
  struct stat status(const std::string& name) const {
    struct stat status{};
    EXPECT_EQ(::stat((tree_.path("/run/cdi/") + name).c_str(), &status), 0);
    return status;
  }
  std::vector<std::string> names() const {
    const auto dir = os::Dir::open(tree_.path("/run/cdi"));
    return dir ? dir->list().value_or(std::vector<std::string>{}) : std::vector<std::string>{"no directory"};
  }
  os::Tree tree_;
};

TEST_F(CdiFiles, AreWrittenForEveryoneToReadAndLeaveNothingElse) {
  EXPECT_THAT(write({spec("gpu"), spec("gds")})->written, ElementsAre(kGdsFile, kGpuFile));
  EXPECT_THAT(names(), ElementsAre(kGdsFile, kGpuFile));
  EXPECT_EQ(text(kGpuFile), render(spec("gpu")));
  EXPECT_EQ(status(kGpuFile).st_mode & 07777, 0644u);
}

// Promise: cdi: A file that would not change is not touched.
TEST_F(CdiFiles, ThatWouldNotChangeAreNotTouched) {
  ASSERT_TRUE(write({spec("gpu"), spec("gds")}));
  const auto before = status(kGpuFile);
  const auto again = write({spec("gpu"), spec("gds", "other")});
  EXPECT_THAT(again->written, ElementsAre(kGdsFile));
  EXPECT_EQ(status(kGpuFile).st_ino, before.st_ino);
  EXPECT_EQ(status(kGpuFile).st_mtim.tv_nsec, before.st_mtim.tv_nsec);
}

// Promise: cdi: Our unwanted files are removed and others stay.
TEST_F(CdiFiles, OfOursThatAreNotWantedAnyMoreAreRemovedAndOthersStay) {
  ASSERT_TRUE(write({spec("gpu"), spec("gds")}));
  tree_.file("/run/cdi/nvidia.com-gpu.json");
  tree_.file("/run/cdi/k8s.device-plugin.nvidia.com-other.json");
  tree_.file("/run/cdi/k8s.device-plugin.nvidia.com-mofed.yaml");
  const auto done = write({spec("gpu")});
  EXPECT_THAT(done->written, testing::IsEmpty());
  EXPECT_THAT(done->removed, ElementsAre(kGdsFile));
  EXPECT_THAT(names(), ElementsAre("k8s.device-plugin.nvidia.com-gpu.json", "k8s.device-plugin.nvidia.com-mofed.yaml",
                                   "k8s.device-plugin.nvidia.com-other.json", "nvidia.com-gpu.json"));
}

// Promise: cdi: Files that a killed program left half-written are removed, and those of other programs stay.
TEST_F(CdiFiles, ThatAKilledProgramLeftHalfWrittenAreRemoved) {
  ASSERT_TRUE(write({spec("gpu")}));
  tree_.file("/run/cdi/.k8s.device-plugin.nvidia.com-gpu.json.1.1.tmp");
  tree_.file("/run/cdi/.nvidia.com-gpu.json.1.1.tmp");
  ASSERT_TRUE(write({spec("gpu")}));
  EXPECT_THAT(names(), ElementsAre(".nvidia.com-gpu.json.1.1.tmp", kGpuFile));
}

// Promise: cdi: A specification with a path that is not UTF-8 is not written and nothing is removed.
TEST_F(CdiFiles, WithAPathThatIsNotUtf8AreNotWrittenAndNothingIsRemoved) {
  ASSERT_TRUE(write({spec("gpu"), spec("gds")}));
  auto wrong = spec("gpu");
  wrong.edits.mounts.push_back({"/\xff", "/x", {}});
  EXPECT_THAT(write({wrong}).error().what, HasSubstr("not valid UTF-8"));
  EXPECT_THAT(names(), ElementsAre(kGdsFile, kGpuFile));
  EXPECT_EQ(text(kGpuFile), render(spec("gpu")));
}

TEST_F(CdiFiles, NeedNoDirectoryWhenThereAreNone) {
  EXPECT_EQ(write({}), WrittenSpecs{});
  EXPECT_THAT(names(), ElementsAre("no directory"));
}

TEST_F(CdiFiles, ReplaceALinkRatherThanFollowIt) {
  tree_.file("/elsewhere", "theirs");
  tree_.link(std::string("/run/cdi/") + kGpuFile, "../../elsewhere");
  ASSERT_TRUE(write({spec("gpu")}));
  EXPECT_EQ(os::read_file(tree_.path("/elsewhere")).value_or(""), "theirs");
  EXPECT_EQ(text(kGpuFile), render(spec("gpu")));
}

TEST_F(CdiFiles, SayWhereTheyCannotBeWritten) {
  tree_.file("/run/cdi", "a file in the way");
  const auto done = write({spec("gpu")});
  ASSERT_FALSE(done);
  EXPECT_THAT(to_string(done.error()), HasSubstr(tree_.path("/run/cdi")));
}

}  // namespace
}  // namespace tranche::cdi
