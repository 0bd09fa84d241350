// Descriptors that tenants send: TCP connections with unsent bytes, whose release takes an hour (SO_LINGER), in which
// ctest ends a test.
#include "mps/relay/tenant_sockets.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <sys/resource.h>

#include <filesystem>
#include <memory>
#include <vector>

#include "mps/relay/connecting_fixture.h"
#include "mps/relay/relay_fixture.h"

namespace tranche::mps {
namespace {

constexpr auto kLinger = 1h;

// Its peer does not read, so the connection has bytes that cannot be sent.
class SlowToRelease {
 public:
  SlowToRelease() {
    const sim::Fd listening(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    auto* const at = reinterpret_cast<sockaddr*>(&address);
    EXPECT_EQ(::bind(listening.get(), at, size), 0);
    EXPECT_EQ(::listen(listening.get(), 1), 0);
    EXPECT_EQ(::getsockname(listening.get(), at, &size), 0);
    fd_ = sim::Fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    EXPECT_EQ(::connect(fd_.get(), at, size), 0);
    peer_ = sim::Fd(::accept4(listening.get(), nullptr, nullptr, SOCK_CLOEXEC));
    const std::string bytes(1 << 16, 'x');
    while (::send(fd_.get(), bytes.data(), bytes.size(), MSG_DONTWAIT) > 0) {
    }
    const linger how{1, static_cast<int>(kLinger / 1s)};
    EXPECT_EQ(::setsockopt(fd_.get(), SOL_SOCKET, SO_LINGER, &how, sizeof how), 0);
  }
  // Afterwards only the message has it.
  void send_by(const sim::Fd& socket, std::string_view bytes) {
    EXPECT_TRUE(sim::send_packet(socket.get(), bytes, fd_.get()));
    fd_.reset();
  }

 private:
  sim::Fd fd_, peer_;
};

class RelayWithSlowDescriptors : public RelayWithShortTimes {
 protected:
  void others_are_served() { EXPECT_TRUE(let_in(kOther).valid()); }
  SlowToRelease slow_;
};

// Promise: mps/relay: Descriptors that a tenant sends delay neither other tenants nor the program.
TEST_F(RelayWithSlowDescriptors, InAMessageToTheRelay) {
  const sim::Fd client = greeted(kOne);
  slow_.send_by(client, sim::kCredentials);
  EXPECT_EQ(next(client).bytes, "end");
  others_are_served();
  EXPECT_TRUE(let_in(kOne).valid()) << "its other clients are accepted, too";
}

TEST_F(RelayWithSlowDescriptors, BehindAMessageThatEndsTheConnection) {
  const sim::Fd client = greeted(kOne);
  ASSERT_TRUE(sim::send_packet(client.get(), "no such message"));
  slow_.send_by(client, "x");
  EXPECT_EQ(next(client).bytes, "end");
  others_are_served();
}

TEST_F(RelayWithSlowDescriptors, InTheExchangeWithTheServer) {
  const sim::Fd client = introduced(kOne);
  const sim::Packet packet = next(client);
  ASSERT_EQ(packet.bytes, sim::kDescriptor);
  slow_.send_by(packet.descriptor, sim::kCredentials);
  ASSERT_TRUE(until([&] { return relay_->counters(kOne).completed == 1; }));
  others_are_served();
}

TEST_F(RelayWithSlowDescriptors, OnAConnectionThatIsNotAcceptedWhenTheEndpointCloses) {
  const sim::Fd client = sim::connect_to(path(kOne) + "/control");
  slow_.send_by(client, "x");
  relay_->close_endpoint(kOne);
  others_are_served();
}

TEST_F(RelayWithSlowDescriptors, ThatWereNotAcceptedNeedFewOfOurs) {
  std::vector<std::unique_ptr<SlowToRelease>> slow;
  std::vector<sim::Fd> clients;
  for (int i = 0; i < 20; ++i) {
    slow.push_back(std::make_unique<SlowToRelease>());
    clients.push_back(sim::connect_to(path(kOne) + "/control"));
    slow.back()->send_by(clients.back(), "x");
  }
  const auto descriptors = [] {
    return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), std::filesystem::directory_iterator());
  };
  const auto before = descriptors();
  relay_->close_endpoint(kOne);
  EXPECT_LE(descriptors() - before, 2);
}

TEST_F(RelayWithSlowDescriptors, AtTheEndOfTheProgram) {
  const sim::Fd client = sim::connect_to(path(kOne) + "/control");
  slow_.send_by(client, "x");
  relay_.reset();
}

// Limits the signals that may wait for processes of this user to none: a container's root can use up what root has.
class WithoutWaitingSignals {
 public:
  WithoutWaitingSignals() {
    EXPECT_EQ(::getrlimit(RLIMIT_SIGPENDING, &before_), 0);
    const rlimit none{0, before_.rlim_max};
    EXPECT_EQ(::setrlimit(RLIMIT_SIGPENDING, &none), 0);
  }
  ~WithoutWaitingSignals() { ::setrlimit(RLIMIT_SIGPENDING, &before_); }
  WithoutWaitingSignals(const WithoutWaitingSignals&) = delete;
  WithoutWaitingSignals& operator=(const WithoutWaitingSignals&) = delete;

 private:
  rlimit before_{};
};

// Promise: mps/relay: What lies behind a descriptor whose release waits is released at once, whatever signals wait.
TEST_F(RelayWithSlowDescriptors, DoNotKeepWhatLiesBehindThem) {
  const WithoutWaitingSignals without_waiting_signals;
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
  const sim::Fd reads(ends[0]);
  sim::Fd writes(ends[1]);
  const sim::Fd first = sim::connect_to(path(kOne) + "/control"), second = sim::connect_to(path(kOne) + "/control");
  slow_.send_by(first, "x");
  EXPECT_TRUE(sim::send_packet(second.get(), "x", writes.get()));
  writes.reset();
  relay_->close_endpoint(kOne);
  char byte = 0;
  EXPECT_TRUE(until([&] { return ::read(reads.get(), &byte, 1) == 0; })) << "nothing has the other end";
}

TEST_F(RelayWithSlowDescriptors, DoNotKeepTheGrantsLaterConnectionsWaiting) {
  bounds_.handshakes_per_grant = 1;
  open_relay();
  const sim::Fd client = greeted(kOne);
  slow_.send_by(client, sim::kCredentials);
  EXPECT_EQ(next(client).bytes, "end");
  const sim::Fd again = sim::connect_to(path(kOne) + "/control");
  others_are_served();
  EXPECT_TRUE(until([&] { return readable(again.get()); }));
}

}  // namespace
}  // namespace tranche::mps
