#pragma once
// Private to this stand-in: one HTTP/1.1 connection, blocking. Only the part of HTTP that an API client uses.
#include <optional>
#include <string>

#include "standins/kube/api_server.h"

namespace tranche::sim {

class Wire {
 public:
  explicit Wire(int fd) : fd_(fd) {}
  std::optional<ApiRequest> read_request();  // absent at the end of the connection
  bool write_answer(int status, const std::string& body);
  bool write_head();  // of a stream: chunks follow
  bool write_chunk(const std::string& bytes);
  bool write_last_chunk();
  bool closed() const;  // the peer has closed the connection

 private:
  bool fill();
  bool write(const std::string& bytes);
  int fd_;
  std::string arrived_;
};

std::string query_value(const std::string& query, const std::string& name);  // decoded

}  // namespace tranche::sim
