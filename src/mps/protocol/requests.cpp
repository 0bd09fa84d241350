#include "mps/protocol/requests.h"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <nlohmann/json.hpp>

#include "base/json_text.h"
#include "base/text.h"

namespace tranche::agent {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kLongestPool = 64;
constexpr std::size_t kLongestReason = 512;
constexpr std::size_t kGrantDigits = 16;
constexpr int kLargestSignal = 64;

std::unexpected<Error> wrong(const std::string& what) {
  return fail(Kind::kInvalid, what, "mps.sock");
}

// The fields of one request, each read once and checked for its type.
class Fields {
 public:
  explicit Fields(const Json& object) : object_(object) {}

  Status only(std::initializer_list<std::string_view> known) const {
    for (const auto& [key, value] : object_.items()) {
      if (key != "do" && std::ranges::find(known, key) == known.end())
        return wrong(fmt::format("this request has no field {}", in_quotes(key)));
    }
    return {};
  }
  Result<std::string> text(const char* key) const {
    const auto it = object_.find(key);
    if (it == object_.end() || !it->is_string()) return wrong(fmt::format("the field \"{}\" must be a text", key));
    return it->get<std::string>();
  }
  Result<std::string> reason() const {
    if (!object_.contains("reason")) return std::string();
    TRY(auto reason, text("reason"));
    if (reason.size() > kLongestReason) return wrong(fmt::format("a reason has at most {} bytes", kLongestReason));
    return reason;
  }
  Result<std::string> pool() const {
    TRY(auto pool, text("pool"));
    if (!is_pool_name(pool)) return wrong("\"pool\" must be the id of a pool (gpu-3f2a1b4c), not " + in_quotes(pool));
    return pool;
  }
  Result<EndpointName> endpoint() const {
    TRY(auto id, pool());
    TRY(auto grant, text("grant"));
    if (!is_grant_name(grant)) return wrong("\"grant\" must be 16 hexadecimal digits, not " + in_quotes(grant));
    return EndpointName{std::move(id), std::move(grant)};
  }
  const Json* find(const char* key) const {
    const auto it = object_.find(key);
    return it == object_.end() ? nullptr : &*it;
  }
  Result<bool> flag(const char* key) const {  // absent: false
    const auto* value = find(key);
    if (value == nullptr) return false;
    if (!value->is_boolean()) return wrong(fmt::format("the field \"{}\" must be true or false", key));
    return value->get<bool>();
  }

 private:
  const Json& object_;
};

Result<std::uint64_t> whole_number(const Json& object, const char* key) {
  const auto it = object.find(key);
  if (it == object.end() || !it->is_number_unsigned())
    return wrong(fmt::format("the field \"{}\" of a limit must be a whole number, 0 for not limited", key));
  return it->get<std::uint64_t>();
}

Result<mps::GrantLimit> read_limit(const Json& json) {
  if (!json.is_object()) return wrong("a limit is an object: {\"uuid\":…,\"memoryMiB\":…,\"threadsHundredths\":…}");
  const Fields fields(json);
  TRY_STATUS(fields.only({"uuid", "memoryMiB", "threadsHundredths"}));
  mps::GrantLimit limit;
  TRY(limit.uuid, fields.text("uuid"));
  TRY(const auto memory, whole_number(json, "memoryMiB"));
  TRY(const auto threads, whole_number(json, "threadsHundredths"));
  // Larger values are never valid, and smaller ones cannot overflow.
  constexpr std::uint64_t kTooMuch = 1u << 31;
  limit.memory = mib(std::min(memory, kTooMuch));
  limit.threads = Percent{static_cast<std::uint32_t>(std::min(threads, kTooMuch))};
  return limit;
}

Result<mps::GrantLimits> read_limits(const Json& list) {
  if (!list.is_array()) return wrong("the field \"limits\" must be a list of limits");
  if (list.size() > mps::kMostGrantDevices)
    return wrong(fmt::format("at most {} limits in one request", mps::kMostGrantDevices));
  mps::GrantLimits limits;
  for (const auto& json : list) {
    TRY(auto limit, read_limit(json));
    limits.push_back(std::move(limit));
  }
  TRY_STATUS(mps::check_limits(limits));
  return limits;
}

// A `tranche node` of an earlier release also sends "slots" during an upgrade; nothing depends on it.
Result<MpsRequest> read_open_endpoint(const Fields& fields) {
  TRY_STATUS(fields.only({"pool", "grant", "slots", "limits", "newTenant", "anyPod", "pod"}));
  OpenEndpointRequest request;
  TRY(request.endpoint, fields.endpoint());
  if (const auto* list = fields.find("limits")) {
    TRY(request.limits, read_limits(*list));
  }
  TRY(request.new_tenant, fields.flag("newTenant"));
  TRY(request.any_pod, fields.flag("anyPod"));
  if (const auto* pod = fields.find("pod")) {
    if (!pod->is_string() || !is_pod_uid(pod->get_ref<const std::string&>()))
      return wrong("the field \"pod\" must be the UID of a pod");
    if (request.any_pod) return wrong("the fields \"pod\" and \"anyPod\" exclude each other");
    request.pod = pod->get<std::string>();
  }
  return request;
}

Result<MpsRequest> read_admit(const Fields& fields) {
  TRY_STATUS(fields.only({"pool", "grant", "open", "reason"}));
  AdmitRequest request;
  TRY(request.endpoint, fields.endpoint());
  const auto* open = fields.find("open");
  if (open == nullptr || !open->is_boolean()) return wrong("the field \"open\" must be true or false");
  request.open = open->get<bool>();
  TRY(request.reason, fields.reason());
  return request;
}

Result<MpsRequest> read_terminate(const Fields& fields) {
  TRY_STATUS(fields.only({"pool", "pids", "reason"}));
  TerminateRequest request;
  TRY(request.pool, fields.pool());
  const auto* pids = fields.find("pids");
  if (pids == nullptr || !pids->is_array()) return wrong("the field \"pids\" must be a list of process ids");
  if (pids->size() > kMostPids) return wrong(fmt::format("at most {} process ids in one request", kMostPids));
  for (const auto& pid : *pids) {
    constexpr std::int64_t kLargest = 1 << 30;
    const auto number = pid.is_number_integer() ? pid.get<std::int64_t>() : 0;
    if (number < 1 || number > kLargest) return wrong("a process id must be a positive number, not " + json_text(pid));
    request.pids.push_back(static_cast<int>(number));
  }
  TRY(request.reason, fields.reason());
  return request;
}

Result<MpsRequest> read_drain(const Fields& fields) {
  // Agents of version 0.1 send deadlineMs; the duration of a drain is now decided here.
  TRY_STATUS(fields.only({"pool", "grant", "reason", "spare", "signal", "deadlineMs"}));
  DrainRequest request;
  TRY(request.endpoint, fields.endpoint());
  TRY(request.reason, fields.reason());
  TRY(request.spare, fields.flag("spare"));
  if (const auto* signal = fields.find("signal")) {
    const auto number = signal->is_number_integer() ? signal->get<std::int64_t>() : -1;
    if (number < 0 || number > kLargestSignal)
      return wrong(fmt::format("the field \"signal\" must be a number from 0 (not known) to {}", kLargestSignal));
    request.stop_signal = static_cast<int>(number);
  }
  return request;
}

}  // namespace

