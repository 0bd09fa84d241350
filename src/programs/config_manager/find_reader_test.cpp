#include "programs/config_manager/find_reader.h"

#include <gtest/gtest.h>

namespace tranche::agent {
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

}  // namespace
}  // namespace tranche::agent
