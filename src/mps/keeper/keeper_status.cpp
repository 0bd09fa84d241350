#include "mps/keeper/keeper_status.h"

#include <nlohmann/json.hpp>

#include "base/json_text.h"
#include "mps/protocol/requests.h"

namespace tranche::mps {
namespace {

Result<os::ProcessRef> process_in(const nlohmann::json& object) {
  const int pid = pid_at(object, "pid");
  const auto started = number_at(object, "started").value_or(0);
  if (pid == 0 || started <= 0) return fail(Kind::kInvalid, "a process without pid and start time");
  return os::ProcessRef{pid, static_cast<std::uint64_t>(started)};
}

}  // namespace

std::string to_json(const KeeperStatus& status) {
  nlohmann::ordered_json json{{"version", status.version}};
  if (status.changes) json["changes"] = true;
  json["clients"] = nlohmann::ordered_json::array();
  for (const auto& [process, client] : status.clients)
    json["clients"].push_back({{"pid", process.pid},
                               {"started", process.start_ticks},
                               {"state", to_string(client.state)},
                               {"descriptors", client.files},
                               {"problem", client.problem}});
  json["mostDescriptors"] = status.most_files;
  return json_text(json);
}

Result<KeeperStatus> read_keeper_status(std::string_view line) {
  const auto json = json_of(line);
  KeeperStatus status{.version = text_at(json, "version"),
                      .changes = truth_at(json, "changes"),
                      .most_files = count_at(json, "mostDescriptors")};
  if (status.version.empty()) return fail(Kind::kInvalid, "the keeper's status has no version");
  for (const auto& each : list_at(json, "clients")) {
    TRY(const auto process, process_in(each));
    const auto state = enum_of<HeldState>(text_at(each, "state"));
    if (!state) return fail(Kind::kInvalid, "the keeper's status has a client with an unknown state");
    status.clients[process] = {*state, static_cast<std::size_t>(count_at(each, "descriptors")),
                               text_at(each, "problem")};
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
