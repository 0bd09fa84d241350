#include "mps/protocol/requests.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/json_text.h"
#include "base/text.h"
#include "containers/attribution.h"

namespace tranche::mps {
namespace {

constexpr std::size_t kLongestPool = 64;
constexpr std::size_t kLongestReason = 512;
// Values of "do", in the order of MpsRequest.
constexpr std::array<const char*, std::variant_size_v<MpsRequest>> kDo{"openEndpoint", "removeEndpoint", "terminate"};

std::unexpected<Error> malformed(const std::string& what) {
  return fail(Kind::kInvalid, what, "mps.sock");
}

struct TextRule {
  bool (*fits)(std::string_view text);
  const char* must_be = "";
  bool optional = false;  // without a value "" is absent
};
constexpr TextRule kAnyText{[](std::string_view) { return true; }};
constexpr TextRule kPool{is_pool_name, "the id of a pool (gpu-3f2a1b4c)"};
constexpr TextRule kGrant{containers::is_grant, "16 hexadecimal digits"};
constexpr TextRule kPod{is_pod_uid, "the UID of a pod", true};
constexpr TextRule kReason{[](std::string_view text) { return text.size() <= kLongestReason; }, "at most 512 bytes",
                           true};

// The fields of each message, for a Reader or a Writer.
void describe(auto& fields, EndpointName& endpoint) {
  fields.text("pool", endpoint.pool, kPool);
  fields.text("grant", endpoint.grant, kGrant);
}
void describe(auto& fields, EndpointTerms& terms) {
  fields.limits("limits", terms.limits);
  fields.flag("anyPod", terms.any_pod);
  fields.text("pod", terms.pod, kPod);
}
void describe(auto& fields, OpenEndpointRequest& open) {
  describe(fields, open.endpoint);
  describe(fields, open.terms);
  fields.flag("newTenant", open.new_tenant);
}
void describe(auto& fields, RemoveEndpointRequest& remove) {
  describe(fields, remove.endpoint);
  fields.number("made", remove.made);
}
void describe(auto& fields, TerminateRequest& terminate) {
  fields.text("pool", terminate.pool, kPool);
  fields.pids("pids", terminate.pids);
  fields.text("reason", terminate.reason, kReason);
}
void describe(auto& fields, GrantLimit& limit) {
  fields.text("uuid", limit.uuid);
  fields.amount("memoryMiB", limit.memory);
  fields.amount("threadsHundredths", limit.threads);
}

class Writer {
 public:
  nlohmann::ordered_json json = nlohmann::ordered_json::object();

  void text(const char* key, const std::string& value, const TextRule& rule = kAnyText) {
    if (!rule.optional || !value.empty()) json[key] = value;
  }
  void flag(const char* key, bool value) {
    if (value) json[key] = true;
  }
  void number(const char* key, const std::optional<std::uint64_t>& value) {
    if (value) json[key] = *value;
  }
  void amount(const char* key, Bytes value) { json[key] = value.in_mib(); }
  void amount(const char* key, Percent value) { json[key] = value.hundredths; }
  void limits(const char* key, const std::optional<GrantLimits>& value) {
    if (value) json[key] = limits_json(*value);
  }
  void pids(const char* key, const std::vector<int>& value) { json[key] = value; }
};

// Keeps the first error; a field that is read after it stays as it is.
class Reader {
 public:
  Reader(const nlohmann::json& object, std::string whole) : object_(object), whole_(std::move(whole)) {}

  void text(const char* key, std::string& into, const TextRule& rule = kAnyText) {
    const auto* value = find(key);
    if (value == nullptr && rule.optional) return;
    if (value == nullptr || !value->is_string()) return refuse(fmt::format("the field \"{}\" must be a text", key));
    into = value->get<std::string>();
    if (!rule.fits(into)) refuse(fmt::format("\"{}\" must be {}, not {}", key, rule.must_be, in_quotes(into)));
  }
  void flag(const char* key, bool& into) {
    const auto* value = find(key);
    if (value == nullptr) return;
    if (!value->is_boolean()) return refuse(fmt::format("the field \"{}\" must be true or false", key));
    into = value->get<bool>();
  }
  void number(const char* key, std::optional<std::uint64_t>& into) {
    const auto* value = find(key);
    if (value == nullptr) return;
    if (!value->is_number_unsigned()) return refuse(fmt::format("the field \"{}\" must be a whole number", key));
    into = value->get<std::uint64_t>();
  }
  void amount(const char* key, Bytes& into) { into = mib(amount(key)); }
  void amount(const char* key, Percent& into) { into = Percent{amount(key)}; }
  void limits(const char* key, std::optional<GrantLimits>& into) {
    const auto* value = find(key);
    if (value == nullptr) return;
    auto limits = read_limits(*value);
    if (!limits) return refuse(limits.error().what);
    into = *std::move(limits);
  }
  void pids(const char* key, std::vector<int>& into) {
    const auto* list = find(key);
    if (list == nullptr || !list->is_array())
      return refuse(fmt::format("the field \"{}\" must be a list of process ids", key));
    if (list->size() > kMostPids) return refuse(fmt::format("at most {} process ids in one request", kMostPids));
    for (const auto& pid : *list) {
      if (pid_of(pid) == 0) return refuse("a process id must be a positive number, not " + json_text(pid));
      into.push_back(pid_of(pid));
    }
  }

