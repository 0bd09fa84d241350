#include "cdi/live/cdi_specs.h"

#include <gmock/gmock.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <filesystem>
#include <fstream>

#include "os/files/scratch_fixture.h"

namespace tranche::cdi {
namespace nodes_test {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr const char* kChannel = config::kImexChannelNode;

struct Roots : ::testing::Test {
  Roots() {
    for (const auto& root : {driver, system}) fs::create_directory(root);
  }
  static void file(const std::string& root, const std::string& path) {
    fs::create_directories(fs::path(root + path).parent_path());
    std::ofstream(root + path) << "x";
  }
  // Creates a character device like the null device; false if this user is not permitted to.
  static bool device(const std::string& root, const std::string& path) {
    fs::create_directories(fs::path(root + path).parent_path());
    return ::mknod((root + path).c_str(), S_IFCHR | 0666, makedev(1, 3)) == 0;
  }
  bool channel() const { return imex_channel_exists(driver, system); }

  os::Scratch scratch;
  std::string driver = scratch / "driver";
  std::string system = scratch / "system";
};

using ControlNodes = Roots;
using ImexChannel = Roots;

TEST_F(ControlNodes, AreThoseThatExistInTheirOrder) {
  const auto nodes = [this] { return find_device_nodes({}, gpu::Platform::kNvml, driver, system).control; };
  EXPECT_THAT(nodes(), IsEmpty());
  file(system, "/dev/nvidia-modeset");
  file(system, "/dev/nvidiactl");
  EXPECT_THAT(nodes(), ElementsAre("/dev/nvidiactl", "/dev/nvidia-modeset"));
}

TEST_F(ImexChannel, IsFoundUnderTheDriverRootAndElseUnderTheOrdinaryOne) {
  EXPECT_FALSE(channel());
  if (!device(system, kChannel)) GTEST_SKIP() << "this user may not make device nodes";
  EXPECT_TRUE(channel()) << "the driver root has no dev folder";
  file(driver, "/dev/nvidia0");
  EXPECT_TRUE(channel()) << "the driver root has a dev folder without it";
  fs::remove(system + kChannel);
  EXPECT_FALSE(channel());
  ASSERT_TRUE(device(driver, kChannel));
  EXPECT_TRUE(channel());
}

TEST_F(ImexChannel, ThatIsNoCharacterDeviceIsNotThere) {
  file(driver, kChannel);
  fs::create_directories(system + kChannel);
  EXPECT_FALSE(channel());
}

TEST_F(ImexChannel, IsFoundThroughALinkThatStaysInItsRoot) {
  if (!device(driver, "/dev/elsewhere")) GTEST_SKIP() << "this user may not make device nodes";
  fs::create_directories(driver + "/dev/nvidia-caps-imex-channels");
  fs::create_symlink("/dev/elsewhere", driver + kChannel);
  EXPECT_TRUE(channel());
}

}  // namespace nodes_test
}  // namespace tranche::cdi
