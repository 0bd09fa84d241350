#include "mps/control/log_lines.h"

#include <algorithm>
#include <limits>
#include <span>

#include "base/text.h"

namespace tranche::mps {
namespace {

// Removes `prefix` from the front; returns false and changes nothing if it is absent.
bool take(std::string_view& text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return false;
  text.remove_prefix(prefix.size());
  return true;
}

// Removes the digits from the front; returns false and changes nothing if there are none.
bool take_number(std::string_view& text, int& number) {
  const auto end = text.find_first_not_of("0123456789");
  const auto read = parse_unsigned(text.substr(0, end));
  if (!read || *read > static_cast<std::uint64_t>(std::numeric_limits<int>::max())) return false;
  text.remove_prefix(end == std::string_view::npos ? text.size() : end);
  number = static_cast<int>(*read);
  return true;
}

// "{PID: 554, Context ID: 1}".
bool take_client(std::string_view& text, int& pid, int& context) {
  if (!take(text, "{PID: ") || !take_number(text, pid)) return false;
  if (take(text, ", Context ID: ")) {
    const bool negative = take(text, "-");  // a client may say any number, and the server prints it as a signed one
    if (take_number(text, context) && negative) context = -context;
    return take(text, "}");
  }
  const auto brace = text.find('}');
  if (brace != std::string_view::npos) text.remove_prefix(brace + 1);
  return brace != std::string_view::npos;
}

// In `text`, '#' is the line's pid, '=' its number, '%' another number, '@' a client with its context, which is the
// line's number unless '=' follows, and '*' anything up to the end.
struct Pattern {
  std::string_view text;
  LogWhat what;
};

constexpr Pattern kOfControl[] = {{"NEW CLIENT # from user %:*", LogWhat::kNewClient},
                                  {"Starting new server # for user %*", LogWhat::kServerStarting},
                                  {"NEW SERVER #: Ready", LogWhat::kServerReady},
                                  {"Server # exited with status =", LogWhat::kServerExited}};

constexpr Pattern kOfServer[] = {
    {"Client process # disconnected", LogWhat::kClientLeft},
    {"Client @ encountered a fatal GPU error.", LogWhat::kFatalCulprit},
    {"Client @ connected", LogWhat::kClientTaken},
    {"Client @ exiting. Number of active client contexts is *", LogWhat::kContextEnded},
    {"Status of client @ is ACTIVE", LogWhat::kContextBegan},
    {"All clients belonging to error trigging process # will be torn down", LogWhat::kFatalVictim},
    {"Failed to accept client @ with status =*", LogWhat::kClientRefused},
    // "recevie": as the server spells it.
    {"Server failed to recevie command with status %, assuming client @ exit", LogWhat::kClientLost},
    {"Server is handling a fatal GPU error.", LogWhat::kFatalHandled},
    {"Server encountered a fatal exception*", LogWhat::kFatalException}};

bool take_part(std::string_view& text, const char& part, LogLine& line) {
  int other = 0;
  switch (part) {
    case '#':
      return take_number(text, line.pid);
    case '=':
      return take_number(text, line.number);
    case '%':
      return take_number(text, other);
    case '@':
      return take_client(text, line.pid, line.number);
    default:
      return take(text, {&part, 1});
  }
}

bool fits(LogLine& line, std::string_view pattern) {
  std::string_view rest = line.text;
  for (const char& part : pattern) {
    if (part == '*') return true;
    if (!take_part(rest, part, line)) return false;
  }
  return rest.empty();
}

LogLine read_line(const LogLine& line, std::span<const Pattern> patterns) {
  for (const auto& pattern : patterns) {
    LogLine read = line;
    read.what = pattern.what;
    if (fits(read, pattern.text)) return read;
  }
  return line;
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
  if (!take_number(digits, out.writer) || !digits.empty()) return std::nullopt;
  out.text = line.substr(close + 2);
  const auto role = trimmed(writer.substr(0, blank));
  if (role == "Control") return read_line(out, kOfControl);
  if (role == "Server") return read_line(out, kOfServer);
  return out;
}

// --- faults ----------------------------------------------------------------------------------------------------------

bool FaultHistory::add(Fault fault) {
  ++totals_[static_cast<std::size_t>(fault.kind)];
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
