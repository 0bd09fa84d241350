#include "program.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
extern "C" {
#include <sys/pidfd.h>
}

#include <algorithm>
#include <array>
#include <charconv>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

namespace tranche::e2e {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void give_up(const char* what) {
  std::perror(what);
  std::abort();
}

std::vector<char*> pointers(const std::vector<std::string>& words) {
  std::vector<char*> list;
  for (const auto& word : words) list.push_back(const_cast<char*>(word.c_str()));
  list.push_back(nullptr);
  return list;
}

// Appends what is there. false: nothing will follow.
bool read_all(int fd, std::string* into) {
  for (;;) {
    std::array<char, 4096> chunk;
    const ssize_t got = ::read(fd, chunk.data(), chunk.size());
    if (got <= 0) return got < 0 && (errno == EAGAIN || errno == EINTR);
    into->append(chunk.data(), static_cast<std::size_t>(got));
  }
}

std::string file_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

std::unique_ptr<Program> Program::start(os::Loop& loop, std::vector<std::string> argv, const Environment& environment,
                                        std::function<void()> on_change) {
  std::unique_ptr<Program> program(new Program(loop));
  program->on_change_ = std::move(on_change);
  std::array<int, 2> out{};
  std::array<int, 2> err{};
  if (::pipe2(out.data(), O_CLOEXEC) != 0 || ::pipe2(err.data(), O_CLOEXEC) != 0) give_up("pipe2");
  std::vector<std::string> variables;
  for (const auto& [name, value] : environment) variables.push_back(name + "=" + value);
  const auto argv_pointers = pointers(argv);
  const auto environment_pointers = pointers(variables);
  std::array<int, 2> in{::open("/dev/null", O_RDONLY | O_CLOEXEC), -1};
  if (std::ranges::find(argv, "--stdin") != argv.end()) {
    ::close(in[0]);
    if (::pipe2(in.data(), O_CLOEXEC) != 0) give_up("pipe2");
  }
  sigset_t none;
  ::sigemptyset(&none);

  program->pid_ = ::_Fork();  // without the fork handlers of libraries
  if (program->pid_ < 0) give_up("_Fork");
  if (program->pid_ == 0) {  // only async-signal-safe calls: kubelet's double has threads
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::sigprocmask(SIG_SETMASK, &none, nullptr);
    ::dup2(in[0], 0);
    ::dup2(out[1], 1);
    ::dup2(err[1], 2);
    ::execve(argv_pointers[0], argv_pointers.data(), environment_pointers.data());
    ::_exit(127);
  }
  ::close(in[0]);
  ::close(out[1]);
  ::close(err[1]);
  program->in_end_ = os::Fd(in[1]);
  program->out_end_ = os::Fd(out[0]);
  program->err_end_ = os::Fd(err[0]);
  program->pidfd_ = os::Fd(::pidfd_open(program->pid_, 0));
  if (!program->pidfd_) give_up("pidfd_open");
  program->follow(out[0], &program->out_, &program->out_watch_);
  program->follow(err[0], &program->err_, &program->err_watch_);
  program->exit_watch_ = loop.watch(program->pidfd_.get(), EPOLLIN, [p = program.get()](std::uint32_t) { p->ended(); });
  return program;
}

void Program::follow(int fd, std::string* into, os::Loop::Id* watch) {
  ::fcntl(fd, F_SETFL, O_NONBLOCK);
  *watch = loop_.watch(fd, EPOLLIN, [this, fd, into, watch](std::uint32_t) {
    if (!read_all(fd, into)) loop_.cancel(std::exchange(*watch, 0));
    if (on_change_) on_change_();
  });
}

void Program::ended() {
  int status = 0;
  if (::waitpid(pid_, &status, 0) != pid_) give_up("waitpid");
  code_ = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  loop_.cancel(std::exchange(exit_watch_, 0));
  read_all(out_end_.get(), &out_);
  read_all(err_end_.get(), &err_);
  if (on_change_) on_change_();
}

void Program::signal(int number) const {
  if (running()) ::kill(pid_, number);
}

void Program::say(const std::string& line) const {
  const std::string text = line + '\n';
  if (::write(in_end_.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size())) give_up("write");
}

Program::~Program() {
  for (const auto watch : {exit_watch_, out_watch_, err_watch_}) loop_.cancel(watch);
  if (code_) return;
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
}

bool alive(pid_t pid) {
  const auto stat = file_text("/proc/" + std::to_string(pid) + "/stat");
  const auto paren = stat.rfind(") ");
  return paren != std::string::npos && stat[paren + 2] != 'Z' && stat[paren + 2] != 'X';
}

std::vector<pid_t> processes_marked(const std::string& mark) {
  std::vector<pid_t> found;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator("/proc", error)) {
    const auto name = entry.path().filename().string();
    pid_t pid = 0;
    if (std::from_chars(name.data(), name.data() + name.size(), pid).ec != std::errc{} || pid == ::getpid()) continue;
    if (file_text(entry.path().string() + "/environ").find(mark) != std::string::npos && alive(pid))
      found.push_back(pid);
  }
  return found;
}

void kill_marked(const std::string& mark) {
  for (auto pids = processes_marked(mark); !pids.empty(); pids = processes_marked(mark)) {
    for (const pid_t pid : pids) {
      const os::Fd process(::pidfd_open(pid, 0));
      if (!process) continue;
      ::kill(pid, SIGKILL);
      pollfd gone{process.get(), POLLIN, 0};
      ::poll(&gone, 1, 5000);
    }
  }
}

}  // namespace tranche::e2e