  Status done() {
    for (const auto& [key, value] : object_.items())
      if (std::ranges::find(known_, key) == known_.end())
        refuse(fmt::format("this {} has no field {}", whole_, in_quotes(key)));
    return status_;
  }

 private:
  void refuse(const std::string& what) {
    if (status_) status_ = malformed(what);
  }
  const nlohmann::json* find(const char* key) {
    known_.emplace_back(key);
    const auto it = object_.find(key);
    return it == object_.end() ? nullptr : &*it;
  }
  // Limits beyond 2³¹ are never valid, and smaller ones cannot overflow.
  std::uint32_t amount(const char* key) {
    constexpr std::uint64_t kTooMuch = 1u << 31;
    std::optional<std::uint64_t> value;
    number(key, value);
    if (!value) refuse(fmt::format("the field \"{}\" of a limit must be a whole number, 0 for not limited", key));
    return static_cast<std::uint32_t>(std::min(value.value_or(0), kTooMuch));
  }

  const nlohmann::json& object_;
  std::string whole_;
  Status status_;
  std::vector<std::string_view> known_{"do"};
};

template <class Request>
Result<MpsRequest> read_request(const nlohmann::json& document) {
  Request request;
  Reader reader(document, "request");
  describe(reader, request);
  TRY_STATUS(reader.done());
  return request;
}

constexpr const char* kWhere = "a grant's limits";
constexpr std::size_t kLongestUuid = 80;
constexpr std::uint64_t kMostMib = kNoMemoryLimit.in_mib();

std::unexpected<Error> wrong(std::string what) {
  return fail(Kind::kInvalid, std::move(what), kWhere);
}

Status check_one(const GrantLimit& limit) {
  if (!is_device_name(limit.uuid)) return wrong(in_quotes(limit.uuid) + " is not the UUID of a GPU or MIG device");
  if (limit.memory.value % mib(1).value != 0 || limit.memory.in_mib() > kMostMib)
    return wrong(fmt::format("the memory of {} must be 0 (not limited) or whole MiB up to {}", limit.uuid, kMostMib));
  if (limit.threads > Percent::whole(100))
    return wrong(fmt::format("the threads of {} must be 0 (not limited) to 10000 hundredths of a percent", limit.uuid));
  return {};
}

}  // namespace

bool is_device_name(std::string_view name) {
  const auto plain = [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'Z') || c == '-' || c == '/';
  };
  return (name.starts_with("GPU-") || name.starts_with("MIG-")) && name.size() > 4 && name.size() <= kLongestUuid &&
         std::ranges::all_of(name, plain);
}

Status check_limits(const GrantLimits& limits) {
  if (limits.empty()) return wrong("there must be one device at least");
  if (limits.size() > kMostGrantDevices) return wrong(fmt::format("at most {} devices", kMostGrantDevices));
  for (const auto& limit : limits) {
    TRY_STATUS(check_one(limit));
    if (std::ranges::count(limits, limit.uuid, &GrantLimit::uuid) > 1)
      return wrong("the device " + limit.uuid + " is named twice");
  }
  return {};
}

bool is_pool_name(std::string_view name) {
  return !name.empty() && name.size() <= kLongestPool && name.front() != '-' &&
         std::ranges::all_of(name, [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || c == '-'; });
}

bool is_pod_uid(std::string_view uid) {
  constexpr std::size_t kLongest = 63;
  return !uid.empty() && uid.size() <= kLongest &&
         std::ranges::all_of(uid, [](char c) { return is_alnum(c) || c == '-'; });
}

nlohmann::ordered_json limits_json(const GrantLimits& limits) {
  auto list = nlohmann::ordered_json::array();
  for (auto limit : limits) {
    Writer writer;
    describe(writer, limit);
    list.push_back(std::move(writer.json));
  }
  return list;
}

