#include "guard/mps_wire.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/json_read.h"
#include "base/json_text.h"

namespace tranche::guard {
namespace {

using Json = nlohmann::json;

constexpr std::int64_t kLongestWaitMs = 3'600'000;

std::optional<std::uint32_t> pid_of(const Json& value) {
  constexpr std::int64_t kMost = 0x7fffffff;
  const auto number = number_of(value);
  if (!number || *number <= 0 || *number > kMost) return std::nullopt;
  return static_cast<std::uint32_t>(*number);
}

void add_pid(const Json& object, std::set<std::uint32_t>& into, std::string_view key = "pid") {
  if (const auto pid = pid_of(member_at(object, key))) into.insert(*pid);
}

Result<Json> accepted(std::string_view line) {
  const Json reply = json_of(line);
  if (!reply.is_object()) return fail(Kind::kInvalid, "tranche mps answered with something that is not a JSON object");
  if (truth_at(reply, "ok")) return reply;
  const std::string why = text_at(reply, "error");
  return fail(Kind::kUnavailable, why.empty() ? "tranche mps did not say that it has done what it was asked" : why);
}

std::optional<mps::TerminateOutcome> outcome_of(std::string_view word) {
  using enum mps::TerminateOutcome;
  for (const auto outcome : {kTerminated, kNotAClient, kRefused, kTimedOut, kSpared})
    if (mps::to_string(outcome) == word) return outcome;
  return std::nullopt;
}

void read_endpoint(const Json& endpoint, PoolFacts& pool) {
  const std::string grant = text_at(endpoint, "grant");
  if (grant.empty()) return;
  for (const auto& client : list_at(endpoint, "clients"))
    if (const auto pid = pid_of(client)) pool.grant_of[*pid] = grant;
  const Json& admitting = member_at(endpoint, "admitting");
  if (!admitting.is_boolean()) return;
  const bool open = admitting.get<bool>();
  if (open || text_at(endpoint, "reason").starts_with(kOurReason)) pool.endpoints[grant] = open;
}

}  // namespace

std::string terminate_request(const std::string& pool, const std::vector<std::uint32_t>& pids,
                              const std::string& reason) {
  return json_in_ascii(Json{{"do", "terminate"}, {"pool", pool}, {"pids", pids}, {"reason", reason}});
}

std::string admit_request(const std::string& pool, const std::string& grant, bool open, const std::string& reason) {
  return json_in_ascii(Json{{"do", "admit"}, {"pool", pool}, {"grant", grant}, {"open", open}, {"reason", reason}});
}

Status read_reply(std::string_view line) {
  TRY([[maybe_unused]] const Json reply, accepted(line));
  return {};
}

Result<std::vector<mps::Terminated>> read_terminated(std::string_view line) {
  TRY(auto reply, read_end_reply(line));
  return std::move(reply.clients);
}

Result<EndReply> read_end_reply(std::string_view line) {
  TRY(const Json reply, accepted(line));
  EndReply read;
  read.neighbours = count_at(reply, "neighbours");
  for (const Json& client : list_at(reply, "clients")) {
    const auto pid = pid_of(member_at(client, "pid"));
    const auto outcome = outcome_of(text_at(client, "outcome"));
    if (!pid || !outcome) return fail(Kind::kInvalid, "tranche mps answered with a client without pid or outcome");
    mps::Terminated one{.pid = static_cast<int>(*pid), .outcome = *outcome, .note = text_at(client, "note")};
    const auto waited = number_at(client, "waitedMs").value_or(0);
    one.waited = std::chrono::milliseconds(std::clamp<std::int64_t>(waited, 0, kLongestWaitMs));
    read.clients.push_back(std::move(one));
  }
  return read;
}

std::map<std::string, PoolFacts> read_pool_facts(std::string_view line) {
  std::map<std::string, PoolFacts> pools;
  const Json document = json_of(line);
  for (const Json& entry : list_at(document, "pools")) {
    if (!entry.is_object()) continue;
    PoolFacts pool;
    pool.state = text_at(entry, "state");
    add_pid(document, pool.own);
    add_pid(entry, pool.own, "daemonPid");
    for (const Json& server : list_at(entry, "servers")) add_pid(server, pool.own);
    add_pid(member_at(entry, "proof"), pool.own);
    for (const Json& endpoint : list_at(entry, "endpoints")) read_endpoint(endpoint, pool);
    pools[text_at(entry, "id")] = std::move(pool);
  }
  return pools;
}

}  // namespace tranche::guard
