#include "os/files/files.h"

#include <gmock/gmock.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "os/files/scratch_fixture.h"
#include "os/files/watch.h"
#include "run_until.h"

namespace tranche::os {
namespace file_lock_test {

using namespace std::chrono_literals;

// A process that has the lock until its pipe is closed; -1: it did not get it.
class Holder {
 public:
  explicit Holder(const std::string& path) {
    int until[2], ready[2];
    EXPECT_EQ(::pipe(until), 0);
    EXPECT_EQ(::pipe(ready), 0);
    child_ = ::fork();
    if (child_ == 0) {
      ::close(until[1]);
      auto lock = FileLock::open(path);
      const char got = lock && lock->take().value_or(false) ? 'y' : 'n';
      char end = 0;
      if (::write(ready[1], &got, 1) == 1) (void)!::read(until[0], &end, 1);
      ::_exit(0);
    }
    ::close(until[0]);
    ::close(ready[1]);
    until_ = Fd(until[1]);
    char got = 0;
    EXPECT_EQ(::read(ready[0], &got, 1), 1);
    ::close(ready[0]);
    has_it = got == 'y';
  }
  ~Holder() { end(); }
  void end() {
    if (child_ < 0) return;
    until_.reset();
    ::waitpid(child_, nullptr, 0);
    child_ = -1;
  }
  bool has_it = false;

 private:
  pid_t child_ = -1;
  Fd until_;
};

TEST(FileLock, IsOfOneProcessAtATimeAndEndsWithIt) {
  const Scratch scratch;
  auto lock = FileLock::open(scratch / "lock");
  ASSERT_TRUE(lock) << to_string(lock.error());
  struct stat made{};
  ASSERT_EQ(::stat((scratch / "lock").c_str(), &made), 0);
  EXPECT_EQ(made.st_mode & 0777, 0600u);
  {
    const Holder other(scratch / "lock");
    ASSERT_TRUE(other.has_it);
    EXPECT_EQ(lock->take(), Result<bool>(false));
    EXPECT_FALSE(lock->taken());
  }
  EXPECT_EQ(lock->take(), Result<bool>(true));
  EXPECT_FALSE(Holder(scratch / "lock").has_it);
  lock->free();
  EXPECT_TRUE(Holder(scratch / "lock").has_it);
}

TEST(FileLock, AWatchOfTheFolderSeesTheEndOfAProcessThatHadIt) {
  const Scratch scratch;
  auto loop = Loop::open();
  ASSERT_TRUE(loop);
  Holder holder(scratch / "lock");
  const auto watch = DirWatch::open(**loop, scratch.path(), [&](const std::string& name) {
    EXPECT_EQ(name, "lock");
    (*loop)->stop();
  });
  ASSERT_TRUE(watch);
  holder.end();
  EXPECT_TRUE(run_until_stopped(**loop));
}

TEST(FileLock, FollowsNoLink) {
  const Scratch scratch;
  ASSERT_EQ(::symlink("/dev/null", (scratch / "lock").c_str()), 0);
  EXPECT_FALSE(FileLock::open(scratch / "lock"));
}

}  // namespace file_lock_test
}  // namespace tranche::os
