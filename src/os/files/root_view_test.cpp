#include "os/files/root_view.h"

#include <gmock/gmock.h>

#include "os/files/tree_fixture.h"

namespace tranche::os {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class RootViewTest : public testing::Test {
 protected:
  RootView view() const {
    auto root = RootView::open(tree_.path("/root"));
    CHECK_THAT(root.has_value(), "the test's root");
    return *std::move(root);
  }
  std::string real(const std::string& path) const {
    const auto place = view().look(path);
    return place ? place->path : "nothing";
  }
  Tree tree_;
};

// Promise: cdi: Links are followed inside the driver root and never out of it.
TEST_F(RootViewTest, FollowsLinksAsIfItWereTheRoot) {
  tree_.file("/root/usr/lib64/libcuda.so.580.1");
  tree_.link("/root/lib64", "usr/lib64");
  tree_.link("/root/abs64", "/usr/lib64");
  tree_.link("/root/usr/lib64/libcuda.so.1", "libcuda.so.580.1");
  tree_.link("/root/usr/lib64/libcuda.so", "/usr/lib64/libcuda.so.1");
  for (const std::string path : {"/usr/lib64/libcuda.so", "/lib64/libcuda.so.1", "/abs64/libcuda.so",
                                 "usr/./lib64//libcuda.so", "/usr/../lib64/libcuda.so"}) {
    EXPECT_EQ(real(path), "/usr/lib64/libcuda.so.580.1") << path;
  }
}

// Promise: cdi: Links are followed inside the driver root and never out of it.
TEST_F(RootViewTest, IsNeverLedOut) {
  tree_.file("/outside");
  tree_.directory("/root/usr");
  tree_.link("/root/up", "../outside");
  tree_.link("/root/usr/up", "../../../outside");
  tree_.link("/root/absolute", tree_.path("/outside"));
  tree_.link("/root/etc", "/etc");
  tree_.file("/root/real");
  tree_.link("/root/usr/far_up", "../../../../../real");
  EXPECT_EQ(real("/up"), "nothing");
  EXPECT_EQ(real("/usr/up"), "nothing");
  EXPECT_EQ(real("/absolute"), "nothing");
  EXPECT_EQ(real("/etc/passwd"), "nothing");
  EXPECT_EQ(real("/../outside"), "nothing");
  EXPECT_EQ(real("/usr/far_up"), "/real") << "above the root is the root";
  EXPECT_EQ(real("/.."), "/");
  EXPECT_THAT(view().list("/etc"), IsEmpty());
  EXPECT_FALSE(view().read("/etc/passwd"));
}

TEST_F(RootViewTest, GivesUpOnAKnotOfLinks) {
  tree_.directory("/root");
  tree_.link("/root/a", "b");
  tree_.link("/root/b", "a");
  EXPECT_EQ(real("/a"), "nothing");
  EXPECT_EQ(view().link_text("/a"), "b");
  tree_.link("/root/dangling", "gone");
  EXPECT_EQ(real("/dangling"), "nothing");
}

TEST_F(RootViewTest, OfTheOrdinaryRootHasEachPath) {
  tree_.file("/file");
  for (const char* ordinary : {"", "/", "//"}) {
    const auto place = RootView::open(ordinary)->look(tree_.path("/file"));
    EXPECT_TRUE(place && place->path == std::filesystem::canonical(tree_.path("/file"))) << ordinary;
  }
}

TEST_F(RootViewTest, ReportsWhatIsThere) {
  tree_.file("/root/bin/program", "x", true);
  tree_.file("/root/file");
  EXPECT_TRUE(view().look("/")->is_directory());
  EXPECT_TRUE(view().look("/bin")->is_directory());
  EXPECT_TRUE(view().look("/bin/program")->is_program());
  EXPECT_FALSE(view().look("/file")->is_program());
  EXPECT_TRUE(view().look("/file")->is_file());
  EXPECT_FALSE(view().look("/file/x"));
  EXPECT_FALSE(view().link_text("/file"));
}

TEST_F(RootViewTest, MatchesNamesAsAShellDoes) {
  for (const std::string name : {"gsp_ga10x.bin", "gsp_tu10x.bin", "gsp.txt", ".gsp.bin"})
    tree_.file("/root/fw/" + name);
  tree_.file("/root/a1/x");
  tree_.file("/root/a2/x");
  tree_.link("/root/a3", "nowhere");
  EXPECT_THAT(view().matching("/fw/gsp*.bin"), ElementsAre("/fw/gsp_ga10x.bin", "/fw/gsp_tu10x.bin"));
  EXPECT_THAT(view().matching("/a[12]/x"), ElementsAre("/a1/x", "/a2/x"));
  EXPECT_THAT(view().matching("/fw/gsp.txt"), ElementsAre("/fw/gsp.txt"));
  EXPECT_THAT(view().matching("/fw/none*"), IsEmpty());
  EXPECT_THAT(view().matching("/none/*"), IsEmpty());
}

TEST_F(RootViewTest, ReadsFilesOnlyAndNotWithoutEnd) {
  tree_.file("/root/file", "text");
  tree_.link("/root/link", "/file");
  EXPECT_EQ(view().read("/link").value_or(""), "text");
  EXPECT_FALSE(view().read("/file", 3));
  EXPECT_FALSE(view().read("/"));
  EXPECT_EQ(view().read("/none").error().where, tree_.path("/root/none"));
}

}  // namespace
}  // namespace tranche::os
