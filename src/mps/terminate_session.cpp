#include "mps/terminate_session.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"
#include "mps/control_text.h"

namespace tranche::mps {
namespace {

constexpr std::string_view kCudaInvalidContext = "201";  // the process runs and holds nothing at this server

// "10.0": the default percentage, always with one decimal; no line of terminate_client's looks like that.
bool is_mark(std::string_view line) {
  const auto point = line.find('.');
  return point != std::string_view::npos && parse_unsigned(line.substr(0, point)) &&
         parse_unsigned(line.substr(point + 1));
}

bool says_not_there(std::string_view line) {
  return line.starts_with("Invalid process ") ||
         (line.starts_with("Server ") && (line.ends_with(" not found") || line.ends_with(" not found!")));
}

std::string joined(const std::vector<std::string_view>& lines) {
  return join(std::vector<std::string>(lines.begin(), lines.end()), " / ");
}

Terminated outcome_of(int pid, const std::vector<std::string_view>& lines) {
  if (lines.size() == 1 && lines[0] == "0") return {pid, TerminateOutcome::kTerminated, ""};
  for (const auto line : lines) {
    if (says_not_there(line)) return {pid, TerminateOutcome::kNotAClient, std::string(line)};
  }
  if (lines.size() == 1 && lines[0] == kCudaInvalidContext) {
    return {pid, TerminateOutcome::kNotAClient, "MPS answers 201: it has no context there"};
  }
  if (lines.empty()) return {pid, TerminateOutcome::kRefused, "MPS answers nothing"};
  if (lines.size() == 1 && parse_unsigned(lines[0])) {
    return {pid, TerminateOutcome::kRefused, fmt::format("MPS answers CUDA error {}", lines[0])};
  }
  return {pid, TerminateOutcome::kRefused, "MPS answers " + in_quotes(joined(lines))};
}

// Which of two answers about one process tells more.
int weight(TerminateOutcome outcome) {
  switch (outcome) {
    case TerminateOutcome::kTerminated:
      return 3;
    case TerminateOutcome::kTimedOut:
      return 2;
    case TerminateOutcome::kRefused:
      return 1;
    case TerminateOutcome::kNotAClient:
      return 0;
  }
  return 0;
}

void merge(std::vector<Terminated>& all, Terminated one) {
  const auto found = std::ranges::find(all, one.pid, &Terminated::pid);
  if (found == all.end()) {
    all.push_back(std::move(one));
  } else if (weight(one.outcome) > weight(found->outcome)) {
    *found = std::move(one);
  }
}

}  // namespace

std::vector<TerminateAsked> terminations(const std::vector<int>& servers, const std::vector<int>& pids) {
  std::vector<TerminateAsked> asked;
  for (const int pid : pids) {
    if (std::ranges::find(asked, pid, &TerminateAsked::pid) != asked.end()) continue;
    for (const int server : servers) asked.push_back({server, pid});
  }
  return asked;
}

std::vector<std::string> terminate_session(const std::vector<TerminateAsked>& asked) {
  std::vector<std::string> commands;
  for (const auto& [server, pid] : asked) {
    commands.push_back(command::terminate_client(server, pid));
    commands.push_back(command::get_default_threads());
  }
  return commands;
}

std::vector<Terminated> parse_terminate_session(const std::vector<TerminateAsked>& asked, std::string_view text) {
  std::vector<Terminated> all;
  std::vector<std::string_view> answer;
  std::size_t at = 0;
  for (const auto raw : lines_of(text)) {
    const auto line = trimmed(raw);
    if (line.empty()) continue;
    if (!is_mark(line)) {
      answer.push_back(line);
      continue;
    }
    if (at < asked.size()) merge(all, outcome_of(asked[at].pid, answer));
    ++at;
    answer.clear();
  }
  for (; at < asked.size(); ++at) {
    merge(all, {asked[at].pid, TerminateOutcome::kTimedOut, "MPS did not get to it"});
  }
  return all;
}

std::vector<Terminated> all_terminated_as(const std::vector<int>& pids, TerminateOutcome outcome,
                                          const std::string& note) {
  std::vector<Terminated> all;
  for (const int pid : pids) merge(all, {pid, outcome, note});
  return all;
}

}  // namespace tranche::mps
