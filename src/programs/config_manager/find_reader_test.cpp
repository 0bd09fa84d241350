#include "programs/config_manager/config_manager.h"

#include <gtest/gtest.h>

#include "blocked_process.h"
#include "os/files/scratch_fixture.h"

namespace tranche::programs {
namespace {

// Promise: config-manager: The reader is found by the last part of its name and never by a piece.
TEST(ReaderName, IsTheLastPartOfItsOwnNameOrOfItsProgram) {
  EXPECT_TRUE(is_called("nvidia-device-plugin", "nvidia-device-plugin", "/usr/bin/nvidia-device-plugin"));
  EXPECT_TRUE(is_called("nvidia-device-plugin", "/usr/bin/nvidia-device-plugin", "/usr/bin/tranche")) << "our own";
  EXPECT_TRUE(is_called("/usr/bin/mps-control-daemon", "mps-control-daemon", "/usr/bin/tranche")) << "NVIDIA's chart";
  EXPECT_TRUE(is_called("gpu-feature-discovery", "", "/usr/bin/gpu-feature-discovery"));
}

// Promise: config-manager: The reader is found by the last part of its name and never by a piece.
TEST(ReaderName, IsNeverAPieceOfAnotherAndNeverEmpty) {
  EXPECT_FALSE(is_called("nvidia-device-plugin", "nvidia-device-plugin-helper", "/usr/bin/helper"));
  EXPECT_FALSE(is_called("nvidia-device-plugin", "/bin/sh", "/usr/bin/dash"));
  EXPECT_FALSE(is_called("plugin", "nvidia-device-plugin", ""));
  EXPECT_FALSE(is_called("", "", ""));
  EXPECT_FALSE(is_called("/usr/bin/", "", ""));
}

TEST(ReaderSignal, ToANameThatNobodyHasFindsNone) {
  const auto sent = signal_reader("a-name-that-no-process-has", "/", 0);
  ASSERT_FALSE(sent);
  EXPECT_EQ(sent.error().kind, Kind::kNotFound);
}

// Promise: config-manager: The search for the reader reads nothing that a tenant can block.
TEST(ReaderSignal, DoesNotWaitForTheProcessesOfOtherPods) {
  const os::Scratch scratch;
  const test::BlockedProcess tenant(scratch / "blocked-reader");
  if (!tenant.ready()) GTEST_SKIP() << "needs root and /dev/fuse";
  const auto sent = tenant.within_time([&] { return signal_reader("blocked-reader", "/mnt", 0); });
  ASSERT_TRUE(sent.has_value()) << "the search waits for the tenant";
  ASSERT_FALSE(*sent);
  EXPECT_EQ(sent->error().kind, Kind::kNotFound);
  EXPECT_NE(to_string(sent->error()).find("do not see that folder"), std::string::npos) << to_string(sent->error());
}

}  // namespace
}  // namespace tranche::programs
