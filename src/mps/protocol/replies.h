#pragma once
// Replies of `tranche mps` to requests (requests.h): one line of JSON, {"ok":true,…} or {"ok":false,"error":"…",…}.
// Pure; fuzzed.
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "mps/protocol/terminated.h"

namespace tranche::agent {

// To `terminate`.
struct EndReply {
  std::vector<mps::Terminated> clients = {};
  Duration took{};
};

std::string done_reply();
std::string error_reply(const Error& error);
std::string end_reply(const EndReply& reply);

// kUnavailable with the reply's text: the request was refused, or failed. kInvalid: the line is not a reply.
Status read_reply(std::string_view line);
Result<EndReply> read_end_reply(std::string_view line);

}  // namespace tranche::agent
