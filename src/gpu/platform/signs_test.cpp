#include "gpu/platform/platform.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "os/files/scratch_fixture.h"

namespace tranche::gpu {
namespace signs_test {

namespace fs = std::filesystem;

struct Roots : ::testing::Test {
  Roots() {
    for (const auto& root : {driver, system}) fs::create_directory(root);
  }
  static void write(const std::string& root, const std::string& path, const std::string& text = "x") {
    fs::create_directories(fs::path(root + path).parent_path());
    std::ofstream(root + path) << text;
  }
  bool tegra() const { return look_for_signs(driver, system).tegra_system; }

  os::Scratch scratch;
  std::string driver = scratch / "driver";
  std::string system = scratch / "system";
};

using DriverLibrary = Roots;
using Signs = Roots;

// Promise: driver/library: The driver library is looked for in six folders, in NVIDIA's order.
TEST_F(DriverLibrary, IsLookedForInSixFoldersInThisOrder) {
  constexpr std::array kOrder{"/usr/lib64", "/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu",
                              "/lib64",     "/lib/x86_64-linux-gnu",     "/lib/aarch64-linux-gnu"};
  EXPECT_EQ(library_in_root(driver, "libx.so.1"), "");
  for (auto folder = kOrder.rbegin(); folder != kOrder.rend(); ++folder) {
    const std::string path = std::string(*folder) + "/libx.so.1";
    write(driver, path);
    EXPECT_EQ(library_in_root(driver, "libx.so.1"), driver + path) << "an earlier folder wins";
  }
}

// Promise: driver/library: A link out of the driver root is not followed.
TEST_F(DriverLibrary, LinksAreFollowedInsideTheRoot) {
  write(driver, "/opt/driver/libx.so.580");
  write(system, "/libx.so.580");
  fs::create_directories(driver + "/usr/lib64");
  fs::create_symlink("/opt/driver/libx.so.580", driver + "/usr/lib64/libx.so.1");
  EXPECT_EQ(library_in_root(driver, "libx.so.1"), driver + "/opt/driver/libx.so.580");
  fs::create_symlink(system + "/libx.so.580", driver + "/usr/lib64/liby.so.1");
  EXPECT_EQ(library_in_root(driver, "liby.so.1"), "") << "it leads out of the root";
}

TEST_F(DriverLibrary, WithoutARootTheLoaderIsAsked) {
  for (const char* root : {"", "/", "//"}) EXPECT_EQ(library_in_root(root, "libc.so.6"), "") << root;
  EXPECT_TRUE(library_loads("/", "libc.so.6"));
  EXPECT_TRUE(library_loads(driver, "libc.so.6")) << "not found under the root: the loader is asked as well";
  EXPECT_FALSE(library_loads(driver, "libtranche-nobody.so.1"));
  write(driver, "/lib64/libtranche-nobody.so.1", "half of an installation");
  EXPECT_FALSE(library_loads(driver, "libtranche-nobody.so.1"));
}

TEST_F(Signs, OfTegraAreAReleaseFileOrTheFamilyOfTheChip) {
  EXPECT_FALSE(tegra());
  write(driver, "/sys/devices/soc0/family", "Exynos\n");
  EXPECT_FALSE(tegra());
  write(driver, "/sys/devices/soc0/family", "Tegra\n");
  EXPECT_TRUE(tegra());
  fs::remove_all(driver + "/sys");
  write(driver, "/etc/nv_tegra_release", "");
  EXPECT_TRUE(tegra());
}

TEST_F(Signs, OfTegraAreSeenUnderTheOrdinaryRootToo) {
  write(system, "/sys/devices/soc0/family", "tegra\n");
  EXPECT_TRUE(tegra());
}

TEST_F(Signs, OfWslAreALibraryThatLoads) {
  EXPECT_FALSE(look_for_signs(driver, system).dxcore);
  write(driver, "/usr/lib64/libdxcore.so", "not a library");
  EXPECT_FALSE(look_for_signs(driver, system).dxcore);
  const char* build = std::getenv("TRANCHE_BUILD");
  ASSERT_NE(build, nullptr);
  fs::copy_file(std::string(build) + "/standins/wsl/libdxcore.so", driver + "/usr/lib64/libdxcore.so",
                fs::copy_options::overwrite_existing);
  EXPECT_TRUE(look_for_signs(driver, system).dxcore);
}

}  // namespace signs_test
}  // namespace tranche::gpu
