#include "mps/keeper/keeper_status.h"

#include <algorithm>
#include <array>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/json_read.h"
#include "base/json_text.h"

namespace tranche::mps {
namespace {

constexpr std::array<std::string_view, 3> kStates{"starting", "held", "dead"};  // by HeldState

Result<os::ProcessRef> process_in(const nlohmann::json& object) {
  const auto pid = number_at(object, "pid").value_or(0);
  const auto started = number_at(object, "started").value_or(0);
  if (pid <= 0 || pid > std::numeric_limits<int>::max() || started <= 0)
    return fail(Kind::kInvalid, "a process without pid and start time");
  return os::ProcessRef{static_cast<pid_t>(pid), static_cast<std::uint64_t>(started)};
}

}  // namespace

// Of hundreds of clients at each change, so it is written without a document in memory.
std::string to_json(const KeeperStatus& status) {
  const auto quoted = [](const std::string& text) { return text.empty() ? "\"\"" : json_text(nlohmann::json(text)); };
  std::string text = R"({"version":)" + quoted(status.version) + R"(,"clients":[)";
  for (const auto& client : status.clients) {
    text += (text.back() == '[' ? R"({"pid":)" : R"(,{"pid":)") + std::to_string(client.process.pid);
    text += R"(,"started":)" + std::to_string(client.process.start_ticks) + R"(,"state":")";
    text += kStates[static_cast<std::size_t>(client.state)];
    text += R"(","descriptors":)" + std::to_string(client.files) + R"(,"problem":)" + quoted(client.problem) + '}';
  }
  text += R"(],"released":)" + std::to_string(status.released);
  text += R"(,"mostDescriptors":)" + std::to_string(status.most_files);
  return text + R"(,"longestWaitMs":)" + std::to_string(status.waited_ms) + '}';
}

Result<KeeperStatus> read_keeper_status(std::string_view line) {
  const auto json = json_of(line);
  KeeperStatus status{.version = text_at(json, "version"),
                      .clients = {},
                      .released = count_at(json, "released"),
                      .most_files = count_at(json, "mostDescriptors"),
                      .waited_ms = count_at(json, "longestWaitMs")};
  if (status.version.empty()) return fail(Kind::kInvalid, "the keeper's status has no version");
  for (const auto& each : list_at(json, "clients")) {
    TRY(const auto process, process_in(each));
    const auto* const state = std::ranges::find(kStates, text_at(each, "state"));
    if (state == kStates.end()) return fail(Kind::kInvalid, "the keeper's status has a client with an unknown state");
    status.clients.push_back({process, static_cast<HeldState>(state - kStates.begin()),
                              static_cast<std::size_t>(count_at(each, "descriptors")), text_at(each, "problem")});
  }
  return status;
}

std::string to_json(const KeeperRequest& request) {
  const auto* hold = std::get_if<HoldRequest>(&request);
  if (hold == nullptr) return R"({"request":"end"})";
  const nlohmann::ordered_json json{
      {"request", "hold"}, {"pid", hold->process.pid}, {"started", hold->process.start_ticks}, {"share", hold->share}};
  return json_text(json);
}

Result<KeeperRequest> read_keeper_request(std::string_view line) {
  const auto json = json_of(line);
  const auto what = text_at(json, "request");
  if (what == "end") return EndRequest{};
  if (what != "hold") return fail(Kind::kInvalid, "the keeper knows the requests hold and end");
  TRY(const auto process, process_in(json));
  return HoldRequest{process, text_at(json, "share")};
}

}  // namespace tranche::mps
