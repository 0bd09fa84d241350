#pragma once
// Private to os/http: the head of a request as it arrives → what is asked for. Bytes of the network; pure.
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace tranche::host {

struct PageRequest {
  std::string method = {};
  std::string path = {};   // without the query
  std::string query = {};  // without the "?"
  std::string host = {};   // of the header, without the port; "" = none
  int refused = 0;         // the status of the refusal, 400 or 431; 0 = a request
};

// Nothing while the head is not complete and shorter than `longest` bytes.
std::optional<PageRequest> read_http_request(std::string_view bytes, std::size_t longest);

// Whether `host` can only be this machine, whatever a name server says: "localhost", 127.0.0.0/8, "[::1]".
bool is_own_name(std::string_view host);

}  // namespace tranche::host
