#pragma once
// A process with descriptors of terminals in place of NVIDIA's devices: real character devices, whose other side hears
// of the last close.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <string>
#include <utility>
#include <vector>

#include "headless_process.h"
#include "os/loop/fd.h"
#include "os/process/process.h"

namespace tranche::mps {

inline const std::string kTerminalsAreUvm =
    "Character devices:\n  1 mem\n136 nvidia-uvm\n\nBlock devices:\n136 nvidia\n";

class HoldsDevices {
 public:
  explicit HoldsDevices(std::size_t files) {
    int orders[2];
    int answers[2];
    EXPECT_EQ(::pipe2(orders, O_CLOEXEC), 0);
    EXPECT_EQ(::pipe2(answers, O_CLOEXEC), 0);
    orders_ = os::Fd(orders[1]);
    answers_ = os::Fd(answers[0]);
    os::Fd read_orders(orders[0]);
    os::Fd write_answers(answers[1]);
    pid_ = ::fork();
    if (pid_ == 0) obey(read_orders.get(), write_answers.get());
    for (std::size_t i = 0; i < files; ++i) open_one();
  }
  ~HoldsDevices() {
    if (pid_ > 0) die();
  }
  HoldsDevices(const HoldsDevices&) = delete;
  HoldsDevices& operator=(const HoldsDevices&) = delete;

  void open_one() {
    os::Fd other_side(::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC));
    EXPECT_EQ(::grantpt(other_side.get()), 0);
    EXPECT_EQ(::unlockpt(other_side.get()), 0);
    order('o', ::ptsname(other_side.get()));
    other_sides_.push_back(std::move(other_side));
  }
  void close_all() { order('c', ""); }
  // From now on the last one is, in turn, the device and our pipe, until the process dies.
  void exchange_last() { order('x', ""); }
  // Whether a process has the other end of that pipe.
  bool has_pipe() const {
    pollfd hung_up{answers_.get(), 0, 0};
    return ::poll(&hung_up, 1, 0) == 0;
  }
  void start_thread(bool with_files_of_its_own) { order(with_files_of_its_own ? 'u' : 't', ""); }
  void open_others(int count) { order('d', std::to_string(count)); }  // of no device
  void exit_first_thread() { order('h', ""); }
  void die() {
    ::kill(pid_, SIGKILL);
    ::waitpid(std::exchange(pid_, 0), nullptr, 0);
  }

  pid_t pid() const { return pid_; }
  os::ProcessRef ref() const { return *os::process_ref(pid_); }
  os::Fd pidfd() const { return *os::open_pidfd(pid_); }
  int other_side(std::size_t file) const { return other_sides_[file].get(); }
  // Files that no process has open.
  std::size_t closed() const {
    std::size_t count = 0;
    for (const auto& side : other_sides_) {
      pollfd hung_up{side.get(), 0, 0};
      count += ::poll(&hung_up, 1, 0) == 1 ? 1 : 0;
    }
    return count;
  }

 private:
  void order(char what, const std::string& path) {
    char text[64] = {what};
    path.copy(text + 1, sizeof text - 2);
    EXPECT_EQ(::write(orders_.get(), text, sizeof text), static_cast<ssize_t>(sizeof text));
    char done = 0;
    EXPECT_EQ(::read(answers_.get(), &done, 1), 1);
    EXPECT_EQ(done, 'y');
  }
  [[noreturn]] static void obey(int orders, int answers) {
    char text[64];
    static std::vector<int> files;
    while (::read(orders, text, sizeof text) == static_cast<ssize_t>(sizeof text)) {
      bool done = true;
      if (text[0] == 'o') {
        files.push_back(::open(text + 1, O_RDWR | O_NOCTTY | O_CLOEXEC));
        done = files.back() >= 0;
      } else if (text[0] == 'h') {
        test::exit_first_thread([orders, answers] {
          (void)!::write(answers, "y", 1);
          obey(orders, answers);
        });
      } else if (text[0] == 'd') {
        rlimit many{};
        ::getrlimit(RLIMIT_NOFILE, &many);
        many.rlim_cur = many.rlim_max;
        ::setrlimit(RLIMIT_NOFILE, &many);
        for (int i = 0; i < ::atoi(text + 1); ++i) done = ::dup(orders) >= 0 && done;
      } else if (text[0] == 'u' || text[0] == 't') {
        static bool own = false;
        static std::atomic<bool> runs;
        own = text[0] == 'u';
        runs = false;
        pthread_t thread{};
        const auto run = [](void*) -> void* {
          if (own) ::unshare(CLONE_FILES);
          for (runs = true;;) ::pause();
        };
        done = ::pthread_create(&thread, nullptr, run, nullptr) == 0;
        while (done && !runs) ::sched_yield();
      } else if (text[0] == 'x') {
        (void)!::write(answers, "y", 1);
        for (const int device = ::dup(files.back());;) {
          ::dup2(answers, files.back());
          ::dup2(device, files.back());
        }
      } else {
        for (const int file : std::exchange(files, {})) ::close(file);
      }
      (void)!::write(answers, done ? "y" : "n", 1);
    }
    ::_exit(0);
  }

  pid_t pid_ = 0;
  os::Fd orders_;
  os::Fd answers_;
  std::vector<os::Fd> other_sides_;
};

}  // namespace tranche::mps