bool is_pool_name(std::string_view name) {
  return !name.empty() && name.size() <= kLongestPool && name.front() != '-' &&
         std::ranges::all_of(name, [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || c == '-'; });
}

bool is_pod_uid(std::string_view uid) {
  constexpr std::size_t kLongest = 63;
  return !uid.empty() && uid.size() <= kLongest && std::ranges::all_of(uid, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-';
  });
}

bool is_grant_name(std::string_view name) {
  return name.size() == kGrantDigits &&
         std::ranges::all_of(name, [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

Result<MpsRequest> parse_mps_request(std::string_view line) {
  const Json document = json_of(line);
  if (!document.is_object()) return wrong("a request is a JSON object on one line");
  const Fields fields(document);
  TRY(const auto what, fields.text("do"));
  if (what == "openEndpoint") return read_open_endpoint(fields);
  if (what == "removeEndpoint") {
    TRY_STATUS(fields.only({"pool", "grant", "made"}));
    RemoveEndpointRequest request;
    TRY(request.endpoint, fields.endpoint());
    if (const auto* made = fields.find("made")) {
      if (!made->is_number_unsigned()) return wrong("the field \"made\" must be a whole number");
      request.made = made->get<std::uint64_t>();
    }
    return request;
  }
  if (what == "admit") return read_admit(fields);
  if (what == "terminate") return read_terminate(fields);
  if (what == "drain") return read_drain(fields);
  return wrong("\"do\" must be openEndpoint, removeEndpoint, admit, terminate or drain, not " + in_quotes(what));
}

std::string done_reply() {
  return R"({"ok":true})";
}

std::string error_reply(const Error& error) {
  const nlohmann::ordered_json reply{{"ok", false}, {"error", to_string(error)}};
  return json_text(reply);
}

std::string terminated_reply(const std::vector<mps::Terminated>& clients, Duration took, std::size_t neighbours,
                             const std::string& problem) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const auto& client : clients)
    list.push_back({{"pid", client.pid},
                    {"outcome", to_string(client.outcome)},
                    {"note", client.note},
                    {"waitedMs", client.waited.count()}});
  nlohmann::ordered_json reply{{"ok", problem.empty()}};
  if (!problem.empty()) reply["error"] = problem;
  reply["clients"] = std::move(list);
  reply["neighbours"] = neighbours;
  reply["tookMs"] = std::chrono::duration_cast<std::chrono::milliseconds>(took).count();
  return json_text(reply);
}

}  // namespace tranche::agent
