#include "guard/mps_wire.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/json_text.h"

namespace tranche::guard {
namespace {

using Json = nlohmann::json;

constexpr std::int64_t kLongestWaitMs = 3'600'000;

std::string text_at(const Json& object, const char* key) {
  const auto it = object.find(key);
  return it != object.end() && it->is_string() ? it->get<std::string>() : std::string();
}

std::optional<std::uint32_t> pid_of(const Json& value) {
  constexpr std::int64_t kMost = 0x7fffffff;
  if (!value.is_number_integer()) return std::nullopt;
  const auto number = value.get<std::int64_t>();
  if (number <= 0 || number > kMost) return std::nullopt;
  return static_cast<std::uint32_t>(number);
}

void add_pid(const Json& object, const char* key, std::set<std::uint32_t>& into) {
  if (const auto it = object.find(key); it != object.end()) {
    if (const auto pid = pid_of(*it)) into.insert(*pid);
  }
}

std::vector<Json> objects_at(const Json& object, const char* key) {
  std::vector<Json> found;
  const auto it = object.find(key);
  if (it == object.end() || !it->is_array()) return found;
  for (const auto& entry : *it)
    if (entry.is_object()) found.push_back(entry);
  return found;
}

Json parsed(std::string_view line) {
  return json_of(line);
}

Result<Json> accepted(std::string_view line) {
  const Json reply = parsed(line);
  if (!reply.is_object()) return fail(Kind::kInvalid, "tranche mps answered with something that is not a JSON object");
  if (const auto ok = reply.find("ok"); ok != reply.end() && ok->is_boolean() && ok->get<bool>()) return reply;
  const std::string why = text_at(reply, "error");
  return fail(Kind::kUnavailable, why.empty() ? "tranche mps did not say that it has done what it was asked" : why);
}

std::optional<mps::TerminateOutcome> outcome_of(std::string_view word) {
  using enum mps::TerminateOutcome;
  for (const auto outcome : {kTerminated, kNotAClient, kRefused, kTimedOut, kSpared})
    if (mps::to_string(outcome) == word) return outcome;
  return std::nullopt;
}

void read_door(const Json& door, PoolFacts& pool) {
  const std::string grant = text_at(door, "grant");
  if (grant.empty()) return;
  if (const auto clients = door.find("clients"); clients != door.end() && clients->is_array()) {
    for (const auto& client : *clients)
      if (const auto pid = pid_of(client)) pool.grant_of[*pid] = grant;
  }
  const auto admitting = door.find("admitting");
  if (admitting == door.end() || !admitting->is_boolean()) return;
  const bool open = admitting->get<bool>();
  if (open || text_at(door, "reason").starts_with(kOurReason)) pool.doors[grant] = open;
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
  if (const auto it = reply.find("neighbours"); it != reply.end() && it->is_number_unsigned())
    read.neighbours = it->get<std::size_t>();
  for (const Json& client : objects_at(reply, "clients")) {
    const auto pid = client.contains("pid") ? pid_of(client["pid"]) : std::nullopt;
    const auto outcome = outcome_of(text_at(client, "outcome"));
    if (!pid || !outcome) return fail(Kind::kInvalid, "tranche mps answered with a client without pid or outcome");
    mps::Terminated one{.pid = static_cast<int>(*pid), .outcome = *outcome, .note = text_at(client, "note")};
    if (const auto waited = client.find("waitedMs"); waited != client.end() && waited->is_number_integer())
      one.waited = std::chrono::milliseconds(std::clamp<std::int64_t>(waited->get<std::int64_t>(), 0, kLongestWaitMs));
    read.clients.push_back(std::move(one));
  }
  return read;
}

std::map<std::string, PoolFacts> read_pool_facts(std::string_view line) {
  std::map<std::string, PoolFacts> pools;
  const Json document = parsed(line);
  if (!document.is_object()) return pools;
  for (const Json& entry : objects_at(document, "pools")) {
    PoolFacts pool;
    pool.state = text_at(entry, "state");
    add_pid(document, "pid", pool.own);
    add_pid(entry, "daemonPid", pool.own);
    for (const Json& server : objects_at(entry, "servers")) add_pid(server, "pid", pool.own);
    if (const auto proof = entry.find("proof"); proof != entry.end() && proof->is_object())
      add_pid(*proof, "pid", pool.own);
    for (const Json& door : objects_at(entry, "doors")) read_door(door, pool);
    pools[text_at(entry, "id")] = std::move(pool);
  }
  return pools;
}

}  // namespace tranche::guard
