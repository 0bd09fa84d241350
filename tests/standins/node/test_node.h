#pragma once
// A temporary simulated node for tests: a short directory under /tmp with node.yaml, removed at the end.
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <string>

#include "sim_node.h"

namespace tranche::sim {

class TestNode {
 public:
  explicit TestNode(const std::string& yaml) {
    char name[] = "/tmp/simXXXXXX";
    dir_ = mkdtemp(name);
    std::ofstream(dir_ + "/node.yaml") << yaml;
  }
  ~TestNode() {
    std::error_code ignored;
    std::filesystem::remove_all(dir_, ignored);
  }
  TestNode(const TestNode&) = delete;
  TestNode& operator=(const TestNode&) = delete;

  const std::string& dir() const { return dir_; }
  std::unique_ptr<Node> open() const { return *Node::open(dir_); }

 private:
  std::string dir_;
};

// Runs `body` in a child process that exits with its result; the parent gets the pid and reaps it with wait_status().
inline pid_t in_child(const std::function<int()>& body) {
  const pid_t pid = fork();
  if (pid == 0) _exit(body());
  return pid;
}
inline int wait_status(pid_t pid) {
  int status = -1;
  waitpid(pid, &status, 0);
  return status;
}

}  // namespace tranche::sim
