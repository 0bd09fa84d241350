// CivetWeb by its C interface. It knows our routes through one callback, asked before anything else it could do.
#include "host/http/http.h"

#include <arpa/inet.h>
#include <civetweb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <string_view>
#include <thread>
#include <vector>

#include "host/http/listen_address.h"
#include "host/loop/fd.h"

namespace tranche::host {
namespace {

const char* reason_of(int status) {
  switch (status) {
    case 200:
      return "OK";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 500:
      return "Internal Server Error";
    case 503:
      return "Service Unavailable";
    default:
      return "Status";
  }
}

void send_answer(mg_connection* connection, const HttpAnswer& answer, bool with_body, std::string_view extra) {
  std::string head = "HTTP/1.1 " + std::to_string(answer.status) + " " + reason_of(answer.status) + "\r\n";
  head += "Content-Type: " + answer.content_type + "\r\n";
  head += "Content-Length: " + std::to_string(answer.body.size()) + "\r\n";
  head += "Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\nConnection: close\r\n";
  head.append(extra).append("\r\n");
  // A client that went away is its own affair.
  ::mg_write(connection, head.data(), head.size());
  if (with_body) ::mg_write(connection, answer.body.data(), answer.body.size());
}

// Opens a connection to ourselves and drops it. Does not wait.
void knock(const ListenAddress& address) {
  sockaddr_in6 v6{};
  v6.sin6_family = AF_INET6;
  v6.sin6_port = htons(address.port);
  sockaddr_in v4{};
  v4.sin_family = AF_INET;
  v4.sin_port = htons(address.port);
  v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);  // when every address is listened on
  const bool is_v6 = ::inet_pton(AF_INET6, address.host.c_str(), &v6.sin6_addr) == 1;
  if (!is_v6 && !address.host.empty()) ::inet_pton(AF_INET, address.host.c_str(), &v4.sin_addr);
  const Fd fd(::socket(is_v6 ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (is_v6) {
    ::connect(fd.get(), reinterpret_cast<const sockaddr*>(&v6), sizeof v6);
  } else {
    ::connect(fd.get(), reinterpret_cast<const sockaddr*>(&v4), sizeof v4);
  }
}

class CivetServer final : public HttpServer {
 public:
  CivetServer(ListenAddress address, Routes routes) : address_(std::move(address)), routes_(std::move(routes)) {
    ::mg_init_library(MG_FEATURES_DEFAULT);
  }
  ~CivetServer() override {
    if (context_ != nullptr) stop();
    ::mg_exit_library();
  }
  CivetServer(const CivetServer&) = delete;
  CivetServer& operator=(const CivetServer&) = delete;

  Status start();
  std::uint16_t port() const override { return address_.port; }
  std::string address() const override { return to_string(address_); }

 private:
  bool start_on(const std::string& port_option);
  void stop();
  int answer(mg_connection* connection) const;
  void remember(const char* message);
  Error why_not() const;

  ListenAddress address_;
  Routes routes_;
  mg_context* context_ = nullptr;
  mutable std::mutex mutex_;
  std::vector<std::string> messages_;  // what the library said while it started
};

Status CivetServer::start() {
  const std::string port = std::to_string(address_.port);
  bool started = false;
  if (address_.host.empty()) {
    started = start_on("+" + port) || start_on(port);  // both families, or IPv4 alone where the kernel has no IPv6
  } else {
    started = start_on(to_string(address_));
  }
  if (!started) return std::unexpected(why_not());
  std::array<mg_server_port, 4> ports{};
  const int count = ::mg_get_server_ports(context_, static_cast<int>(ports.size()), ports.data());
  if (count < 1) return fail(Kind::kUnavailable, "cannot learn the port of the HTTP server", to_string(address_));
  address_.port = static_cast<std::uint16_t>(ports[0].port);
  return {};
}

bool CivetServer::start_on(const std::string& port_option) {
  const char* options[] = {"listening_ports",
                           port_option.c_str(),
                           "num_threads",
                           "2",
                           "request_timeout_ms",
                           "5000",
                           "enable_keep_alive",
                           "no",
                           "decode_url",
                           "yes",
                           "enable_directory_listing",
                           "no",
                           nullptr};
  mg_callbacks callbacks{};
  callbacks.begin_request = [](mg_connection* connection) {
    const auto* self = static_cast<const CivetServer*>(::mg_get_request_info(connection)->user_data);
    return self->answer(connection);
  };
  // Everything is kept from the standard error stream, which belongs to our log.
  callbacks.log_message = [](const mg_connection* connection, const char* message) {
    if (const auto* context = ::mg_get_context(connection)) {
      static_cast<CivetServer*>(::mg_get_user_data(context))->remember(message);
    }
    return 1;
  };
  char text[256] = "";
  unsigned code = 0;
  mg_error_data error{.code = &code, .text = text, .text_buffer_size = sizeof text};
  mg_init_data init{.callbacks = &callbacks, .user_data = this, .configuration_options = options};
  context_ = ::mg_start2(&init, &error);
  if (context_ == nullptr) remember(text);
  return context_ != nullptr;
}

// mg_stop() waits for the library's listening thread, which looks up from poll() every two seconds only. A connection
// wakes it; one that comes before it was told to stop is not enough, hence again until it has stopped.
void CivetServer::stop() {
  constexpr auto kBetween = std::chrono::milliseconds(5);
  std::mutex mutex;
  std::condition_variable changed;
  bool stopped = false;
  std::thread stopping([&] {
    ::mg_stop(context_);
    const std::lock_guard lock(mutex);
    stopped = true;
    changed.notify_one();
  });
  std::unique_lock lock(mutex);
  while (!changed.wait_for(lock, kBetween, [&] { return stopped; })) {
    lock.unlock();
    knock(address_);
    lock.lock();
  }
  lock.unlock();
  stopping.join();
}

void CivetServer::remember(const char* message) {
  constexpr std::size_t kMost = 8;
  const std::lock_guard lock(mutex_);
  if (message != nullptr && *message != '\0' && messages_.size() < kMost) messages_.emplace_back(message);
}

Error CivetServer::why_not() const {
  const std::lock_guard lock(mutex_);
  Error error{Kind::kUnavailable, "cannot listen for HTTP", to_string(address_), 0};
  for (const auto& message : messages_) {
    // The library gives text, not numbers; the words are strerror's.
    if (message.find(std::strerror(EADDRINUSE)) != std::string::npos) {
      error.kind = Kind::kConflict;
      error.what = "cannot listen for HTTP: another program has this port; choose another or 0 for any";
      error.code = EADDRINUSE;
      return error;
    }
    if (message.find(std::strerror(EACCES)) != std::string::npos) error.kind = Kind::kDenied;
  }
  for (const auto& message : messages_) error.what += ": " + message;
  return error;
}

int CivetServer::answer(mg_connection* connection) const {
  const auto* request = ::mg_get_request_info(connection);
  const std::string_view method = request->request_method != nullptr ? request->request_method : "";
  const std::string path = request->local_uri != nullptr ? request->local_uri : "";
  const bool get = method == "GET";
  if (!get && method != "HEAD") {
    send_answer(connection, {.status = 405, .body = "only GET and HEAD\n"}, true, "Allow: GET, HEAD\r\n");
    return 405;
  }
  const auto route = routes_.find(path);
  if (route == routes_.end()) {
    HttpAnswer missing{.status = 404, .body = "there is no such page; there are:\n"};
    for (const auto& [known, turn] : routes_) missing.body += known + "\n";
    send_answer(connection, missing, get, "");
    return 404;
  }
  const HttpAnswer given = route->second();
  send_answer(connection, given, get, "");
  return given.status;
}

}  // namespace

Result<std::unique_ptr<HttpServer>> HttpServer::open(const std::string& listen, Routes routes) {
  TRY(auto address, parse_listen_address(listen));
  auto server = std::make_unique<CivetServer>(std::move(address), std::move(routes));
  TRY_STATUS(server->start());
  return server;
}

}  // namespace tranche::host
