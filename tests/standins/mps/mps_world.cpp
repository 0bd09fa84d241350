#include "standins/mps/mps_world.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <utility>

namespace tranche::sim {
namespace {

using Clock = std::chrono::steady_clock;

std::string standins() {
  const char* build = std::getenv("TRANCHE_BUILD");
  return std::string(build == nullptr ? "." : build) + "/standins/";
}

int left_ms(Clock::time_point deadline) {
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
  return left < 0 ? 0 : static_cast<int>(left);
}

std::vector<char*> pointers(std::vector<std::string>& words) {
  std::vector<char*> out;
  for (auto& word : words) out.push_back(word.data());
  out.push_back(nullptr);
  return out;
}

}  // namespace

TestProcess::TestProcess(const Spawn& spawn) {
  int in[2] = {-1, -1}, out[2] = {-1, -1};
  if (::pipe2(in, O_CLOEXEC) != 0 || ::pipe2(out, O_CLOEXEC) != 0) std::abort();
  std::vector<std::string> argv = spawn.argv;
  const std::string program = standins() + argv[0];
  std::vector<std::string> env;
  for (const auto& [key, value] : spawn.env) env.push_back(key + "=" + value);
  ::signal(SIGPIPE, SIG_IGN);  // a child may exit during a write to it
  const auto argv_pointers = pointers(argv), env_pointers = pointers(env);
  pid_ = ::fork();
  if (pid_ == 0) {
    ::dup2(spawn.keep_stdin ? in[0] : ::open("/dev/null", O_RDONLY), STDIN_FILENO);
    ::dup2(out[1], STDOUT_FILENO);
    ::dup2(out[1], STDERR_FILENO);
    for (const int ignored : {SIGPIPE, SIGINT, SIGQUIT}) ::signal(ignored, SIG_DFL);  // a shell's "&" ignores these
    if (spawn.uid != static_cast<uid_t>(-1) && ::setuid(spawn.uid) != 0) ::_exit(126);
    ::execve(program.c_str(), argv_pointers.data(), env_pointers.data());
    ::_exit(127);
  }
  ::close(in[0]);
  ::close(out[1]);
  in_ = in[1];
  out_ = out[0];
}

TestProcess::~TestProcess() {
  close_stdin();
  if (!status_) {
    ::kill(pid_, SIGKILL);
    ::kill(pid_, SIGCONT);
    ::waitpid(pid_, nullptr, 0);
  }
  ::close(out_);
}

void TestProcess::say(const std::string& line) {
  const std::string whole = line + "\n";
  if (::write(in_, whole.data(), whole.size()) < 0) return;  // the test notices the missing answer
}

void TestProcess::close_stdin() {
  if (in_ >= 0) ::close(in_);
  in_ = -1;
}

void TestProcess::signal(int number) const {
  ::kill(pid_, number);
}

bool TestProcess::read_more(Clock::time_point deadline) {
  pollfd one{out_, POLLIN, 0};
  if (::poll(&one, 1, left_ms(deadline)) <= 0) return false;
  char chunk[4096];
  const auto got = ::read(out_, chunk, sizeof chunk);
  if (got <= 0) return false;
  output_.append(chunk, static_cast<std::size_t>(got));
  return true;
}

std::string TestProcess::line_with(const std::string& part) {
  const auto deadline = Clock::now() + kPatience;
  for (;;) {
    for (std::size_t end; (end = output_.find('\n')) != std::string::npos;) {
      const std::string line = output_.substr(0, end);
      output_.erase(0, end + 1);
      if (line.find(part) != std::string::npos) return line;
    }
    if (!read_more(deadline)) return "";
  }
}

std::string TestProcess::lines_until(const std::string& part) {
  const auto deadline = Clock::now() + kPatience;
  std::string lines;
  for (;;) {
    for (std::size_t end; (end = output_.find('\n')) != std::string::npos;) {
      const std::string line = output_.substr(0, end + 1);
      output_.erase(0, end + 1);
      lines += line;
      if (line.find(part) != std::string::npos) return lines;
    }
    if (!read_more(deadline)) return "";
  }
}

bool TestProcess::says(const std::string& part) {
  while (read_more(Clock::now())) {
  }
  return output_.find(part) != std::string::npos;
}

std::string TestProcess::rest() {
  const auto deadline = Clock::now() + kPatience;
  while (read_more(deadline)) {
  }
  return std::exchange(output_, {});
}

bool TestProcess::ended_within(std::chrono::milliseconds time) {
  if (status_) return true;
  const int watch = static_cast<int>(::syscall(SYS_pidfd_open, pid_, 0));
  pollfd one{watch, POLLIN, 0};
  const bool ended = ::poll(&one, 1, static_cast<int>(time.count())) > 0;
  ::close(watch);
  if (!ended) return false;
  int status = 0;
  ::waitpid(pid_, &status, 0);
  status_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return true;
}

int TestProcess::wait() {
  return ended_within(kPatience) ? *status_ : -1;
}

MpsWorld::MpsWorld(const std::string& node_yaml) : place_(node_yaml) {
  ::chmod(dir().c_str(), 0755);
  ::mkdir(pipe().c_str(), 0755);
  ::setenv("TRANCHE_SIM_PROFILES", (standins() + "profiles").c_str(), 1);
  place_.open();  // creates the state
}

void MpsWorld::make_endpoint() const {
  ::mkdir(endpoint().c_str(), 0755);
  ::unlink((endpoint() + "/control").c_str());
  if (::link((pipe() + "/control").c_str(), (endpoint() + "/control").c_str()) != 0) std::abort();
}

std::string MpsWorld::uuid(int gpu) const {
  return node()->gpus().at(static_cast<std::size_t>(gpu)).uuid;
}

std::map<std::string, std::string> MpsWorld::env() const {
  std::map<std::string, std::string> env{
      {kNodeVariable, dir()}, {"CUDA_MPS_PIPE_DIRECTORY", pipe()}, {"CUDA_MPS_LOG_DIRECTORY", dir() + "/log"}};
  for (const char* name : {"ASAN_OPTIONS", "UBSAN_OPTIONS", "LSAN_OPTIONS", "TSAN_OPTIONS"}) {
    if (const char* value = std::getenv(name)) env[name] = value;
  }
  return env;
}

TestProcess& MpsWorld::start_daemon(const std::vector<std::string>& options,
                                    const std::map<std::string, std::string>& more_env) {
  Spawn spawn{.argv = {"nvidia-cuda-mps-control", "-f"}, .env = env(), .keep_stdin = true};
  spawn.argv.insert(spawn.argv.end(), options.begin(), options.end());
  for (const auto& [key, value] : more_env) spawn.env[key] = value;
  daemon_ = std::make_unique<TestProcess>(spawn);
  daemon_->line_with("Starting control daemon");
  return *daemon_;
}

Reply MpsWorld::command(const std::string& lines, const std::string& pipe_directory, uid_t uid) {
  Spawn spawn{.argv = {"nvidia-cuda-mps-control"}, .env = env(), .keep_stdin = true, .uid = uid};
  if (!pipe_directory.empty()) spawn.env["CUDA_MPS_PIPE_DIRECTORY"] = pipe_directory;
  TestProcess process(spawn);
  process.say(lines);
  process.close_stdin();
  Reply reply;
  reply.text = process.rest();
  reply.status = process.wait();
  return reply;
}

pid_t MpsWorld::server_process() {
  if (!daemon_) return 0;
  const std::string daemon = std::to_string(daemon_->pid());
  std::ifstream children("/proc/" + daemon + "/task/" + daemon + "/children");
  pid_t server = 0;
  children >> server;
  return server;
}

pid_t MpsWorld::server() {
  return static_cast<pid_t>(std::atoi(ask("get_server_list").c_str()));
}

std::unique_ptr<TestProcess> MpsWorld::start_client(const std::vector<std::string>& options,
                                                    const std::map<std::string, std::string>& more_env, uid_t uid) {
  Spawn spawn{.argv = {"sim-cuda"}, .env = env(), .keep_stdin = true, .uid = uid};
  spawn.argv.insert(spawn.argv.end(), options.begin(), options.end());
  for (const auto& [key, value] : more_env) spawn.env[key] = value;
  return std::make_unique<TestProcess>(spawn);
}

MpsWorld::Client MpsWorld::client(const std::vector<std::string>& options,
                                  const std::map<std::string, std::string>& more_env, uid_t uid) {
  std::vector<std::string> all{"--stdin", "--hold"};
  all.insert(all.end(), options.begin(), options.end());
  Client client;
  client.process = start_client(all, more_env, uid);
  client.first = client.process->line_with("{");
  return client;
}

std::uint64_t number_in(const std::string& json_line, const std::string& key) {
  const auto at = json_line.find("\"" + key + "\":");
  return at == std::string::npos ? 0 : std::strtoull(json_line.c_str() + at + key.size() + 3, nullptr, 10);
}

std::uint64_t MpsWorld::Client::number(const std::string& key) const {
  return number_in(first, key);
}

std::string MpsWorld::Client::obey(const std::string& line, const std::string& answer) {
  process->say(line);
  return process->line_with("\"event\":\"" + answer + "\"");
}

}  // namespace tranche::sim
