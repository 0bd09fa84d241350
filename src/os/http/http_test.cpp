#include "os/http/http.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <semaphore>
#include <thread>

#include "os/loop/fd.h"

namespace tranche::os {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

Fd connect_to_port(std::uint16_t port, const char* from = nullptr) {
  Fd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (from != nullptr) {
    sockaddr_in own{};
    own.sin_family = AF_INET;
    ::inet_pton(AF_INET, from, &own.sin_addr);
    EXPECT_EQ(::bind(fd.get(), reinterpret_cast<sockaddr*>(&own), sizeof own), 0);
  }
  const timeval limit{.tv_sec = 60, .tv_usec = 0};
  ::setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(::connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  return fd;
}

// Begins a request: the kernel reports a connection to the server with its first bytes.
Fd begun(std::uint16_t port, const char* from = nullptr) {
  auto fd = connect_to_port(port, from);
  EXPECT_EQ(::send(fd.get(), "G", 1, MSG_NOSIGNAL), 1);
  return fd;
}

// The server's whole answer to these bytes.
std::string talk(std::uint16_t port, const std::string& bytes) {
  const auto fd = connect_to_port(port);
  EXPECT_EQ(::send(fd.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL), static_cast<ssize_t>(bytes.size()));
  std::string answer;
  char buffer[4096];
  for (ssize_t got = 0; (got = ::recv(fd.get(), buffer, sizeof buffer, 0)) > 0;) {
    answer.append(buffer, static_cast<std::size_t>(got));
  }
  return answer;
}
std::string request(std::uint16_t port, const std::string& method, const std::string& path) {
  return talk(port, method + " " + path + " HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
}

HttpAnswer fine() {
  return {.body = "fine"};
}

std::unique_ptr<HttpServer> serve(HttpServer::Routes routes, HttpLimits limits = {}) {
  auto opened = HttpServer::open("127.0.0.1:0", std::move(routes), limits);
  EXPECT_TRUE(opened) << to_string(opened.error());
  return opened ? std::move(*opened) : nullptr;
}

TEST(Http, AnswersAGetOnARoute) {
  const auto server = serve({{"/metrics", [] { return HttpAnswer{.content_type = "text/x; v=1", .body = "a 1\n"}; }}});
  ASSERT_TRUE(server);
  EXPECT_NE(server->port(), 0);
  EXPECT_EQ(server->address(), "127.0.0.1:" + std::to_string(server->port()));
  const auto answer = request(server->port(), "GET", "/metrics");
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 200 OK\r\n"));
  EXPECT_THAT(answer, HasSubstr("Content-Type: text/x; v=1\r\n"));
  EXPECT_THAT(answer, HasSubstr("Content-Length: 4\r\n"));
  EXPECT_THAT(answer, EndsWith("\r\n\r\na 1\n"));
  EXPECT_THAT(request(server->port(), "GET", "/metrics?x=1"), StartsWith("HTTP/1.1 200"));
}

// Promise: pages: A local page answers requests for this machine's own names only: no other site reads it.
TEST(Http, ALocalPageIsForItsOwnNamesOnly) {
  auto opened = HttpServer::open("127.0.0.1:0", {{"/", fine}}, {.only_own_names = true});
  ASSERT_TRUE(opened);
  const auto asked_as = [&](const std::string& host) {
    return talk((*opened)->port(), "GET / HTTP/1.1\r\n" + host + "Connection: close\r\n\r\n");
  };
  for (const char* own :
       {"Host: localhost\r\n", "host:127.0.0.1:9480\r\n", "X: y\r\nHOST: [::1]:80 \r\n", "Host: [::1]\r\n"})
    EXPECT_THAT(asked_as(own), StartsWith("HTTP/1.1 200")) << own;
  for (const char* other : {"", "Host: attacker.example\r\n", "Host: 127.0.0.1.attacker.example:80\r\n",
                            "Host: 10.0.0.1\r\n", "Host: 127.0.0.x\r\n", "Host: localhost.attacker.example\r\n"})
    EXPECT_THAT(asked_as(other), StartsWith("HTTP/1.1 421")) << other;
}

TEST(Http, HeadGivesTheSameWithoutTheBody) {
  const auto server = serve({{"/", [] { return HttpAnswer{.body = "hello"}; }}});
  const auto answer = request(server->port(), "HEAD", "/");
  EXPECT_THAT(answer, HasSubstr("Content-Length: 5\r\n"));
  EXPECT_THAT(answer, EndsWith("\r\n\r\n"));
}

TEST(Http, TheStatusIsTheRoutes) {
  const auto server = serve({{"/readyz", [] { return HttpAnswer{.status = 503, .body = "no driver\n"}; }}});
  EXPECT_THAT(request(server->port(), "GET", "/readyz"), StartsWith("HTTP/1.1 503 Service Unavailable\r\n"));
}

TEST(Http, EachKindOfAnswerHasItsType) {
  const auto server = serve({{"/t", [] { return HttpAnswer::text("t"); }},
                             {"/j", [] { return HttpAnswer::json("{}"); }},
                             {"/h", [] { return HttpAnswer::html("<p>"); }},
                             {"/m", [] { return HttpAnswer::metrics("a 1\n"); }}});
  EXPECT_THAT(request(server->port(), "GET", "/t"), HasSubstr("Content-Type: text/plain; charset=utf-8\r\n"));
  EXPECT_THAT(request(server->port(), "GET", "/j"), HasSubstr("Content-Type: application/json\r\n"));
  EXPECT_THAT(request(server->port(), "GET", "/h"), HasSubstr("Content-Type: text/html; charset=utf-8\r\n"));
  EXPECT_THAT(request(server->port(), "GET", "/m"), HasSubstr("Content-Type: text/plain; version=0.0.4"));
}

TEST(Http, OtherMethodsAreRefused) {
  std::atomic<int> asked = 0;
  const auto server = serve({{"/", [&] {
                                ++asked;
                                return HttpAnswer{};
                              }}});
  for (const char* method : {"POST", "PUT", "DELETE", "OPTIONS"}) {
    const auto answer = request(server->port(), method, "/");
    EXPECT_THAT(answer, StartsWith("HTTP/1.1 405")) << method;
    EXPECT_THAT(answer, HasSubstr("Allow: GET, HEAD\r\n"));
  }
  EXPECT_EQ(asked, 0);
}

TEST(Http, AnUnknownPathListsTheKnownOnesAndServesNoFile) {
  const auto server = serve({{"/metrics", [] { return HttpAnswer{}; }}});
  for (const char* path :
       {"/", "/metrics/", "/etc/passwd", "/../etc/passwd", "/%2e%2e/etc/passwd", "/CMakeCache.txt"}) {
    const auto answer = request(server->port(), "GET", path);
    EXPECT_THAT(answer, Not(HasSubstr(" 200 "))) << path;
    EXPECT_THAT(answer, Not(HasSubstr("root:"))) << path;
  }
  EXPECT_THAT(request(server->port(), "GET", "/"), HasSubstr("/metrics\n"));
}

TEST(Http, ABrokenRequestDoesNotHurt) {
  const auto server = serve({{"/", fine}});
  (void)talk(server->port(), "\x16\x03\x01 nonsense\r\n\r\n");
  (void)talk(server->port(), "GET / HTTP/1.1\r\n" + std::string(100'000, 'a') + "\r\n\r\n");
  {
    const auto silent = connect_to_port(server->port());
  }
  EXPECT_THAT(request(server->port(), "GET", "/"), EndsWith("fine"));
}

// Promise: pages: Silent connections delay no request.
TEST(Http, ConnectionsThatSayNothingDelayNoRequest) {
  // Longer than the request waits for its answer: it cannot come after them.
  const auto server = serve({{"/", fine}}, {.head = std::chrono::hours(1)});
  std::vector<Fd> idle;
  for (int i = 0; i < 100; ++i) idle.push_back(connect_to_port(server->port()));
  for (int i = 0; i < 100; ++i) idle.push_back(begun(server->port()));
  EXPECT_THAT(request(server->port(), "GET", "/"), EndsWith("fine"));
}

TEST(Http, AConnectionThatSendsNoHeadIsClosedAfterASecond) {
  const auto server = serve({{"/", fine}});
  const auto start = std::chrono::steady_clock::now();
  const auto fd = begun(server->port());
  char byte = 0;
  EXPECT_EQ(::recv(fd.get(), &byte, 1, 0), 0);
  EXPECT_GE(std::chrono::steady_clock::now() - start, HttpLimits{}.head);
}

// Promise: pages: Clients that do not read delay no request.
TEST(Http, ClientsThatDoNotReadDelayNoRequest) {
  const std::string body(8 << 20, 'x');
  const auto server = serve({{"/big", [&] { return HttpAnswer{.body = body}; }}, {"/", fine}},
                            {.head = std::chrono::hours(1), .answer = std::chrono::hours(1)});
  std::vector<Fd> slow;
  const std::string get = "GET /big HTTP/1.1\r\n\r\n";
  for (int i = 0; i < 16; ++i) {
    slow.push_back(connect_to_port(server->port()));
    EXPECT_EQ(::send(slow.back().get(), get.data(), get.size(), MSG_NOSIGNAL), static_cast<ssize_t>(get.size()));
  }
  EXPECT_THAT(request(server->port(), "GET", "/"), EndsWith("fine"));
}

// Promise: pages: One peer has a bounded number of connections; the oldest closes first.
TEST(Http, OnePeerHoldsNoMoreThanItsConnectionsAndTheOldestGoFirst) {
  auto opened = HttpServer::open("127.0.0.1:0", {{"/", fine}}, {.of_one_peer = 3, .head = std::chrono::hours(1)});
  ASSERT_TRUE(opened) << to_string(opened.error());
  std::vector<Fd> idle;
  for (int i = 0; i < 5; ++i) idle.push_back(begun((*opened)->port()));
  char byte = 0;
  EXPECT_EQ(::recv(idle[0].get(), &byte, 1, 0), 0) << "closed for the fourth";
  EXPECT_EQ(::recv(idle[1].get(), &byte, 1, 0), 0) << "closed for the fifth";
  EXPECT_EQ(::recv(idle[2].get(), &byte, 1, MSG_DONTWAIT), -1);
  EXPECT_EQ(errno, EAGAIN);
  EXPECT_THAT(request((*opened)->port(), "GET", "/"), EndsWith("fine"));
}

TEST(Http, InTotalThePeerWithTheMostConnectionsLosesItsOldest) {
  auto opened = HttpServer::open("127.0.0.1:0", {}, {.connections = 4, .head = std::chrono::hours(1)});
  ASSERT_TRUE(opened) << to_string(opened.error());
  const Fd alone = begun((*opened)->port(), "127.0.0.2");
  std::vector<Fd> many;
  for (int i = 0; i < 6; ++i) many.push_back(begun((*opened)->port()));
  char byte = 0;
  EXPECT_EQ(::recv(many[2].get(), &byte, 1, 0), 0);
  EXPECT_EQ(::recv(alone.get(), &byte, 1, MSG_DONTWAIT), -1) << "the older connection of a peer that has one";
  EXPECT_EQ(::recv(many[5].get(), &byte, 1, MSG_DONTWAIT), -1);
}

TEST(Http, OfPeersWithAsManyConnectionsTheOldestConnectionGoes) {
  auto opened = HttpServer::open("127.0.0.1:0", {}, {.connections = 3, .head = std::chrono::hours(1)});
  ASSERT_TRUE(opened) << to_string(opened.error());
  const Fd oldest = begun((*opened)->port(), "127.0.0.3");
  const Fd second = begun((*opened)->port(), "127.0.0.1");
  const Fd third = begun((*opened)->port(), "127.0.0.2");
  const Fd newest = begun((*opened)->port(), "127.0.0.4");
  char byte = 0;
  EXPECT_EQ(::recv(oldest.get(), &byte, 1, 0), 0);
  for (const auto* other : {&second, &third, &newest}) EXPECT_EQ(::recv(other->get(), &byte, 1, MSG_DONTWAIT), -1);
}

TEST(Http, AHeadThatIsTooLongIsRefused) {
  const auto server = serve({});
  EXPECT_THAT(talk(server->port(), "GET / HTTP/1.1\r\n" + std::string(9000, 'a')), StartsWith("HTTP/1.1 431 "));
  EXPECT_THAT(talk(server->port(), "GET /\r\n\r\n"), StartsWith("HTTP/1.1 400 "));
}

TEST(Http, AnAnswerOfManyPiecesArrivesWhole) {
  LongText body;
  std::string whole;
  for (int i = 0; i < 200; ++i) {
    body += std::to_string(i);
    whole += std::to_string(i);
    const std::string more(i % 20 == 0 ? 300'000 : 5, 'x');
    body += LongText(more);
    whole += more;
  }
  const auto server = serve({{"/", [&] { return HttpAnswer{.body = body}; }}});
  ASSERT_TRUE(server);
  const auto answer = request(server->port(), "GET", "/");
  EXPECT_THAT(answer, HasSubstr("Content-Length: " + std::to_string(whole.size()) + "\r\n"));
  EXPECT_TRUE(answer.ends_with("\r\n\r\n" + whole));
}

TEST(Http, ManyClientsAtOnceGetWholeAnswers) {
  const std::string body(200'000, 'x');
  const auto server = serve({{"/", [&] { return HttpAnswer{.body = body}; }}});
  std::vector<std::thread> clients;
  std::atomic<int> whole = 0;
  for (int i = 0; i < 8; ++i) {
    clients.emplace_back([&] {
      for (int n = 0; n < 5; ++n) whole += request(server->port(), "GET", "/").ends_with("\r\n\r\n" + body) ? 1 : 0;
    });
  }
  for (auto& client : clients) client.join();
  EXPECT_EQ(whole, 40);
}

TEST(Http, ItRestsEachTimeItsLastReaderHasLeft) {
  std::counting_semaphore<> rests(0);
  const auto opened = HttpServer::open("127.0.0.1:0", {{"/", fine}}, {}, [&rests] { rests.release(); });
  ASSERT_TRUE(opened);
  for (int i = 0; i < 2; ++i) {
    EXPECT_THAT(request((*opened)->port(), "GET", "/"), EndsWith("fine"));
    EXPECT_TRUE(rests.try_acquire_for(std::chrono::seconds(60)));
  }
  EXPECT_FALSE(rests.try_acquire()) << "once for each reader";
}

TEST(Http, ATakenPortIsAConflict) {
  const auto first = serve({});
  const auto second = HttpServer::open(first->address(), {});
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().kind, Kind::kConflict) << to_string(second.error());
  EXPECT_EQ(second.error().where, first->address());
}

TEST(Http, EveryAddressIsServedWhenNoneIsNamed) {
  auto opened = HttpServer::open(":0", {{"/", [] { return HttpAnswer{.body = "hi"}; }}});
  ASSERT_TRUE(opened) << to_string(opened.error());
  EXPECT_THAT(request((*opened)->port(), "GET", "/"), EndsWith("hi"));
  EXPECT_EQ((*opened)->address(), ":" + std::to_string((*opened)->port()));
}

TEST(Http, StoppingAndStartingAgainOnTheSamePortWorks) {
  auto server = serve({{"/", [] { return HttpAnswer{.body = "one"}; }}});
  const auto address = server->address();
  (void)request(server->port(), "GET", "/");
  server.reset();
  auto again = HttpServer::open(address, {{"/", [] { return HttpAnswer{.body = "two"}; }}});
  ASSERT_TRUE(again) << to_string(again.error());
  EXPECT_THAT(request((*again)->port(), "GET", "/"), EndsWith("two"));
}

TEST(ListenAddressTest, IsReadAndWrittenBack) {
  for (const char* text : {"127.0.0.1:9400", "0.0.0.0:0", "[::1]:9400", "[::]:65535", ":9400"}) {
    const auto address = parse_listen_address(text);
    ASSERT_TRUE(address) << text;
    EXPECT_EQ(to_string(*address), text);
  }
  EXPECT_EQ(parse_listen_address("9400"), (ListenAddress{"", 9400}));
}

TEST(ListenAddressTest, NothingHidesBehindAZeroByte) {
  EXPECT_FALSE(parse_listen_address(std::string_view("[::1\0x]:9", 9)));
}

TEST(ListenAddressTest, AnythingElseIsRefusedWithAnExample) {
  for (const char* text : {"", ":", "localhost:9400", "127.0.0.1", "127.0.0.1:", "127.0.0.1:65536", "::1:9400", "[]:1",
                           "[127.0.0.1]:1", "1.2.3.4:-1", "1.2.3:1", "+9400", "9400s", "1.2.3.4:80,81"}) {
    const auto address = parse_listen_address(text);
    ASSERT_FALSE(address) << text;
    EXPECT_EQ(address.error().kind, Kind::kInvalid);
    EXPECT_THAT(to_string(address.error()), HasSubstr("127.0.0.1:9400"));
  }
}

}  // namespace
}  // namespace tranche::os
