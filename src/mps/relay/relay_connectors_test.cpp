// Connections whose connector has exited and that another process holds open: the kernel gives the connector's pid to
// an unrelated process (docs/guide/security.md).
#include "mps/relay/connecting_fixture.h"
#include "mps/relay/relay_fixture.h"

#include <signal.h>
#include <sys/wait.h>

namespace tranche::mps {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// A connection on which a process sent its messages and that has exited by now.
struct Planted {
  sim::Fd fd;
  pid_t connector = -1;
};

Planted plant_client(const std::string& path) {
  Planted planted{sim::Fd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0)), -1};
  planted.connector = ::fork();
  if (planted.connector == 0)
    ::_exit(os::connect_at(planted.fd.get(), path) == 0 && sim::introduce(planted.fd.get(), ConnectionType::kClient)
                ? 0
                : 1);
  siginfo_t how{};  // it is not reaped yet
  EXPECT_EQ(::waitid(P_PID, static_cast<id_t>(planted.connector), &how, WEXITED | WNOWAIT), 0);
  EXPECT_EQ(how.si_status, 0) << path;
  return planted;
}

// Not before Linux 6.5: there, the process that has the pid at the accept counts as the connector.
bool kernel_names_the_process() {
  int pair[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) return false;
  const sim::Fd one(pair[0]), other(pair[1]);
  int pidfd = -1;
  socklen_t size = sizeof pidfd;
  const bool named = ::getsockopt(one.get(), SOL_SOCKET, 77, &pidfd, &size) == 0;  // SO_PEERPIDFD
  const sim::Fd held(pidfd);
  return named;
}

// Promise: mps/relay: A connection of a process that has ended is refused.
TEST_F(RelayAtTheEndpoint, AConnectionOfAProcessThatHasEndedIsNobodys) {
  const Planted planted = plant_client(path(kOne) + "/control");  // not reaped yet
  EXPECT_EQ(next(planted.fd).bytes, sim::kHello);
  EXPECT_EQ(next(planted.fd).bytes, "end");
  ::waitpid(planted.connector, nullptr, 0);
  const Planted later = plant_client(path(kOne) + "/control");
  ::waitpid(later.connector, nullptr, 0);
  EXPECT_EQ(next(later.fd).bytes, sim::kHello);
  EXPECT_EQ(next(later.fd).bytes, "end");
  EXPECT_THAT(ends_, ElementsAre(RelayEnd::kAbandoned, RelayEnd::kAbandoned));
  EXPECT_EQ(relay_->counters(kOne).refused, 2u);
  EXPECT_TRUE(let_in(kOne).valid()) << "a client that lives";
}

// Promise: mps/relay: A process with the reused number of a dead connector is not the grant's client.
TEST_F(RelayAtTheEndpoint, WhoGotTheNumberOfADeadConnectorIsNotTheGrantsClient) {
  if (!kernel_names_the_process()) GTEST_SKIP() << "needs SO_PEERPIDFD";
  const Planted planted = plant_client(path(kOne) + "/control");
  ::waitpid(planted.connector, nullptr, 0);
  const Successor successor(planted.connector);
  if (!successor) GTEST_SKIP() << "needs root to choose a process's number";
  EXPECT_EQ(next(planted.fd).bytes, sim::kHello);
  EXPECT_EQ(next(planted.fd).bytes, "end");
  EXPECT_THAT(relay_->clients().of(kOne), IsEmpty());
  EXPECT_THAT(came_, IsEmpty());
  EXPECT_THAT(ends_, ElementsAre(RelayEnd::kAbandoned));
}

// It lived at its turn, and the daemon greets after its exit.
TEST_F(RelayAtTheEndpoint, WhoEndsBeforeTheDaemonGreetsIsNotIntroduced) {
  daemon_socket_ = world_.dir() + "/slow";
  open_relay();
  const sim::Fd listening = sim::listen_at(daemon_socket_, 0666);
  const sim::Fd fd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  const pid_t connector = ::fork();
  if (connector == 0) {
    if (os::connect_at(fd.get(), path(kOne) + "/control") != 0 || !sim::introduce(fd.get(), ConnectionType::kClient))
      ::_exit(1);
    for (;;) ::pause();
  }
  ASSERT_TRUE(until([&] { return readable(listening.get()); }));
  const sim::Fd accepted(::accept4(listening.get(), nullptr, nullptr, SOCK_CLOEXEC));
  ::kill(connector, SIGKILL);
  ::waitpid(connector, nullptr, 0);
  const Successor successor(connector);
  ASSERT_TRUE(sim::send_packet(accepted.get(), sim::kHello));
  EXPECT_EQ(next(accepted).bytes, "end") << "no client is introduced to the daemon";
  EXPECT_THAT(came_, IsEmpty());
  EXPECT_THAT(ends_, ElementsAre(RelayEnd::kAbandoned));
}

}  // namespace
}  // namespace tranche::mps
