#pragma once
// Replies of `tranche mps` to requests (requests.h): one line of JSON, {"ok":true,…} or {"ok":false,"error":"…",…}.
// Pure; fuzzed.
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "mps/pool/terminated.h"

namespace tranche::agent {

// To `terminate` and `drain`.
struct EndReply {
  std::vector<mps::Terminated> clients = {};
  // Clients of other grants in the pool at the time, which killing a client with work in flight would have hurt.
  std::size_t neighbours = 0;
  Duration took{};
  std::string problem = {};  // why the request failed; "" = it succeeded
};

std::string done_reply();
std::string error_reply(const Error& error);
std::string end_reply(const EndReply& reply);

// kUnavailable with the reply's text: the request was refused, or failed. kInvalid: the line is not a reply.
Status read_reply(std::string_view line);
Result<EndReply> read_end_reply(std::string_view line);

}  // namespace tranche::agent
