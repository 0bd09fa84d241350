#include "kubelet/socket_server.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "os/files/scratch_fixture.h"
#include "os/socket/socket_fixture.h"

namespace tranche::kubelet {
namespace {

class SocketFiles : public testing::Test {
 protected:
  os::Scratch scratch_;
  const std::string& directory_ = scratch_.path();
  std::string path_ = scratch_ / "s.sock";
};

TEST_F(SocketFiles, NothingAndOtherKindsOfFilesAreNoSocket) {
  EXPECT_FALSE(os::look_at_socket(path_));
  std::ofstream(path_) << "text";
  EXPECT_FALSE(os::look_at_socket(path_));
  EXPECT_FALSE(os::probe_listener(path_).alive);
}

TEST_F(SocketFiles, AListenerIsAliveAndReportsItsProcess) {
  const os::Fd listener = os::socket_at(path_, 1);
  const os::Listener seen = os::probe_listener(path_);
  EXPECT_TRUE(seen.alive);
  EXPECT_EQ(seen.pid, ::getpid());
}

// Promise: kubelet/socket: A clean start removes the socket files of killed servers and no others.
TEST_F(SocketFiles, WhatKilledServersLeftGoesAndNothingElse) {
  const MonoTime now{std::chrono::hours(1)};
  const auto put = [&](const std::string& socket, Duration age, bool listening) {
    const std::string path = directory_ + "/" + temporary_socket_name(socket, now - age);
    return std::pair(path, os::socket_at(path, listening ? 1 : 0));
  };
  const auto killed = put("gpu", std::chrono::minutes(5), false);
  const auto serving = put("gpu", std::chrono::minutes(6), true);
  const auto another_resources = put("gpu.shared", std::chrono::minutes(5), false);
  std::ofstream(directory_ + "/" + temporary_socket_name("gpu", now - std::chrono::minutes(7))) << "a file";
  std::ofstream(directory_ + "/.thidden") << "a file";
  const std::string name = temporary_socket_name("gpu", now);
  remove_deserted_sockets(directory_, ".t", std::string_view(name).substr(name.size() - 4));
  EXPECT_FALSE(std::filesystem::exists(killed.first));
  for (const auto* kept : {&serving, &another_resources}) EXPECT_TRUE(std::filesystem::exists(kept->first));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(directory_), {}), 4);
}

TEST_F(SocketFiles, AFullQueueIsAliveToo) {
  const os::Fd listener = os::socket_at(path_, 1);
  std::vector<os::Fd> callers;
  for (int i = 0; i < 16; ++i) {  // more than any backlog of 1 takes
    os::Fd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (os::connect_at(fd.get(), path_) != 0) break;
    callers.push_back(std::move(fd));
  }
  ASSERT_LT(callers.size(), 16U);
  EXPECT_TRUE(os::probe_listener(path_).alive);
}

TEST_F(SocketFiles, ASocketNobodyListensOnIsDead) {
  {
    const os::Fd gone = os::socket_at(path_, 1);
  }
  EXPECT_TRUE(os::look_at_socket(path_));
  EXPECT_FALSE(os::probe_listener(path_).alive);
}

TEST_F(SocketFiles, AReplacementIsAnotherFileWhileTheOldOneIsBound) {
  const os::Fd old_one = os::socket_at(path_, 1);
  const auto before = os::look_at_socket(path_);
  ::unlink(path_.c_str());
  const os::Fd new_one = os::socket_at(path_, 1);
  const auto after = os::look_at_socket(path_);
  ASSERT_TRUE(before && after);
  EXPECT_FALSE(after->same_file(*before)) << "a bound socket keeps its inode number to itself";
}

TEST_F(SocketFiles, ARenameKeepsTheIdentity) {
  const os::Fd socket = os::socket_at(directory_ + "/other", 1);
  const auto before = os::look_at_socket(directory_ + "/other");
  std::filesystem::rename(directory_ + "/other", path_);
  const auto after = os::look_at_socket(path_);
  ASSERT_TRUE(before && after);
  EXPECT_TRUE(after->same_file(*before));
  EXPECT_TRUE(os::probe_listener(path_).alive);
}

// Promise: kubelet/register: A socket path above 107 characters is refused with its reason.
TEST(SocketPath, MayHave107Characters) {
  EXPECT_TRUE(os::unix_address(std::string(107, 'x')));
  const auto too_long = os::unix_address(std::string(108, 'x'));
  ASSERT_FALSE(too_long);
  EXPECT_EQ(too_long.error().kind, Kind::kInvalid);
}

}  // namespace
}  // namespace tranche::kubelet
