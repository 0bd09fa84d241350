#pragma once
// A program that a test starts: its output is collected on the test's loop, its end is seen by pidfd, and it never
// outlives the test. Loop thread only.
#include <sys/types.h>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "os/loop/fd.h"
#include "os/loop/loop.h"

namespace tranche::e2e {

using Environment = std::map<std::string, std::string>;

class Program {
 public:
  // on_change runs as a turn after more output and after the end. Ends the test program when nothing can be started.
  static std::unique_ptr<Program> start(os::Loop& loop, std::vector<std::string> argv, const Environment& environment,
                                        std::function<void()> on_change);
  ~Program();  // kills it
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  pid_t pid() const { return pid_; }
  bool running() const { return !code_; }
  std::optional<int> code() const { return code_; }  // exit status, 128 + signal when a signal ended it
  const std::string& out() const { return out_; }
  const std::string& err() const { return err_; }
  void signal(int number) const;
  void say(const std::string& line) const;  // to the stdin of a program that was started with --stdin

 private:
  explicit Program(os::Loop& loop) : loop_(loop) {}
  void follow(int fd, std::string* into, os::Loop::Id* watch);
  void ended();

  os::Loop& loop_;
  pid_t pid_ = 0;
  os::Fd pidfd_, in_end_, out_end_, err_end_;
  os::Loop::Id exit_watch_ = 0, out_watch_ = 0, err_watch_ = 0;
  std::function<void()> on_change_;
  std::string out_, err_;
  std::optional<int> code_;
};

// Those whose environment contains `mark`, this process excepted; ended ones are not counted.
std::vector<pid_t> processes_marked(const std::string& mark);
void kill_marked(const std::string& mark);  // until there is none
bool alive(pid_t pid);                      // and has not ended

}  // namespace tranche::e2e
