#pragma once
// The control socket of sim-kubelet: one command per line, one answer per line ("ok", or "error: …"), several commands
// per connection. "state" answers with the state's JSON on many lines and then "ok".
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "base/result.h"
#include "standins/kubelet/event_loop.h"

namespace tranche::sim {

class Control {
 public:
  using Answer = std::function<void(std::string text)>;  // may be called later; harmless if the connection has closed
  using Command = std::function<void(const std::string& line, Answer answer)>;

  static Result<std::unique_ptr<Control>> open(EventLoop& loop, const std::string& path, Command command);
  ~Control();
  Control(const Control&) = delete;
  Control& operator=(const Control&) = delete;

 private:
  Control(EventLoop& loop, std::string path, int fd, Command command);
  void accept();
  void read(std::uint64_t number);
  void answer(std::uint64_t number, const std::string& text);
  void close(std::uint64_t number);

  struct Connection {
    int fd = -1;
    std::string unread{};
  };
  EventLoop& loop_;
  std::string path_;
  int fd_;
  Command command_;
  std::uint64_t accepted_ = 0;
  std::map<std::uint64_t, Connection> connections_;
};

// The client, for people and scripts: sends one command and prints the answer. Exit status 0 if it was "ok".
int send_command(const std::string& path, const std::string& line);

}  // namespace tranche::sim
