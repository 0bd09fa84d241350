#pragma once
// Private to host/http: the head of a request as it arrives → what is asked for. Bytes of the network; pure.
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace tranche::host {

struct PageRequest {
  std::string method = {};
  std::string path = {};  // without the query
  int refused = 0;        // the status of the refusal, 400 or 431; 0 = a request
};

// Nothing while the head is not complete and shorter than `longest` bytes.
std::optional<PageRequest> read_http_request(std::string_view bytes, std::size_t longest);

}  // namespace tranche::host
