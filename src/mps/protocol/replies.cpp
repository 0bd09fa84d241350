#include "mps/protocol/replies.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/json_read.h"
#include "base/json_text.h"

namespace tranche::mps {
namespace {

constexpr std::int64_t kLongestWaitMs = 3'600'000;

Result<nlohmann::json> accepted(std::string_view line) {
  auto reply = json_of(line);
  if (truth_at(reply, "ok")) return reply;
  if (const auto error = text_at(reply, "error"); !error.empty())
    return fail(Kind::kUnavailable, "tranche mps: " + error);
  return fail(Kind::kInvalid,
              "tranche mps sent an unrecognized reply; are tranche node and tranche mps the same version?");
}

}  // namespace

std::string done_reply() {
  return R"({"ok":true})";
}

std::string error_reply(const Error& error) {
  const nlohmann::ordered_json reply{{"ok", false}, {"error", to_string(error)}};
  return json_text(reply);
}

std::string end_reply(const EndReply& reply) {
  auto clients = nlohmann::ordered_json::array();
  for (const auto& client : reply.clients)
    clients.push_back({{"pid", client.pid},
                       {"outcome", to_string(client.outcome)},
                       {"note", client.note},
                       {"waitedMs", client.waited.count()}});
  const nlohmann::ordered_json json{
      {"ok", true}, {"clients", std::move(clients)}, {"tookMs", milliseconds_of(reply.took)}};
  return json_text(json);
}

Status read_reply(std::string_view line) {
  TRY([[maybe_unused]] const auto reply, accepted(line));
  return {};
}

Result<EndReply> read_end_reply(std::string_view line) {
  TRY(const auto reply, accepted(line));
  EndReply read{.clients = {}, .took = std::chrono::milliseconds(count_at(reply, "tookMs"))};
  for (const auto& client : list_at(reply, "clients")) {
    const auto pid = number_at(client, "pid").value_or(0);
    const auto outcome = enum_of<TerminateOutcome>(text_at(client, "outcome"));
    if (pid <= 0 || pid > std::numeric_limits<int>::max() || !outcome)
      return fail(Kind::kInvalid, "tranche mps sent a reply that has a client without pid or outcome");
    const auto waited = number_at(client, "waitedMs").value_or(0);
    read.clients.push_back({static_cast<int>(pid), *outcome, text_at(client, "note"),
                            std::chrono::milliseconds(std::clamp<std::int64_t>(waited, 0, kLongestWaitMs))});
  }
  return read;
}

}  // namespace tranche::mps
