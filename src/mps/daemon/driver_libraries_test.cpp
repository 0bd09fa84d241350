#include "mps/daemon/daemon_home.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "os/files/files.h"
#include "os/files/scratch_fixture.h"

namespace tranche::mps {
namespace {

using ::testing::ElementsAre;
using ::testing::UnorderedElementsAre;

class DriverLibraries : public ::testing::Test {
 protected:
  std::string put(const std::string& relative) const {
    const std::string path = scratch_ / relative;
    std::filesystem::create_directories(std::filesystem::path(path).parent_path());
    std::ofstream(path) << "library";
    return path;
  }
  std::vector<std::string> linked() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(scratch_ / "links"))
      names.push_back(entry.path().filename().string());
    return names;
  }
  Result<std::string> link() const {
    return link_driver_libraries(scratch_ / "driver", scratch_ / "links", scratch_ / "driver");
  }

  os::Scratch scratch_;
};

TEST_F(DriverLibraries, AreLinkedToAndTheCLibraryBesideThemIsNot) {
  const auto cuda = put("driver/usr/lib/x86_64-linux-gnu/libcuda.so.1");
  put("driver/usr/lib/x86_64-linux-gnu/libnvidia-ptxjitcompiler.so.1");
  put("driver/usr/lib/x86_64-linux-gnu/libc.so.6");
  put("driver/usr/lib/x86_64-linux-gnu/libcudart.so.12");
  const auto folder = link();
  ASSERT_TRUE(folder) << to_string(folder.error());
  EXPECT_EQ(*folder, scratch_ / "links");
  EXPECT_THAT(linked(), UnorderedElementsAre("libcuda.so.1", "libnvidia-ptxjitcompiler.so.1"));
  EXPECT_EQ(*os::read_link(scratch_ / "links/libcuda.so.1"), cuda);
}

TEST_F(DriverLibraries, OfAnotherDriverReplaceThoseOfTheFormer) {
  put("driver/usr/lib64/libcuda.so.1");
  put("driver/usr/lib64/libnvidia-old.so.535");
  ASSERT_TRUE(link());
  std::filesystem::remove_all(scratch_ / "driver");
  const auto cuda = put("driver/usr/lib/x86_64-linux-gnu/libcuda.so.1");
  ASSERT_TRUE(link());
  EXPECT_THAT(linked(), ElementsAre("libcuda.so.1"));
  EXPECT_EQ(*os::read_link(scratch_ / "links/libcuda.so.1"), cuda);
}

TEST_F(DriverLibraries, OfTheContainersOwnRootAndOfARootWithoutAnyNeedNoLinks) {
  EXPECT_EQ(*link(), "");
  EXPECT_EQ(*link_driver_libraries("/", scratch_ / "links", "/"), "");
  EXPECT_EQ(*link_driver_libraries("", scratch_ / "links", ""), "");
  EXPECT_FALSE(std::filesystem::exists(scratch_ / "links"));
}

// Promise: mps/daemon-home: Library folders are named as the host names them.
TEST_F(DriverLibraries, ForDaemonsOnTheHostAreNamedAsTheHostNamesThem) {
  put("driver/usr/lib64/libcuda.so.1");
  ASSERT_TRUE(link_driver_libraries(scratch_ / "driver", scratch_ / "links", "/run/nvidia/driver"));
  EXPECT_EQ(*os::read_link(scratch_ / "links/libcuda.so.1"), "/run/nvidia/driver/usr/lib64/libcuda.so.1");
}

TEST(LibraryPath, HasTheFolderFirstAndNoEmptyPart) {
  EXPECT_EQ(library_path("/a", ""), "/a");
  EXPECT_EQ(library_path("/a", "/b:/c"), "/a:/b:/c");
  EXPECT_EQ(library_path("", "/b"), "/b");
}

}  // namespace
}  // namespace tranche::mps
