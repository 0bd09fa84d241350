#include "os/files/rooted.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "os/files/scratch.h"

namespace tranche::host {
namespace {

namespace fs = std::filesystem;

struct Tree : ::testing::Test {
  Tree() {
    fs::create_directories(root + "/usr/lib");
    fs::create_directories(root + "/etc/alternatives");
    std::ofstream(root + "/usr/lib/real") << "here";
    std::ofstream(scratch / "outside") << "not here";
  }
  void link(const std::string& target, const std::string& at) { fs::create_symlink(target, root + at); }
  std::string found(std::string_view path) { return path_in_root(root, path).value_or("nowhere"); }

  Scratch scratch;
  std::string root = scratch / "root";
};

using PathInRoot = Tree;

TEST_F(PathInRoot, FollowsLinksAsAProgramWithThatRootWould) {
  link("real", "/usr/lib/relative");
  link("/usr/lib/real", "/etc/alternatives/absolute");
  link("/etc/alternatives/absolute", "/usr/lib/chain");
  link("usr/lib", "/lib");
  for (const char* path : {"/usr/lib/real", "usr/lib/real", "/usr/lib/relative", "/usr/lib/chain", "/lib/chain",
                           "/usr/./lib//real", "/usr/../lib/real"})
    EXPECT_EQ(found(path), root + "/usr/lib/real") << path;
}

// Promise: driver/library: A link out of the driver root is not followed.
TEST_F(PathInRoot, NoLinkLeadsOutOfIt) {
  link(scratch / "outside", "/usr/lib/absolute");
  link("../../../outside", "/usr/lib/relative");
  link("../../../../../../../../usr/lib/real", "/usr/lib/far_up");
  EXPECT_EQ(found("/usr/lib/absolute"), "nowhere") << "the target's path means something else below the root";
  EXPECT_EQ(found("/usr/lib/relative"), "nowhere");
  EXPECT_EQ(found("/../../../outside"), "nowhere");
  EXPECT_EQ(found("/usr/lib/far_up"), root + "/usr/lib/real") << "above the root is the root";
  EXPECT_EQ(found("/.."), root);
}

TEST_F(PathInRoot, IsNothingForWhatIsNotThereOrRunsInCircles) {
  link("b", "/a");
  link("a", "/b");
  link("gone", "/dangling");
  for (const char* path : {"/a", "/dangling", "/usr/lib/real/below", "/nobody"}) EXPECT_EQ(found(path), "nowhere");
}

TEST_F(PathInRoot, OfTheOrdinaryRootIsThePath) {
  for (const char* ordinary : {"", "/", "//"}) {
    EXPECT_EQ(path_in_root(ordinary, root + "/usr/lib/real"), fs::canonical(root + "/usr/lib/real")) << ordinary;
    EXPECT_EQ(path_in_root(ordinary, "/"), "/");
  }
  EXPECT_EQ(path_in_root(root + "/", "/usr/lib/real"), root + "/usr/lib/real");
}

}  // namespace
}  // namespace tranche::host
