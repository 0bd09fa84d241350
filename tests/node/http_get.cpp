#include "node/http_get.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "os/loop/fd.h"

namespace tranche::e2e {

std::string http_get(const std::string& address, const std::string& path) {
  const os::Fd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in peer{};
  peer.sin_family = AF_INET;
  peer.sin_port = htons(static_cast<std::uint16_t>(std::stoi(address.substr(address.find(':') + 1))));
  peer.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::connect(fd.get(), reinterpret_cast<sockaddr*>(&peer), sizeof peer) != 0) return "no connection";
  const std::string request = "GET " + path + " HTTP/1.1\r\nHost: node\r\nConnection: close\r\n\r\n";
  if (::write(fd.get(), request.data(), request.size()) != static_cast<ssize_t>(request.size())) return "no request";
  std::string answer;
  for (char chunk[4096];;) {
    pollfd readable{fd.get(), POLLIN, 0};
    if (::poll(&readable, 1, 10'000) != 1) return "no answer in time";
    const ssize_t got = ::read(fd.get(), chunk, sizeof chunk);
    if (got <= 0) return answer;
    answer.append(chunk, static_cast<std::size_t>(got));
  }
}

std::string address_in(const std::string& log) {
  const std::string key = "\"event\":\"http.listening\",\"address\":\"";
  const auto at = log.find(key);
  if (at == std::string::npos) return {};
  const auto begin = at + key.size();
  return log.substr(begin, log.find('"', begin) - begin);
}

}  // namespace tranche::e2e
