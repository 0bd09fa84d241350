#include "standins/kube/http_wire.h"

#include <strings.h>
#include <sys/socket.h>

#include <cstdio>
#include <cstdlib>

namespace tranche::sim {
namespace {

std::string decoded(const std::string& text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '%' && i + 2 < text.size()) {
      out += static_cast<char>(std::strtol(text.substr(i + 1, 2).c_str(), nullptr, 16));
      i += 2;
    } else {
      out += text[i];
    }
  }
  return out;
}

std::string header(const std::string& head, const char* name) {
  for (std::size_t at = head.find("\r\n"); at != std::string::npos; at = head.find("\r\n", at + 2)) {
    const auto colon = head.find(':', at);
    if (colon == std::string::npos) break;
    if (::strncasecmp(head.c_str() + at + 2, name, colon - at - 2) != 0 || std::string(name).size() != colon - at - 2)
      continue;
    const auto from = head.find_first_not_of(' ', colon + 1);
    return head.substr(from, head.find("\r\n", from) - from);
  }
  return {};
}

}  // namespace

std::string query_value(const std::string& query, const std::string& name) {
  for (std::size_t at = 0; at < query.size();) {
    const auto end = std::min(query.find('&', at), query.size());
    const std::string piece = query.substr(at, end - at);
    if (piece.starts_with(name + "=")) return decoded(piece.substr(name.size() + 1));
    at = end + 1;
  }
  return {};
}

bool Wire::fill() {
  char buffer[4096];
  const auto got = ::recv(fd_, buffer, sizeof buffer, 0);
  if (got <= 0) return false;
  arrived_.append(buffer, static_cast<std::size_t>(got));
  return true;
}

std::optional<ApiRequest> Wire::read_request() {
  std::size_t end;
  while ((end = arrived_.find("\r\n\r\n")) == std::string::npos)
    if (!fill()) return std::nullopt;
  const std::string head = arrived_.substr(0, end + 2);
  const std::size_t length = std::strtoull(header(head, "Content-Length").c_str(), nullptr, 10);
  while (arrived_.size() < end + 4 + length)
    if (!fill()) return std::nullopt;
  ApiRequest request;
  const auto blank = head.find(' ');
  request.method = head.substr(0, blank);
  const std::string target = head.substr(blank + 1, head.find(' ', blank + 1) - blank - 1);
  const auto mark = std::min(target.find('?'), target.size());
  request.path = target.substr(0, mark);
  request.query = mark < target.size() ? target.substr(mark + 1) : "";
  request.agent = header(head, "User-Agent");
  request.content_type = header(head, "Content-Type");
  const std::string authorization = header(head, "Authorization");
  if (authorization.starts_with("Bearer ")) request.token = authorization.substr(7);
  request.body = arrived_.substr(end + 4, length);
  arrived_.erase(0, end + 4 + length);
  return request;
}

bool Wire::write(const std::string& bytes) {
  std::size_t sent = 0;
  while (sent < bytes.size()) {
    const auto count = ::send(fd_, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
    if (count <= 0) return false;
    sent += static_cast<std::size_t>(count);
  }
  return true;
}

bool Wire::write_answer(int status, const std::string& body) {
  return write("HTTP/1.1 " + std::to_string(status) + " Word\r\nContent-Type: application/json\r\nContent-Length: " +
               std::to_string(body.size()) + "\r\n\r\n" + body);
}

bool Wire::write_head() {
  return write("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n");
}

bool Wire::write_chunk(const std::string& bytes) {
  char size[32];
  std::snprintf(size, sizeof size, "%zx\r\n", bytes.size());
  return bytes.empty() || write(size + bytes + "\r\n");
}

bool Wire::write_last_chunk() {
  return write("0\r\n\r\n");
}

bool Wire::closed() const {
  char byte = 0;
  return ::recv(fd_, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0;
}

}  // namespace tranche::sim
