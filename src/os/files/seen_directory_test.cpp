// Directories as processes in mount namespaces of their own see them.
#include "os/files/files.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>

#include "os/files/scratch_fixture.h"

namespace tranche::os {
namespace {

namespace fs = std::filesystem;

// A process that has done this, until it is destroyed.
class Apart {
 public:
  explicit Apart(const std::function<bool()>& prepare) {
    int ready[2];
    if (::pipe(ready) != 0) std::abort();
    pid_ = ::fork();
    if (pid_ == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      const char done = prepare() ? 'y' : 'n';
      if (::write(ready[1], &done, 1) != 1) ::_exit(1);
      while (true) ::pause();
    }
    if (::read(ready[0], &done_, 1) != 1) std::abort();
    ::close(ready[0]);
    ::close(ready[1]);
  }
  ~Apart() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  Apart(const Apart&) = delete;
  Apart& operator=(const Apart&) = delete;
  bool is_ready() const { return done_ == 'y'; }
  std::string folder() const { return fmt::format("/proc/{}", pid_); }

 private:
  pid_t pid_ = 0;
  char done_ = 'n';
};

class SeenDirectory : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const char* name : {"endpoints/a", "endpoints/b", "inside"}) fs::create_directories(scratch_ / name);
  }
  // Mounts a directory at `inside`, as kubelet mounts an endpoint.
  bool mount_inside(const std::string& directory) const {
    return ::unshare(CLONE_NEWNS) == 0 && ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
           ::mount(directory.c_str(), inside_.c_str(), nullptr, MS_BIND, nullptr) == 0;
  }
  std::optional<std::string> name_seen_by(const Apart& process) const {
    const auto seen = directory_seen_by(process.folder(), inside_);
    return seen ? name_of_directory(*Dir::open(scratch_ / "endpoints"), *seen) : std::nullopt;
  }

  Scratch scratch_;
  const std::string inside_ = scratch_ / "inside";
};

TEST_F(SeenDirectory, IsTheOneThatIsMountedThere) {
  const Apart container([&] { return mount_inside(scratch_ / "endpoints/b"); });
  if (!container.is_ready()) GTEST_SKIP() << "a mount namespace needs root";
  EXPECT_EQ(name_seen_by(container), "b");
  const Apart other([] { return true; });
  EXPECT_EQ(name_seen_by(other), std::nullopt) << "a directory of its own";
}

TEST_F(SeenDirectory, HasNoNameOnceItIsRemoved) {
  const Apart container([&] { return mount_inside(scratch_ / "endpoints/a"); });
  if (!container.is_ready()) GTEST_SKIP() << "a mount namespace needs root";
  fs::remove(scratch_ / "endpoints/a");
  fs::create_directory(scratch_ / "endpoints/a");  // of the next tenant
  EXPECT_EQ(name_seen_by(container), std::nullopt);
}

TEST_F(SeenDirectory, IsNotLookedForBehindLinks) {
  fs::create_directory_symlink(scratch_ / "endpoints", scratch_ / "link");
  const Apart process([] { return true; });
  EXPECT_EQ(directory_seen_by(process.folder(), scratch_ / "link").error().kind, Kind::kNotFound);
  EXPECT_EQ(directory_seen_by(process.folder(), scratch_ / "link/a").error().kind, Kind::kNotFound);
}

TEST_F(SeenDirectory, OfWhatIsNoDirectoryOrNoProcessIsAnError) {
  std::ofstream(scratch_ / "file") << "text";
  const Apart process([] { return true; });
  EXPECT_FALSE(directory_seen_by(process.folder(), scratch_ / "file"));
  EXPECT_FALSE(directory_seen_by(process.folder(), scratch_ / "nothing"));
  EXPECT_FALSE(directory_seen_by("/proc/4194300", inside_));
}

// Promise: guard: What a process sees is found out in a time that does not depend on its mounts.
TEST_F(SeenDirectory, IsFoundInANamespaceOfAnUnprivilegedProcess) {
  const std::string directory = scratch_ / "endpoints/b";
  const Apart nested([&] {
    return ::unshare(CLONE_NEWUSER | CLONE_NEWNS) == 0 &&
           ::mount(directory.c_str(), inside_.c_str(), nullptr, MS_BIND, nullptr) == 0;
  });
  if (!nested.is_ready()) GTEST_SKIP() << "no user namespaces here";
  EXPECT_EQ(name_seen_by(nested), "b");
}

}  // namespace
}  // namespace tranche::os
