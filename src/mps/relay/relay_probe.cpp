#include <sys/epoll.h>

#include <utility>

#include "mps/relay/relay.h"
#include "mps/relay/relay_packet.h"
#include "os/loop/timer.h"

namespace tranche::host {
namespace {

// Hangs up after the first message: the daemon serves no other connection while this one is open.
class Probe final : public RelayProbe {
 public:
  Probe(Loop& loop, std::string socket, std::function<void(const Status&)> done)
      : loop_(loop), socket_(std::move(socket)), done_(std::move(done)) {}
  ~Probe() override { close(); }
  Probe(const Probe&) = delete;
  Probe& operator=(const Probe&) = delete;

  void begin(Duration deadline) {
    auto connected = connect_to_daemon(socket_);
    if (!connected) {
      return end_in(Duration::zero(), within(std::move(connected).error(), "the MPS daemon cannot be asked"));
    }
    fd_ = *std::move(connected);
    watch_ = loop_.watch(fd_.get(), EPOLLIN | EPOLLRDHUP, [this](std::uint32_t) { hear(); });
    end_in(deadline, Error{Kind::kTimeout, "the MPS daemon does not greet in time", socket_, 0});
  }

 private:
  void end_in(Duration delay, Error error) {
    timer_.start(delay, [this, error = std::move(error)] { finish(std::unexpected(error)); });
  }

  void hear() {
    RelayPacket packet;
    const auto arrival = receive_packet(fd_.get(), packet);
    if (arrival == Arrival::kNothing) return;
    if (arrival == Arrival::kEnd)
      return finish(fail(Kind::kUnavailable, "the MPS daemon hung up instead of greeting", socket_));
    if (packet.bytes == mps::kRelayHello && packet.descriptors.empty()) return finish({});
    finish(fail(Kind::kUnsupported, "the MPS daemon greets in words that this program does not know", socket_));
  }
  void close() {
    loop_.cancel(std::exchange(watch_, 0));
    timer_.stop();
    fd_.reset();
  }
  void finish(const Status& status) {
    const Status kept = status;
    const auto done = std::exchange(done_, {});
    close();
    if (done) done(kept);  // may destroy this
  }

  Loop& loop_;
  std::string socket_;
  std::function<void(const Status&)> done_;
  Fd fd_;
  Loop::Id watch_ = 0;
  Timer timer_{loop_};
};

}  // namespace

std::unique_ptr<RelayProbe> probe_daemon(Loop& loop, const std::string& socket, Duration deadline,
                                         std::function<void(const Status&)> done) {
  auto probe = std::make_unique<Probe>(loop, socket, std::move(done));
  probe->begin(deadline);
  return probe;
}

}  // namespace tranche::host
