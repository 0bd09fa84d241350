#include "mps/limits/turn_session.h"

#include <fmt/format.h>

#include "base/text.h"
#include "mps/control/control_text.h"

namespace tranche::mps {
namespace {

constexpr const char* kWhere = "the limits of the next clients";

// The output for one of them: a memory limit for each device, then the percentage.
Result<LimitsReadBack> check_read_back(const std::string& who, const DaemonLimits& limits,
                                       const std::vector<std::string_view>& lines, std::size_t at) {
  LimitsReadBack read;
  for (const auto& [uuid, memory] : limits.memory) read.memory.emplace_back(uuid, lines[at++]);
  read.threads = lines[at];
  if (const auto difference = disagreement(limits, read); !difference.empty())
    return fail(Kind::kInvalid, difference, who);
  return read;
}

std::string server_name(int pid) {
  return "server " + std::to_string(pid);
}

}  // namespace

namespace command {

std::vector<std::string> turn_session(const std::vector<int>& servers, const DaemonLimits& limits) {
  auto commands = apply_session(limits);
  const auto add = [&](std::vector<std::string> more) { commands.insert(commands.end(), more.begin(), more.end()); };
  for (const int server : servers) add(apply_server_session(server, limits));
  add(read_session(limits));
  for (const int server : servers) {
    for (const auto& [uuid, memory] : limits.memory) commands.push_back(get_server_memory(server, uuid));
    commands.push_back(get_server_threads(server));
  }
  commands.push_back(get_server_list());
  return commands;
}

}  // namespace command

Result<TurnReply> parse_turn_session(const std::vector<int>& servers, const DaemonLimits& limits,
                                     std::string_view text) {
  TRY_STATUS(parse_apply_server_session(text));  // no line is a refusal
  const auto lines = lines_of(text);
  // Setting memory prints nothing, setting a percentage prints the enforced one, and a memory limit that is not set
  // prints nothing.
  const std::size_t set = 1 + servers.size();
  const std::size_t each = limits.memory.size() + 1;
  if (lines.size() < set + each * set)
    return fail(Kind::kInvalid,
                fmt::format("the reply {} lacks lines: a limit of {} is not set", in_quotes(text),
                            servers.empty() ? "the daemon" : "the daemon or its server"),
                kWhere);
  TurnReply reply;
  TRY(reply.defaults, check_read_back("the daemon's defaults", limits, lines, set));
  for (std::size_t i = 0; i < servers.size(); ++i)
    TRY_STATUS(check_read_back(server_name(servers[i]), limits, lines, set + each * (i + 1)));
  std::string rest;
  for (std::size_t i = set + each * set; i < lines.size(); ++i) rest += std::string(lines[i]) + '\n';
  TRY(reply.servers, parse_server_list(rest));
  return reply;
}

}  // namespace tranche::mps
