#include "mps/control/questions.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include "base/text.h"

namespace tranche::mps {
namespace {

using Server = std::optional<int>;  // whose limits; absent: the daemon's defaults
using Lines = std::vector<std::string_view>;

constexpr const char* kServers = "get_server_list";

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

// --- replies ---------------------------------------------------------------------------------------------------------

struct Refusal {
  std::string_view words;  // the beginning of the text
  Kind kind;
};
constexpr std::array<Refusal, 4> kRefusals{{{"Insufficient privileges", Kind::kDenied},
                                            {"Not enough privilege", Kind::kDenied},
                                            {"Unknown command", Kind::kUnsupported},
                                            {"Cannot find MPS control daemon process", Kind::kNotFound}}};

// The error for a reply that does not match a captured one.
std::unexpected<Error> unreadable(std::string_view command, std::string_view text, std::string_view expected) {
  return fail(Kind::kInvalid, "the reply " + in_quotes(text) + " is not " + std::string(expected),
              std::string(command));
}

// A refusal can be any of the lines.
Status check_refusal(const Lines& lines) {
  for (const auto line : lines)
    for (const auto& [words, kind] : kRefusals)
      if (line.starts_with(words)) return fail(kind, "the control daemon says " + in_quotes(line), kServers);
  return {};
}

std::optional<int> parse_pid(std::string_view text) {
  constexpr std::uint64_t kMost = 4194304;  // the kernel's largest pid_max
  const auto number = parse_unsigned(text).value_or(0);
  return number > 0 && number <= kMost ? std::optional(static_cast<int>(number)) : std::nullopt;
}

Result<std::vector<int>> parse_pids(const Lines& lines) {
  std::vector<int> pids;
  for (const auto line : lines) {
    const auto pid = parse_pid(line);
    if (!pid) return unreadable(kServers, line, "a process id");
    pids.push_back(*pid);
  }
  return pids;
}

// Of "Server 12 not found", which is the reply to each command about a server that has exited.
std::optional<int> exited_server(std::string_view line) {
  const auto words = words_of(line);
  return words.size() == 4 && line.starts_with("Server ") && line.ends_with(" not found") ? parse_pid(words[1])
                                                                                          : std::nullopt;
}

std::optional<Percent> percentage_in(std::string_view line) {
  const auto percent = line.find('.') == line.npos ? std::unexpected(Error{}) : parse_percent(line);
  return percent && *percent != Percent{} && *percent <= Percent::whole(100) ? std::optional(*percent) : std::nullopt;
}

bool is_status(std::string_view line) {
  return !line.empty() && line.size() <= 32 &&
         std::ranges::all_of(line, [](char c) { return (c >= 'A' && c <= 'Z') || c == '_'; });
}

// Removes the answers to get() from the front; a percentage of 0 was not there. Nothing is printed for a device without
// a limit, so with several devices it is unknown which one is missing: then none has one here.
DaemonLimits take_limits(const DaemonLimits& limits, Lines& lines) {
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

// Without its limits if it does not report all of them, as one that is starting may not. Otherwise unreadable: nothing
// is known of it.
ServerSeen read_server(int pid, const DaemonLimits& limits, Lines lines) {
  ServerSeen server{.pid = pid, .status = std::string(lines[0])};
  lines.erase(lines.begin());
  auto read = take_limits(limits, lines);
  const bool whole = !read.memory.empty() || limits.memory.size() <= 1;
  if (whole && read.threads != Percent{}) server.limits = std::move(read);
  auto clients = parse_pids(lines);
  if (!clients) return {.pid = pid};
  server.clients = *std::move(clients);
  return server;
}

}  // namespace

std::vector<std::string> daemon_options(bool multiuser) {
  return multiuser ? std::vector<std::string>{"-f", "-M"} : std::vector<std::string>{"-f"};
}

std::string quit_daemon(Duration patience) {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(patience).count();
  return fmt::format("quit -t {}\n", seconds);  // the longest wait for clients to exit
}

std::string DaemonQuestion::input() const {
  std::string input;
  if (what_.set) {
    input += set(what_.limits);
    for (const int server : servers_) input += set(what_.limits, server);
  }
  input += get(what_.limits) + kServers + '\n';
  for (const int server : servers_)
    input += fmt::format("get_server_status {}\n{}get_client_list {}\n", server, get(what_.limits, server), server);
  return input;
}

std::optional<Result<Answered>> DaemonQuestion::heard(std::string_view reply) {
  // The daemon's lines, and those of each server, which begin with its status.
  std::vector<Lines> parts(1);
  std::set<int> exited;
  for (const auto line : lines_of(reply)) {
    const auto pid = exited_server(line);
    if (pid) exited.insert(*pid);
    if (is_status(line)) parts.emplace_back();
    if (!pid) parts.back().push_back(line);
  }
  auto& daemon = parts[0];
  if (const auto allowed = check_refusal(daemon); !allowed) return std::unexpected(allowed.error());
  // Setting memory prints nothing, and setting a percentage the one that is in effect.
  while (what_.set && daemon.size() > 1 && percentage_in(daemon[1])) daemon.erase(daemon.begin());
  Answered answered{{}, take_limits(what_.limits, daemon)};
  if (answered.defaults.threads == Percent{})
    return unreadable("get_default_active_thread_percentage", reply, "a percentage above 0 up to 100, such as 10.0");
  const auto running = parse_pids(daemon);
  if (!running) return std::unexpected(running.error());
  auto asked = servers_;
  std::erase_if(asked, [&](int pid) { return exited.contains(pid); });
  if ((*running != servers_ || asked != servers_) && --sessions_left_ > 0) {
    servers_ = *running;
    return std::nullopt;
  }
  for (const int pid : *running) {
    const auto place = std::ranges::find(asked, pid);
    if (place != asked.end() && parts.size() == asked.size() + 1)
      answered.servers.push_back(read_server(pid, what_.limits, parts[place - asked.begin() + 1]));
    else if (!exited.contains(pid))
      answered.servers.push_back({.pid = pid});
  }
  return answered;
}

Status check_held(const DaemonLimits& limits, const Answered& answered) {
  const auto check = [&](const std::string& who, const DaemonLimits& read) {
    const auto difference = disagreement(limits, read);
    return difference.empty() ? Status() : fail(Kind::kInvalid, difference, who);
  };
  TRY_STATUS(check("the daemon's defaults", answered.defaults));
  for (const auto& server : answered.servers)
    TRY_STATUS(check(fmt::format("server {}", server.pid), server.limits.value_or(DaemonLimits{{}, Percent{}})));
  return {};
}

bool offers_multiuser(std::string_view help) {
  return std::ranges::any_of(lines_of(help), [](std::string_view line) {
    return trimmed(line).starts_with("-M,") && line.find("--multiuser-server") != std::string_view::npos;
  });
}

}  // namespace tranche::mps
