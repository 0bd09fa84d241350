#pragma once
// Private to os/http: parses the head of a request. Input from the network; pure.
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace tranche::os {

struct PageRequest {
  std::string method = {};
  std::string path = {};   // without the query
  std::string query = {};  // without the "?"
  std::string host = {};   // from the Host header, without the port; "" = none
  int refused = 0;         // status of the refusal, 400 or 431; 0 = a valid request
};

// Absent while the head is incomplete and shorter than `longest` bytes.
std::optional<PageRequest> read_http_request(std::string_view bytes, std::size_t longest);

// Whether `host` is always this machine, whatever a name server answers: "localhost", 127.0.0.0/8, "[::1]".
bool is_own_name(std::string_view host);

}  // namespace tranche::os
