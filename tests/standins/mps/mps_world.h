#pragma once
// A simulated node with real processes on it, for tests: control daemons, commands, CUDA processes. Every wait has a
// deadline; nothing sleeps. The destructors kill and reap every started process.
#include <sys/types.h>

#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "standins/node/test_node.h"

namespace tranche::sim {

inline constexpr std::chrono::seconds kPatience{60};  // generous deadline of required events

struct Spawn {
  std::vector<std::string> argv;  // argv[0] is looked up in the build's standins folder
  std::map<std::string, std::string> env;
  bool keep_stdin = false;  // keeps a pipe to it; otherwise /dev/null
  uid_t uid = static_cast<uid_t>(-1);
};

// A child whose stdout (and stderr) the test reads.
class TestProcess {
 public:
  explicit TestProcess(const Spawn& spawn);
  ~TestProcess();
  TestProcess(const TestProcess&) = delete;
  TestProcess& operator=(const TestProcess&) = delete;

  pid_t pid() const { return pid_; }
  void say(const std::string& line);
  void close_stdin();
  void signal(int number) const;
  // The next line of output that contains `part`; "" if none arrived in time or the output ended.
  std::string line_with(const std::string& part);
  std::string lines_until(const std::string& part);  // all lines up to that one; "" as above
  bool says(const std::string& part);                // whether the output so far contains that; does not consume it
  std::string rest();                                // all output until it ends
  int wait();                                        // exit status, 128 + signal, or -1 after the deadline
  bool ended_within(std::chrono::milliseconds time);

 private:
  bool read_more(std::chrono::steady_clock::time_point deadline);

  pid_t pid_ = -1;
  int in_ = -1;
  int out_ = -1;
  std::string output_;
  std::optional<int> status_;
};

struct Reply {
  int status = 0;
  std::string text;
};

class MpsWorld {
 public:
  explicit MpsWorld(const std::string& node_yaml = "gpus: {profile: H200}\n");

  const std::string& dir() const { return place_.dir(); }
  std::string pipe() const { return dir() + "/pipe"; }
  std::string endpoint() const {
    return dir() + "/endpoint";
  }  // from make_endpoint(): contains only a hard link to `control`
  void make_endpoint() const;
  std::unique_ptr<Node> node() const { return place_.open(); }
  std::string uuid(int gpu = 0) const;

  std::map<std::string, std::string> env() const;  // of every process here

  // Starts `nvidia-cuda-mps-control -f …` and waits until it answers. Its log is its stdout.
  TestProcess& start_daemon(const std::vector<std::string>& options = {},
                            const std::map<std::string, std::string>& more_env = {});
  TestProcess& daemon() { return *daemon_; }

  Reply command(const std::string& lines, const std::string& pipe = "", uid_t uid = static_cast<uid_t>(-1));
  std::string ask(const std::string& line) { return command(line).text; }
  pid_t server();          // of get_server_list; 0 = none
  pid_t server_process();  // the same without a question to the daemon

  // sim-cuda --stdin with these options, after its first line ("attached" or "refused").
  struct Client {
    std::unique_ptr<TestProcess> process;
    std::string first;
    std::uint64_t number(const std::string& key) const;  // of the first line
    bool attached() const { return first.find("\"attached\"") != std::string::npos; }
    bool mps() const { return first.find("\"mps\":true") != std::string::npos; }
    std::string obey(const std::string& line, const std::string& answer);  // the answer's line
  };
  Client client(const std::vector<std::string>& options = {}, const std::map<std::string, std::string>& more_env = {},
                uid_t uid = static_cast<uid_t>(-1));
  // The same, without waiting for the first line.
  std::unique_ptr<TestProcess> start_client(const std::vector<std::string>& options,
                                            const std::map<std::string, std::string>& more_env = {},
                                            uid_t uid = static_cast<uid_t>(-1));

 private:
  TestNode place_;
  std::unique_ptr<TestProcess> daemon_;
};

std::uint64_t number_in(const std::string& json_line, const std::string& key);

}  // namespace tranche::sim
