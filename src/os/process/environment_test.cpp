// The environment of other processes: children of the test that change their own.
#include "os/process/environment.h"

#include <gmock/gmock.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "os/files/files.h"
#include "os/files/scratch.h"

namespace tranche::host {
namespace {

constexpr const char* kName = "TRANCHE_TEST_VARIABLE";

// A child that changes its environment and then waits to be killed.
class Child {
 public:
  explicit Child(void (*what)()) {
    int ready[2];
    EXPECT_EQ(::pipe(ready), 0);
    pid_ = ::fork();
    if (pid_ == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      what();
      if (::write(ready[1], "x", 1) != 1) ::_exit(1);
      for (;;) ::pause();
    }
    char byte = 0;
    EXPECT_EQ(::read(ready[0], &byte, 1), 1);
    ::close(ready[0]);
    ::close(ready[1]);
  }
  ~Child() { end(); }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  void end() {
    if (pid_ == 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    pid_ = 0;
  }
  pid_t pid() const { return pid_; }

 private:
  pid_t pid_ = 0;
};

std::optional<std::string> value_in(const Child& child) {
  const auto value = variable_of(child.pid(), kName);
  EXPECT_TRUE(value) << to_string(value.error());
  return value.value_or(std::nullopt);
}

TEST(Environment, IsReadFromABlockAsGetenvDoes) {
  using std::string_literals::operator""s;
  EXPECT_EQ(variable_in("A=1\0B=2\0B=3\0"s, "B"), "2");
  EXPECT_EQ(variable_in("A=1\0BB=2\0B\0"s, "B"), std::nullopt);
  EXPECT_EQ(variable_in("A=1\0B="s, "B"), "");
  EXPECT_EQ(variable_in("B==\0"s, "B"), "=");
  EXPECT_EQ(variable_in("", "B"), std::nullopt);
  EXPECT_EQ(variable_in("B=" + std::string(100000, 'x'), "B")->size(), kLongestVariable);
}

// Promise: mps/relay: The environment is read as it is at the connection.
TEST(Environment, WhatAProcessChangedIsSeenAndNotWhatItBeganWith) {
  ::setenv(kName, "of the parent", 1);
  const Child same([] {});
  const Child changed([] { ::setenv(kName, "of the child", 1); });
  const Child unset([] { ::unsetenv(kName); });
  const Child cleared([] { ::clearenv(); });
  const Child longer([] { ::setenv(kName, std::string(100000, 'x').c_str(), 1); });
  ::unsetenv(kName);
  const Child later([] { ::setenv(kName, "late", 1); });
  EXPECT_EQ(value_in(same), "of the parent");
  EXPECT_EQ(value_in(changed), "of the child");
  EXPECT_EQ(value_in(unset), std::nullopt);
  EXPECT_EQ(value_in(longer), std::string(kLongestVariable, 'x'));
  EXPECT_EQ(value_in(later), "late");
  const auto live = live_variable(changed.pid(), kName);
  ASSERT_TRUE(live) << "the live environment was not found: the values above were those of the start";
  EXPECT_EQ(live->value, "of the child");
  EXPECT_FALSE(live_variable(cleared.pid(), kName)) << "no list is as good as not set up yet";
}

TEST(Environment, OfAProcessThatHasEndedThereIsNone) {
  Child child([] {});
  const pid_t pid = child.pid();
  child.end();
  const auto value = variable_of(pid, kName);
  ASSERT_FALSE(value);
  EXPECT_EQ(value.error().kind, Kind::kNotFound);
}

TEST(Environment, AListThatLeadsNowhereIsNotFollowed) {
  const Child wild([] { environ = reinterpret_cast<char**>(std::uintptr_t{0x10}); });
  EXPECT_TRUE(variable_of(wild.pid(), kName));
  static char* entries[] = {reinterpret_cast<char*>(std::uintptr_t{0x10}), nullptr};
  const Child entry([] { environ = entries; });
  EXPECT_EQ(value_in(entry), std::nullopt);
}

constexpr std::string_view kMaps =
    "5581a0000000-5581a0001000 r--p 00000000 fe:00 1101  /usr/bin/a program\n"
    "5581a0001000-5581a0002000 r-xp 00001000 fe:00 1101  /usr/bin/a program\n"
    "7f11a0028000-7f11a01b0000 r-xp 00028000 fe:00 1203  /usr/lib/x86_64-linux-gnu/libc.so.6\n"
    "7f11a0000000-7f11a0028000 r--p 00000000 fe:00 1203  /usr/lib/x86_64-linux-gnu/libc.so.6\n"
    "7f11b0000000-7f11b0001000 rw-p 00000000 00:00 0 \n"
    "7ffc00000000-7ffc00021000 rw-p 00000000 00:00 0  [stack]\n";

TEST(Environment, ALinkInTheFileSystemOfAProcessIsNotFollowed) {
  const Scratch scratch;
  std::filesystem::create_directory(scratch / "real");
  ASSERT_TRUE(Dir::open(scratch / "real")->write_atomically("libc.so.6", "text"));
  std::filesystem::create_directory_symlink(scratch / "real", scratch / "link");
  std::filesystem::create_symlink(scratch / "real/libc.so.6", scratch / "real/other");
  const auto is_file = [](const Fd& fd) {
    struct stat status{};
    return fd && ::fstat(fd.get(), &status) == 0 && S_ISREG(status.st_mode);
  };
  EXPECT_TRUE(is_file(open_below_root(::getpid(), scratch / "real/libc.so.6")));
  EXPECT_FALSE(is_file(open_below_root(::getpid(), scratch / "link/libc.so.6")));
  EXPECT_FALSE(is_file(open_below_root(::getpid(), scratch / "real/other")));
  EXPECT_FALSE(is_file(open_below_root(::getpid(), scratch / "real/../real/libc.so.6")));
  EXPECT_FALSE(is_file(open_below_root(::getpid(), scratch / "real/nothing")));
}

TEST(MemoryMap, NamesTheCLibraryWhereItBegins) {
  EXPECT_EQ(libc_in(kMaps), (MappedFile{"/usr/lib/x86_64-linux-gnu/libc.so.6", 0x7f11a0000000}));
  EXPECT_EQ(mapped_in(kMaps, "/usr/bin/a program"), (MappedFile{"/usr/bin/a program", 0x5581a0000000}));
  for (const char* path : {"/lib/libc-2.31.so", "/lib/ld-musl-x86_64.so.1"})
    EXPECT_EQ(libc_in("1000-2000 r--p 00000000 fe:00 1 " + std::string(path) + "\n"), (MappedFile{path, 0x1000}));
  for (const char* path : {"/lib/libcuda.so.1", "/lib/libc++.so.1", "/libc.so.6/x", "[heap]", ""})
    EXPECT_FALSE(libc_in("1000-2000 r--p 00000000 fe:00 1 " + std::string(path) + "\n")) << path;
  EXPECT_FALSE(libc_in("nonsense\n\n-\n"));
}

}  // namespace
}  // namespace tranche::host
