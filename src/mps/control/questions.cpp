#include "mps/control/questions.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "base/text.h"

namespace tranche::mps {
namespace {

using Server = std::optional<int>;  // whose limits; absent: the daemon's defaults

constexpr const char* kServers = "get_server_list\n";

std::string threads_of(std::string_view verb, Server server) {
  if (!server) return fmt::format("{}_default_active_thread_percentage", verb);
  return fmt::format("{}_active_thread_percentage {}", verb, *server);
}

std::string memory_of(std::string_view verb, Server server, const std::string& uuid) {
  if (!server) return fmt::format("{}_default_device_pinned_mem_limit {}", verb, uuid);
  return fmt::format("{}_device_pinned_mem_limit {} {}", verb, *server, uuid);
}

// A percentage has a point, a memory limit a unit, and a process id neither (take_limits()).
std::string get(const DaemonLimits& limits, Server server = {}) {
  std::string input = threads_of("get", server) + '\n';
  for (const auto& [uuid, memory] : limits.memory) input += memory_of("get", server, uuid) + '\n';
  return input;
}

std::string set(const DaemonLimits& limits, Server server = {}) {
  std::string input;
  for (const auto& [uuid, memory] : limits.memory)
    input += fmt::format("{} {}M\n", memory_of("set", server, uuid), memory.in_mib());
  return input + fmt::format("{} {}\n", threads_of("set", server), to_string(limits.threads));
}

// Queries one server after the other, each in a session of its own.
Onward ask_next_server(const DaemonLimits& limits, std::vector<int> left, Answered answered) {
  if (left.empty()) return Event(std::move(answered));
  const int pid = left.front();
  left.erase(left.begin());
  auto input = fmt::format("get_server_status {}\n{}get_client_list {}\n", pid, get(limits, pid), pid);
  return Exchange{std::move(input), [=](const std::string& reply) {
                    auto all = answered;
                    const auto server = parse_server_session(limits, reply);
                    // A server that exited in between is not the daemon's fault.
                    if (server || server.error().kind != Kind::kNotFound) {
                      all.servers.push_back(server.value_or(ServerSeen{}));
                      all.servers.back().pid = pid;
                    }
                    return ask_next_server(limits, left, std::move(all));
                  }};
}

// --- replies ---------------------------------------------------------------------------------------------------------

struct Refusal {
  std::string_view words;  // the beginning of the text or, for "not found", its end
  Kind kind;
};
constexpr std::array<Refusal, 7> kRefusalsBeginWith{{
    {"Insufficient privileges", Kind::kDenied},
    {"Not enough privilege", Kind::kDenied},
    {"Unknown command", Kind::kUnsupported},
    {"Cannot find MPS control daemon process", Kind::kNotFound},
    {"Invalid process ", Kind::kNotFound},
    {"Invalid ", Kind::kInvalid},
    {"A server PID is required", Kind::kInvalid},
}};

// The error for a reply that does not match a captured one.
std::unexpected<Error> unreadable(std::string_view command, std::string_view text, std::string_view expected) {
  return fail(Kind::kInvalid, "the reply " + in_quotes(text) + " is not " + std::string(expected),
              std::string(command));
}

// The refusal in a reply, if any: it can be any of the lines.
std::optional<Error> refusal_in(std::string_view command, std::string_view text) {
  for (const auto line : lines_of(text)) {
    if (line.starts_with("Server ") && (line.ends_with(" not found") || line.ends_with(" not found!"))) {
      return Error{Kind::kNotFound, "the control daemon says " + in_quotes(line), std::string(command), 0};
    }
    for (const auto& [words, kind] : kRefusalsBeginWith) {
      if (line.starts_with(words))
        return Error{kind, "the control daemon says " + in_quotes(line), std::string(command), 0};
    }
  }
  return std::nullopt;
}

std::optional<int> parse_int(std::string_view text, std::uint64_t least, std::uint64_t most) {
  const auto number = parse_unsigned(text);
  if (!number || *number < least || *number > most) return std::nullopt;
  return static_cast<int>(*number);
}

std::optional<int> parse_pid(std::string_view text) {
  return parse_int(text, 1, 4194304);  // the kernel's largest pid_max
}

Result<Pids> parse_pids(std::string_view command, const std::vector<std::string_view>& lines, std::string_view text) {
  if (auto refusal = refusal_in(command, text)) return std::unexpected(*refusal);
  Pids pids;
  for (const auto line : lines) {
    const auto pid = parse_pid(line);
    if (!pid) return unreadable(command, line, "a process id");
    pids.push_back(*pid);
  }
  return pids;
}

std::optional<Percent> percentage_in(std::string_view line) {
  const auto percent = line.find('.') == line.npos ? std::unexpected(Error{}) : parse_percent(line);
  return percent && *percent != Percent{} && *percent <= Percent::whole(100) ? std::optional(*percent) : std::nullopt;
}

bool is_state(std::string_view line) {
  return !line.empty() && line.size() <= 32 &&
         std::ranges::all_of(line, [](char c) { return (c >= 'A' && c <= 'Z') || c == '_'; });
}

// Removes the answers to get() from the front; a percentage of 0 was not there. Nothing is printed for a device without
// a limit, so with several devices it is unknown which one is missing: then none has one here.
DaemonLimits take_limits(const DaemonLimits& limits, std::vector<std::string_view>& lines) {
  DaemonLimits read{{}, Percent{}};
  if (const auto threads = lines.empty() ? std::nullopt : percentage_in(lines[0])) {
    read.threads = *threads;
    lines.erase(lines.begin());
  }
  for (const auto& [uuid, memory] : limits.memory) {
    const auto limit = lines.empty() ? std::nullopt : amount_of(lines[0]);
    if (!limit) continue;
    read.memory.emplace_back(uuid, *limit);
    lines.erase(lines.begin());
  }
  if (read.memory.size() != limits.memory.size()) read.memory.clear();
  return read;
}

// The same, of limits that were set.
Result<DaemonLimits> take_limits_of(const std::string& who, const DaemonLimits& limits,
                                    std::vector<std::string_view>& lines) {
  auto read = take_limits(limits, lines);
  if (const auto difference = disagreement(limits, read); !difference.empty())
    return fail(Kind::kInvalid, difference, who);
  return read;
}

}  // namespace

std::vector<std::string> daemon_options(bool multiuser) {
  return multiuser ? std::vector<std::string>{"-f", "-M"} : std::vector<std::string>{"-f"};
}

Exchange exchange_for(const Ask& action) {
  return {get(action.limits) + kServers, [action](const std::string& reply) -> Onward {
            auto daemon = parse_health_session(action.limits, reply);
            if (!daemon) return Event(QuestionFailed{daemon.error()});
            return ask_next_server(action.limits, std::move(daemon->servers), {{}, daemon->defaults});
          }};
}

Exchange exchange_for(const ApplyLimits& action) {
  return {set(action.limits, action.server), [action](const std::string& reply) -> Onward {
            // The next answer shows whether a server refused or has exited.
            const auto refusal = action.server ? std::nullopt : refusal_in(threads_of("set", {}), reply);
            if (refusal) return Event(QuestionFailed{*refusal});
            return exchange_for(Ask{action.limits});
          }};
}

std::string quit_daemon(Duration patience) {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(patience).count();
  return fmt::format("quit -t {}\n", seconds);  // the longest wait for clients to exit
}

Exchange exchange_for_next_clients(const std::string& pool, const std::vector<int>& servers, const DaemonLimits& limits,
                                   int most_sessions) {
  return {turn_session(servers, limits), [=](const std::string& reply) -> Onward {
            const auto running = parse_turn_session(servers, limits, reply);
            const bool ended_meanwhile = !running && running.error().kind == Kind::kNotFound && !servers.empty();
            if (!running && !ended_meanwhile) return Event(QuestionFailed{running.error()});
            if (running && running->servers == servers) return Event(AdmissionLimitsSet{limits, running->defaults});
            if (most_sessions == 1)
              return Event(QuestionFailed{{Kind::kUnavailable, "servers of this pool come and go", pool, 0}});
            const auto next = ended_meanwhile ? std::vector<int>{} : running->servers;
            return exchange_for_next_clients(pool, next, limits, most_sessions - 1);
          }};
}

std::string turn_session(const std::vector<int>& servers, const DaemonLimits& limits) {
  std::string input = set(limits);
  for (const int server : servers) input += set(limits, server);
  input += get(limits);
  for (const int server : servers) input += get(limits, server);
  return input + kServers;
}

Result<DaemonReply> parse_health_session(const DaemonLimits& limits, std::string_view text) {
  if (auto refusal = refusal_in("get_server_list", text)) return std::unexpected(*refusal);
  auto lines = lines_of(text);
  DaemonReply reply{take_limits(limits, lines), {}};
  if (reply.defaults.threads == Percent{})
    return unreadable("get_default_active_thread_percentage", text, "a percentage above 0 and up to 100, such as 10.0");
  TRY(reply.servers, parse_pids("get_server_list", lines, text));
  return reply;
}

Result<ServerSeen> parse_server_session(const DaemonLimits& limits, std::string_view text) {
  if (auto refusal = refusal_in("get_server_status", text)) return std::unexpected(*refusal);
  auto lines = lines_of(text);
  if (lines.empty() || !is_state(lines[0]))
    return unreadable("get_server_status", text, "a server state such as ACTIVE");
  ServerSeen reply;
  reply.status = lines[0];
  lines.erase(lines.begin());
  // A server that is starting may not know its limits yet: then the pids follow at once.
  auto read = take_limits(limits, lines);
  const bool whole = !read.memory.empty() || limits.memory.size() <= 1;
  if (whole && read.threads != Percent{}) reply.limits = std::move(read);
  TRY(reply.clients, parse_pids("get_client_list", lines, text));
  return reply;
}

Result<DaemonReply> parse_turn_session(const std::vector<int>& servers, const DaemonLimits& limits,
                                       std::string_view text) {
  if (auto refusal = refusal_in("set_active_thread_percentage", text)) return std::unexpected(*refusal);
  auto lines = lines_of(text);
  // Setting memory prints nothing, and setting a percentage the one that is in effect.
  lines.erase(lines.begin(), lines.begin() + static_cast<std::ptrdiff_t>(std::min(lines.size(), 1 + servers.size())));
  DaemonReply reply;
  TRY(reply.defaults, take_limits_of("the daemon's defaults", limits, lines));
  for (const int server : servers) TRY_STATUS(take_limits_of(fmt::format("server {}", server), limits, lines));
  TRY(reply.servers, parse_pids("get_server_list", lines, text));
  return reply;
}

int parse_version(std::string_view text) {
  constexpr std::string_view kMark = "Binary version: ";
  for (const auto line : lines_of(text)) {
    const auto at = line.find(kMark);
    if (at == std::string_view::npos) continue;
    return parse_int(trimmed(line.substr(at + kMark.size())), 0, std::numeric_limits<int>::max()).value_or(0);
  }
  return 0;
}

bool offers_multiuser(std::string_view help) {
  return std::ranges::any_of(lines_of(help), [](std::string_view line) {
    return trimmed(line).starts_with("-M,") && line.find("--multiuser-server") != std::string_view::npos;
  });
}

}  // namespace tranche::mps