Result<GrantLimits> read_limits(const nlohmann::json& list) {
  if (!list.is_array()) return malformed("the field \"limits\" must be a list of limits");
  GrantLimits limits;
  for (const auto& json : list) {
    if (!json.is_object())
      return malformed("a limit is an object: {\"uuid\":…,\"memoryMiB\":…,\"threadsHundredths\":…}");
    Reader reader(json, "limit");
    describe(reader, limits.emplace_back());
    TRY_STATUS(reader.done());
  }
  TRY_STATUS(check_limits(limits));
  return limits;
}

int pid_of(const nlohmann::json& value) {
  const auto number = number_of(value).value_or(0);
  return number > 0 && number <= std::numeric_limits<int>::max() ? static_cast<int>(number) : 0;
}

int pid_at(const nlohmann::json& object, std::string_view key) {
  return pid_of(member_at(object, key));
}

std::string request_line(const MpsRequest& request) {
  Writer writer;
  writer.json["do"] = kDo[request.index()];
  std::visit([&](auto copy) { describe(writer, copy); }, request);
  return json_in_ascii(writer.json);
}

Result<MpsRequest> parse_mps_request(std::string_view line) {
  const auto document = json_of(line);
  if (!document.is_object()) return malformed("a request is a JSON object on one line");
  const auto what = text_at(document, "do");
  if (what == kDo[1]) return read_request<RemoveEndpointRequest>(document);
  if (what == kDo[2]) return read_request<TerminateRequest>(document);
  if (what != kDo[0])
    return malformed("\"do\" must be openEndpoint, removeEndpoint or terminate, not " + in_quotes(what));
  TRY(auto request, read_request<OpenEndpointRequest>(document));
  const auto& terms = std::get<OpenEndpointRequest>(request).terms;
  if (terms.any_pod && !terms.pod.empty()) return malformed("the fields \"pod\" and \"anyPod\" exclude each other");
  return request;
}

std::string render_terms(const EndpointTerms& terms) {
  Writer writer;
  auto copy = terms;
  describe(writer, copy);
  return json_in_ascii(writer.json) + '\n';
}

Result<EndpointTerms> parse_terms(std::string_view line) {
  constexpr const char* kWhere = "what is kept of an endpoint";
  const auto document = json_of(line);
  if (!document.is_object()) return fail(Kind::kInvalid, "it is not a JSON object", kWhere);
  EndpointTerms terms;
  Reader reader(document, "file");
  describe(reader, terms);
  if (const auto read = reader.done(); !read) return fail(Kind::kInvalid, read.error().what, kWhere);
  return terms;
}

std::string render_other_holders(const std::set<std::string>& devices) {
  std::string text;
  for (const auto& device : devices) text += device + "\n";
  return text;
}

std::set<std::string> parse_other_holders(std::string_view text) {
  std::set<std::string> devices;
  for (const auto line : lines_of(text))
    if (is_device_name(line)) devices.emplace(line);
  return devices;
}

// --- replies ---------------------------------------------------------------------------------------------------------

std::string done_reply() {
  return R"({"ok":true})";
}

std::string error_reply(const Error& error) {
  const nlohmann::ordered_json reply{{"ok", false}, {"error", to_string(error)}};
  return json_text(reply);
}

std::string end_reply(const std::vector<Terminated>& clients) {
  auto list = nlohmann::ordered_json::array();
  for (const auto& client : clients)
    list.push_back({{"pid", client.pid}, {"outcome", to_string(client.outcome)}, {"note", client.note}});
  return json_text(nlohmann::ordered_json{{"ok", true}, {"clients", std::move(list)}});
}

Result<std::vector<Terminated>> read_reply(std::string_view line) {
  const auto reply = json_of(line);
  if (!truth_at(reply, "ok")) {
    const auto error = text_at(reply, "error");
    return error.empty()
               ? fail(Kind::kInvalid,
                      "tranche mps sent an unrecognized reply; are tranche node and tranche mps the same version?")
               : fail(Kind::kUnavailable, "tranche mps: " + error);
  }
  std::vector<Terminated> clients;
  for (const auto& client : list_at(reply, "clients")) {
    const int pid = pid_at(client, "pid");
    const auto outcome = enum_of<TerminateOutcome>(text_at(client, "outcome"));
    if (pid == 0 || !outcome)
      return fail(Kind::kInvalid, "tranche mps sent a reply that has a client without pid or outcome");
    clients.push_back({pid, *outcome, text_at(client, "note")});
  }
  return clients;
}

}  // namespace tranche::mps
