#pragma once
// Test fixture: the endpoints of a pool, with the stand-in daemon behind them and stand-in tenants as clients. The test
// is the pool.
#include "mps/endpoints/endpoints.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <poll.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/version.h"
#include "os/socket/status_socket.h"
#include "run_until.h"
#include "standins/mps/handshake.h"
#include "standins/mps/mps_world.h"

namespace tranche::mps {
namespace endpoints_test {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::UnorderedElementsAre;
using Json = nlohmann::ordered_json;
namespace fs = std::filesystem;

inline const std::string kPool = "gpu-1";
inline const std::string kGrant = "0011223344556677";
inline const std::string kOtherGrant = "8899aabbccddeeff";

inline ino_t inode_of(const std::string& path) {
  struct stat status{};
  return ::lstat(path.c_str(), &status) == 0 ? status.st_ino : 0;
}

inline bool readable(int fd) {
  pollfd one{fd, POLLIN, 0};
  return ::poll(&one, 1, 0) > 0;
}

class EndpointsTest : public ::testing::Test, public EndpointsPool {
 protected:
  void SetUp() override {
    loop_ = *os::Loop::open();
    fs::create_directories(paths_.pipe(kPool));
  }
  void start_daemon() {
    fs::create_directories(paths_.pipe(kPool));
    world_.start_daemon({"-M"}, {{"CUDA_MPS_PIPE_DIRECTORY", paths_.pipe(kPool)}});
  }
  void make(config::EndpointPolicy policy = config::EndpointPolicy::kRelay) {
    endpoints_.reset();
    context_ = std::make_unique<EndpointsContext>(*loop_,
                                                  EndpointsSettings{.paths = paths_,
                                                                    .policy = policy,
                                                                    .former_clients = former_clients_,
                                                                    .dead_clients = dead_clients_,
                                                                    .remnants = remnants_},
                                                  [] {});
    auto made = Endpoints::open(*context_, kPool, *this);
    ASSERT_TRUE(made) << to_string(made.error());
    endpoints_ = *std::move(made);
  }
  void end_clients(const std::vector<int>& pids, std::function<void(const std::vector<Terminated>&)> done) override {
    asked_.push_back(pids);
    done_ = std::move(done);
  }
  void client_gone(int) override {}
  void server_doubted() override {}
  void set_next_limits(const std::optional<GrantLimits>&, RelayOwner::Prepared prepared) override { prepared({}); }
  Result<DaemonLimits> limits_for(const std::optional<GrantLimits>&) const override {
    return fail(Kind::kUnavailable, "the test has no daemon", kPool);
  }
  void open() {
    start_daemon();
    make();
    const auto opened = endpoints_->serve();
    ASSERT_TRUE(opened) << to_string(opened.error());
    EXPECT_TRUE(open_endpoint(kGrant));
  }
  bool open_endpoint(const std::string& grant) {
    return request(request_line(OpenEndpointRequest{{kPool, grant}})) == R"({"ok":true})";
  }
  // In place of tranche-keeper: holds each client until the test releases it.
  void start_keeper() {
    const auto answer = [this](const std::string&) {
      KeeperStatus status{.version = kVersion};
      for (const auto& process : held_) status.clients[process] = {HeldState::kHeld, 2};
      return Result<std::string>(to_json(status));
    };
    const auto hold = [this](const std::string& line, const os::StatusServer::Reply& reply) {
      const auto request = read_keeper_request(line);
      const auto* one = request ? std::get_if<HoldRequest>(&*request) : nullptr;
      if (one != nullptr && std::ranges::find(held_, one->process) == held_.end()) held_.push_back(one->process);
      reply(Result<std::string>(R"({"ok":true})"));
      keeper_->changed();
    };
    auto opened = os::StatusServer::open(*loop_, paths_.mps_root + "/keeper.sock", answer, {}, hold);
    ASSERT_TRUE(opened) << to_string(opened.error());
    keeper_ = *std::move(opened);
  }
  void release_all() {
    held_.clear();
    keeper_->changed();
  }
  bool is_held(int pid) {
    return until([&] { return context_->keeper.of(pid).state == Protection::State::kYes; });
  }
  bool keeps_memory() { return context_->keeper.keeps_memory(kPool + "/" + kGrant); }
  // A client that the keeper still holds.
  std::unique_ptr<sim::TestProcess> killed_client() {
    auto process = client_in();
    EXPECT_TRUE(is_held(process->pid()));
    process->signal(SIGKILL);
    EXPECT_TRUE(until([&] { return keeps_memory(); }));
    return process;
  }
  // A client that has exited, and whose channels its server still has.
  std::unique_ptr<sim::TestProcess> client_that_remains() {
    finds_server_ = false;
    auto process = client_in();
    EXPECT_TRUE(!keeper_ || is_held(process->pid()));
    log(LogWhat::kContextBegan, process->pid(), 1);
    process->signal(SIGKILL);
    EXPECT_TRUE(until([&] { return !document()["endpoints"][0]["remnants"].empty(); }));
    return process;
  }
  bool until(const std::function<bool()>& condition, Duration deadline = 60s) {
    return os::run_until(*loop_, condition, deadline);
  }
  // The reply, or "" if it does not arrive inside the call.
  std::string request(const std::string& line) {
    std::string answer;
    request(line, [&](const std::string& json) { answer = json; });
    return answer;
  }
  void request(const std::string& line, const Endpoints::Reply& reply) {
    const auto parsed = parse_mps_request(line);
    if (!parsed) return reply(error_reply(parsed.error()));
    endpoints_->answer(*parsed, reply);
  }
  Json document() {
    Json pool = Json::object();
    endpoints_->describe(pool);
    return pool;
  }
  std::unique_ptr<sim::TestProcess> client(const std::string& grant = kGrant) {
    return world_.start_client({"--hold"}, {{"CUDA_MPS_PIPE_DIRECTORY", paths_.endpoint(kPool, grant)}});
  }
  // A client that is admitted.
  std::unique_ptr<sim::TestProcess> client_in(const std::string& grant = kGrant) {
    auto process = client(grant);
    EXPECT_THAT(first_line(*process), HasSubstr("\"mps\":true"));
    return process;
  }
  std::string first_line(sim::TestProcess& process) {
    // The loop runs our side of the client's handshake.
    EXPECT_TRUE(until([&] { return process.says("\n") || process.ended_within(0ms); }));
    find_server();
    return process.line_with("{");
  }
  // As the pool's program learns of a server, from its log.
  void find_server() {
    const pid_t server = finds_server_ ? world_.server_process() : 0;
    if (server != 0) log(LogWhat::kClientTaken, 0, 0, server);
  }
  // As the pool reads it in the log of a server.
  void log(LogWhat what, int pid, int context, int server = 0) {
    LogLine line;
    line.what = what;
    line.writer = server;
    line.pid = pid;
    line.number = context;
    endpoints_->read_log(line);
  }
  static std::vector<Terminated> well(const std::vector<int>& pids) {
    std::vector<Terminated> outcomes;
    for (const int pid : pids) outcomes.push_back({pid, TerminateOutcome::kTerminated, ""});
    return outcomes;
  }

  sim::MpsWorld world_;
  grants::Paths paths_{world_.dir() + "/m"};
  Duration former_clients_ = EndpointsSettings{}.former_clients;
  Duration dead_clients_ = 1h;
  Duration remnants_ = 500ms;
  std::unique_ptr<os::Loop> loop_;
  std::vector<os::ProcessRef> held_;
  std::unique_ptr<os::StatusServer> keeper_;
  std::vector<std::vector<int>> asked_;
  std::function<void(const std::vector<Terminated>&)> done_;
  bool finds_server_ = true;
  std::unique_ptr<EndpointsContext> context_;
  std::unique_ptr<Endpoints> endpoints_;
};

}  // namespace endpoints_test
}  // namespace tranche::mps
