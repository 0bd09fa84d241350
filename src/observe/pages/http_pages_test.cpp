#include "observe/pages/http_pages.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>

#include "os/loop/fd.h"

namespace tranche::observe {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string get(std::uint16_t port, const std::string& path) {
  const os::Fd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) return "";
  const std::string request = "GET " + path + " HTTP/1.1\r\n\r\n";
  (void)!::write(fd.get(), request.data(), request.size());
  std::string answer;
  char buffer[4096];
  for (ssize_t got = 0; (got = ::read(fd.get(), buffer, sizeof buffer)) > 0;)
    answer.append(buffer, static_cast<std::size_t>(got));
  return answer;
}

// A port that was free a moment ago.
std::uint16_t free_port() {
  const auto server = os::HttpServer::open("127.0.0.1:0", {});
  return (*server)->port();
}

class HttpPagesTest : public ::testing::Test {
 protected:
  void run(Duration time) {
    loop_->after(time, [this] { loop_->stop(); });
    loop_->run();
  }

  std::unique_ptr<os::Loop> loop_ = *os::Loop::open();
  std::uint16_t port_ = free_port();
  std::string address_ = "127.0.0.1:" + std::to_string(port_);
  int changes_ = 0;
};

TEST_F(HttpPagesTest, HealthIsThatOfTheLoop) {
  HttpPages pages(*loop_, address_, {{"/metrics", [] { return os::HttpAnswer::metrics("a 1\n"); }}}, [] {}, 2500ms);
  ASSERT_TRUE(pages.open());
  run(10ms);
  EXPECT_THAT(get(port_, "/healthz"), HasSubstr("\r\n\r\nok\n"));
  EXPECT_THAT(get(port_, "/metrics"), HasSubstr("\r\n\r\na 1\n"));
  EXPECT_THAT(get(port_, "/metrics"), HasSubstr("\ntranche_log_lines_dropped_total 0\n"));
  // The loop does not run while this asks.
  std::string stuck;
  for (const auto begun = std::chrono::steady_clock::now();
       !stuck.starts_with("HTTP/1.1 503 ") && std::chrono::steady_clock::now() - begun < 60s;)
    stuck = get(port_, "/healthz");
  EXPECT_THAT(stuck, HasSubstr("the event loop has not run for "));
  run(10ms);  // with the beat that is due
  EXPECT_THAT(get(port_, "/healthz"), StartsWith("HTTP/1.1 200 "));
}

// Promise: pages: A port that is taken is reported until it is free.
TEST_F(HttpPagesTest, APortThatIsTakenIsAProblemUntilItIsFree) {
  auto other = os::HttpServer::open(address_, {});
  ASSERT_TRUE(other);
  HttpPages pages(*loop_, address_, {}, [this] {
    ++changes_;
    loop_->stop();
  });
  ASSERT_TRUE(pages.open()) << "no reason to end";
  EXPECT_THAT(pages.problem(), HasSubstr("another program has this port"));
  run(1100ms);  // it is tried again meanwhile, without an event
  EXPECT_EQ(changes_, 0);
  other->reset();
  loop_->run();
  EXPECT_EQ(changes_, 1);
  EXPECT_EQ(pages.problem(), "");
  EXPECT_THAT(get(port_, "/healthz"), StartsWith("HTTP/1.1 200 "));
}

TEST_F(HttpPagesTest, AnAddressThatIsNoneIsAMistake) {
  HttpPages pages(*loop_, "localhost", {}, [] {});
  const auto opened = pages.open();
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().kind, Kind::kInvalid);
}

}  // namespace
}  // namespace tranche::observe
