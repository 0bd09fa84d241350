#pragma once
// Test fixture: the relay between real sockets, with the stand-in daemon behind it and stand-in tenants as clients.
// Every wait is for an event, with a deadline.
#include <gmock/gmock.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <filesystem>
#include <optional>
#include <set>

#include "mps/relay/relay.h"
#include "run_until.h"
#include "standins/mps/handshake.h"
#include "standins/mps/mps_world.h"

namespace tranche::mps {

using namespace std::chrono_literals;
using sim::ConnectionType;

inline constexpr const char* kOne = "0011223344556677";
inline constexpr const char* kOther = "8899aabbccddeeff";

inline bool readable(int fd) {
  pollfd one{fd, POLLIN, 0};
  return ::poll(&one, 1, 0) > 0;
}

class RelayAtTheEndpoint : public ::testing::Test, public RelayOwner {
 protected:
  void SetUp() override {
    std::filesystem::permissions(world_.dir(), std::filesystem::perms(0755));
    loop_ = *os::Loop::open();
    world_.start_daemon({"-M"});
    open_relay();
  }
  void open_relay() {
    bounds_.daemon_socket = daemon_socket_.empty() ? world_.pipe() + "/control" : daemon_socket_;
    bounds_.times = times_;
    relay_ = std::make_unique<Relay>(*loop_, bounds_, *this);
    for (const char* grant : {kOne, kOther}) open_endpoint(grant);
    relay_->serve();
  }
  Refusal refuses(const std::string& grant, int) override { return {refusals_[grant]}; }
  void client_connects(const std::string& grant, int pid) override { came_.emplace_back(grant, pid); }
  void client_exited(int pid) override { gone_.push_back(pid); }
  void ended_badly(const std::string&, const Passage& passage) override { ends_.push_back(passage.end); }
  void not_as_client(const Error& why) override { not_itself_ = to_string(why); }
  void clients_changed() override {}
  void server_doubted() override { ++doubts_; }
  void prepare(const std::string& grant, const Prepared& done) override { prepare_(grant, done); }
  std::string answer(const std::string& grant, const RelayQuestion& question) override {
    return answer_to(question, {{{"GPU-a", mib(3840)}}, Percent::whole(grant == kOne ? 25 : 75)});
  }
  void look_at(const std::string& grant, int pid, const Looked& done) override { look_(grant, pid, done); }
  void store_clients(const std::string&) override {}
  std::optional<std::set<Channel>> open_pipes() override {
    const pid_t server = world_.server_process();
    std::set<Channel> open;
    return server != 0 && add_open_pipes(server, open) ? std::optional(std::move(open)) : std::nullopt;
  }
  std::string path(const std::string& grant) const { return world_.dir() + "/" + grant; }
  void open_endpoint(const std::string& grant) {
    const auto endpoint = os::Dir::create(path(grant), 0755);
    ASSERT_TRUE(endpoint);
    const auto opened = relay_->open_endpoint(grant, *endpoint);
    ASSERT_TRUE(opened) << to_string(opened.error());
  }

  bool until(const std::function<bool()>& condition, Duration deadline = 60s) {
    return os::run_until(*loop_, condition, deadline);
  }
  void turns(Duration time) {
    (void)until([] { return false; }, time);
  }

  // A client that the test plays message by message.
  sim::Packet next(const sim::Fd& fd) {
    sim::Packet packet;
    EXPECT_TRUE(until([&] { return readable(fd.get()); })) << "nothing comes";
    if (readable(fd.get()) && sim::receive_packet(fd.get(), &packet) != sim::Arrived::kPacket) packet.bytes = "end";
    return packet;
  }
  sim::Fd greeted(const std::string& grant) {
    sim::Fd fd = sim::connect_to(path(grant) + "/control");
    EXPECT_TRUE(fd.valid()) << grant;
    EXPECT_EQ(next(fd).bytes, sim::kHello);
    return fd;
  }
  sim::Fd introduced(const std::string& grant, ConnectionType type = ConnectionType::kClient) {
    sim::Fd fd = greeted(grant);
    EXPECT_TRUE(sim::introduce(fd.get(), type));
    return fd;
  }
  // Completes the exchange with the server; returns the channel to it.
  sim::Fd join(const sim::Fd& exchange) {
    sim::Fd channel;
    for (int i = 0; i <= sim::kServerDescriptors; ++i) {
      sim::Packet packet = next(exchange);
      EXPECT_EQ(packet.bytes, i < sim::kServerDescriptors ? sim::kDescriptor : sim::kServerGreeted);
      if (i + 1 == sim::kServerDescriptors) channel = std::move(packet.descriptor);
    }
    EXPECT_TRUE(sim::speak_to_server(exchange.get()));
    EXPECT_EQ(next(exchange).bytes, sim::kServerAnswer);
    return channel;
  }
  // Completes the handshake; returns the channel to the server.
  sim::Fd let_in(const std::string& grant) {
    const sim::Fd fd = introduced(grant);
    sim::Packet packet = next(fd);
    EXPECT_EQ(packet.bytes, sim::kDescriptor);
    sim::Fd channel = join(packet.descriptor);
    EXPECT_TRUE(sim::send_packet(fd.get(), sim::kAcknowledged));
    EXPECT_EQ(next(fd).bytes, "end");
    return channel;
  }
  std::unique_ptr<sim::TestProcess> start_client(const std::string& grant, uid_t uid = static_cast<uid_t>(-1)) {
    return world_.start_client({"--hold"}, {{"CUDA_MPS_PIPE_DIRECTORY", path(grant)}}, uid);
  }
  bool until_let_in(const std::string& grant, int pid) {
    return until([&] {
      const auto clients = relay_->clients().of(grant);
      // Its own connection, and that of its context: until then it needs the loop.
      return std::ranges::find(clients, pid) != clients.end() && relay_->counters(grant).let_in > 1;
    });
  }
  std::string command(const std::string& line, const std::string& pipe) {
    sim::TestProcess process({.argv = {"nvidia-cuda-mps-control", line},
                              .env = {{"CUDA_MPS_PIPE_DIRECTORY", pipe}, {sim::kNodeVariable, world_.dir()}}});
    EXPECT_TRUE(until([&] { return process.ended_within(0ms); }));
    return process.rest();
  }

  sim::MpsWorld world_;
  RelayTimes times_;
  RelaySettings bounds_;
  std::map<std::string, std::string> refusals_;
  std::vector<std::pair<std::string, int>> came_;
  std::vector<int> gone_;
  std::vector<RelayEnd> ends_;
  int doubts_ = 0;
  std::string not_itself_;
  std::function<void(const std::string&, const Prepared&)> prepare_ = [](const auto&, const auto& done) { done({}); };
  std::function<void(const std::string&, int, Looked)> look_ = [](const auto&, int, const auto& done) { done(""); };
  std::string daemon_socket_;  // "" = that of world_
  std::unique_ptr<os::Loop> loop_;
  std::unique_ptr<Relay> relay_;
};

class RelayWithShortTimes : public RelayAtTheEndpoint {
 protected:
  RelayWithShortTimes() {
    times_.words = 1s;
    times_.alone = 1s;
    times_.turn = 3s;
    times_.greeting = 3s;
  }
};

}  // namespace tranche::mps
