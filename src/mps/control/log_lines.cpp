#include "mps/control/log_lines.h"

#include <algorithm>
#include <limits>

#include "base/enum_names.h"
#include "base/text.h"

namespace tranche::mps {
namespace {

// Removes `prefix` from the front; returns false and changes nothing if it is absent.
bool take(std::string_view& text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return false;
  text.remove_prefix(prefix.size());
  return true;
}

// Removes the digits from the front.
std::optional<int> take_number(std::string_view& text) {
  const auto end = text.find_first_not_of("0123456789");
  const auto number = parse_unsigned(text.substr(0, end));
  if (!number || *number > static_cast<std::uint64_t>(std::numeric_limits<int>::max())) return std::nullopt;
  text.remove_prefix(end == std::string_view::npos ? text.size() : end);
  return static_cast<int>(*number);
}

// "… {PID: 554, Context ID: 1} …": returns the pid and leaves the text after the brace.
std::optional<int> take_client(std::string_view& text, int* context = nullptr) {
  if (!take(text, "{PID: ")) return std::nullopt;
  const auto pid = take_number(text);
  const auto brace = text.find('}');
  if (context != nullptr && take(text, ", Context ID: ")) {
    const bool negative = take(text, "-");  // a client may say any number, and the server prints it as a signed one
    *context = take_number(text).value_or(0) * (negative ? -1 : 1);
    return pid && take(text, "}") ? pid : std::nullopt;
  }
  if (!pid || brace == std::string_view::npos) return std::nullopt;
  text.remove_prefix(brace + 1);
  return pid;
}

void set(LogLine& line, LogWhat what, std::optional<int> pid) {
  if (!pid) return;
  line.what = what;
  line.pid = *pid;
}

void read_control(LogLine& line) {
  std::string_view rest = line.text;
  if (take(rest, "NEW CLIENT ")) {
    const auto pid = take_number(rest);
    const bool has_uid = take(rest, " from user ");
    const auto uid = has_uid ? take_number(rest) : std::nullopt;
    if (uid && rest.starts_with(":")) set(line, LogWhat::kNewClient, pid);
  } else if (take(rest, "Starting new server ")) {
    const auto pid = take_number(rest);
    const auto uid = take(rest, " for user ") ? take_number(rest) : std::nullopt;
    if (uid) set(line, LogWhat::kServerStarting, pid);
  } else if (take(rest, "NEW SERVER ")) {
    const auto pid = take_number(rest);
    if (rest == ": Ready") set(line, LogWhat::kServerReady, pid);
  } else if (take(rest, "Server ")) {
    const auto pid = take_number(rest);
    const auto status = take(rest, " exited with status ") ? take_number(rest) : std::nullopt;
    if (status && rest.empty()) {
      set(line, LogWhat::kServerExited, pid);
      line.number = *status;
    }
  }
}

void read_server(LogLine& line) {
  std::string_view rest = line.text;
  if (take(rest, "Client process ")) {
    const auto pid = take_number(rest);
    if (rest == " disconnected") set(line, LogWhat::kClientLeft, pid);
  } else if (take(rest, "Client ")) {
    int context = 0;
    const auto pid = take_client(rest, &context);
    if (rest == " encountered a fatal GPU error.") set(line, LogWhat::kFatalCulprit, pid);
    if (rest == " connected") set(line, LogWhat::kClientTaken, pid);
    if (rest.starts_with(" exiting. Number of active client contexts is ")) set(line, LogWhat::kContextEnded, pid);
    line.number = context;
  } else if (take(rest, "Status of client ")) {
    const auto pid = take_client(rest, &line.number);
    if (rest == " is ACTIVE") set(line, LogWhat::kContextBegan, pid);
  } else if (take(rest, "All clients belonging to error trigging process ")) {
    const auto pid = take_number(rest);
    if (rest == " will be torn down") set(line, LogWhat::kFatalVictim, pid);
  } else if (take(rest, "Failed to accept client ")) {
    const auto pid = take_client(rest);
    const auto status = take(rest, " with status ") ? take_number(rest) : std::nullopt;
    if (status) {
      set(line, LogWhat::kClientRefused, pid);
      line.number = *status;
    }
  } else if (take(rest, "Server failed to recevie command with status ")) {  // misspelled by the server itself
    const bool has_status = take_number(rest) && take(rest, ", assuming client ");
    const auto pid = has_status ? take_client(rest, &line.number) : std::nullopt;
    if (rest == " exit") set(line, LogWhat::kClientLost, pid);
  } else if (rest == "Server is handling a fatal GPU error.") {
    line.what = LogWhat::kFatalHandled;
  } else if (rest.starts_with("Server encountered a fatal exception")) {
    line.what = LogWhat::kFatalException;
  }
}

constexpr std::size_t kMostRemembered = 256;  // deaths; bounds the cost of a log that repeats them

template <class T>
void remember(std::deque<T>& all, T one) {
  all.push_back(std::move(one));
  if (all.size() > kMostRemembered) all.pop_front();
}

}  // namespace

std::optional<LogLine> parse_log_line(std::string_view line) {
  constexpr std::size_t kWhen = std::string_view("2026-11-21 17:27:39.177").size();
  const auto close = line.find("] ");
  if (!line.starts_with('[') || close == std::string_view::npos || close < kWhen + 2) return std::nullopt;
  LogLine out;
  const auto when = line.substr(1, kWhen);
  if (when[4] != '-' || when[7] != '-' || when[10] != ' ' || when[13] != ':' || when[19] != '.') return std::nullopt;
  const auto writer = trimmed(line.substr(1 + kWhen, close - 1 - kWhen));  // "Server   532"
  const auto blank = writer.rfind(' ');
  if (blank == std::string_view::npos) return std::nullopt;
  std::string_view digits = writer.substr(blank + 1);
  const auto pid = take_number(digits);
  if (!pid || !digits.empty()) return std::nullopt;
  out.writer = *pid;
  out.text = line.substr(close + 2);
  const auto role = trimmed(writer.substr(0, blank));
  if (role == "Control") read_control(out);
  if (role == "Server") read_server(out);
  return out;
}

// --- faults ----------------------------------------------------------------------------------------------------------

std::string_view to_string(FaultKind kind) {
  return enum_name<FaultKind::kUncleanExit>(kind, {"fatal", "exception", "unclean-exit"});
}

std::uint64_t FaultHistory::total(FaultKind kind) const {
  const auto found = totals_.find(kind);
  return found == totals_.end() ? 0 : found->second;
}

bool FaultHistory::add(Fault fault) {
  ++totals_[fault.kind];
  faults_.push_back(std::move(fault));
  if (faults_.size() > kMostFaults) faults_.pop_front();
  return true;
}

FaultHistory::Dying FaultHistory::dead_at(int server, const Processes& processes) const {
  const auto found =
      std::ranges::find_if(dying_, [&](const Dying& one) { return one.server == server && !processes.lives(one.pid); });
  return found == dying_.end() ? Dying() : *found;
}

bool FaultHistory::read(const LogLine& line, WallTime now, const Processes& processes) {
  const auto name = [&processes](Fault& fault, int pid) {
    if (auto grant = processes.grant_of(pid); !grant.empty()) fault.grants[pid] = std::move(grant);
  };
  const auto is_client = [&](const Dying& one) { return one.server == line.writer && one.pid == line.pid; };
  switch (line.what) {
    case LogWhat::kClientTaken:
      std::erase_if(left_, is_client);
      return false;
    case LogWhat::kClientLost:
      // Once, so that a client that destroys contexts all the time drives no other out.
      if (line.number != 0 && std::ranges::none_of(dying_, is_client) && std::ranges::none_of(left_, is_client))
        remember(dying_, {line.writer, line.pid, processes.grant_of(line.pid)});
      return false;
    case LogWhat::kClientLeft:
      std::erase_if(dying_, is_client);
      remember(left_, {line.writer, line.pid, ""});
      return false;
    case LogWhat::kFatalCulprit: {
      const Dying dead = dead_at(line.writer, processes);
      Fault fault{now, FaultKind::kFatal, line.pid, {}, line.writer};
      if (dead.pid != 0 && dead.pid != line.pid) {
        fault = {now, FaultKind::kUncleanExit, dead.pid, {line.pid}, line.writer};
        if (!dead.grant.empty()) fault.grants[dead.pid] = dead.grant;
      }
      name(fault, line.pid);
      return add(std::move(fault));
    }
    case LogWhat::kFatalVictim: {
      if (faults_.empty() || faults_.back().server != line.writer) return false;
      Fault& last = faults_.back();
      const bool known = line.pid == last.culprit || std::ranges::find(last.victims, line.pid) != last.victims.end();
      if (known || last.victims.size() >= kMostRemembered) return false;
      last.victims.push_back(line.pid);
      name(last, line.pid);
      return false;
    }
    case LogWhat::kFatalException:
      return add({now, FaultKind::kException, 0, {}, line.writer});
    case LogWhat::kServerExited:
      for (auto* list : {&dying_, &left_})
        std::erase_if(*list, [&](const Dying& one) { return one.server == line.pid; });
      return false;
    default:
      return false;
  }
}

}  // namespace tranche::mps
