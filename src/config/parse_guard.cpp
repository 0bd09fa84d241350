#include "config/duration.h"
#include "config/sections.h"

namespace tranche::config {
namespace {

void read_interval(const Value& value, Duration& into) {
  if (!value.given()) return;
  value.note_given();
  const char* remedy = "write for example 100ms";
  const auto text = value.text();
  if (!text) return;
  const auto duration = parse_duration(*text);
  if (!duration) return value.error("must be a duration, but is " + in_quotes(*text), remedy);
  if (*duration < kGuardIntervalLeast || *duration > kGuardIntervalMost)
    return value.error("must be from " + render_duration(kGuardIntervalLeast) + " to " +
                           render_duration(kGuardIntervalMost) + ", but is " + *text,
                       remedy);
  into = *duration;
}

}  // namespace

std::string_view to_string(GuardMemory value) {
  switch (value) {
    case GuardMemory::kObserve:
      return "observe";
    case GuardMemory::kRefuseNew:
      return "refuse-new";
    case GuardMemory::kTerminateNewest:
      return "terminate-newest";
    case GuardMemory::kTerminateAll:
      return "terminate-all";
  }
  return "";
}

std::string_view to_string(GuardStrangers value) {
  return value == GuardStrangers::kObserve ? "observe" : "terminate";
}

void parse_guard(const Value& section, Guard& guard) {
  if (!section.given()) return;
  if (section.node().kind != Node::Kind::kMapping)
    return section.wrong_type("a mapping", "write memory: terminate-newest below it, or remove it");
  const Fields f(section);
  read_interval(f["interval"], guard.interval);
  f["memory"].read_word(guard.memory, kGuardMemories);
  f["strangers"].read_word(guard.strangers, kGuardStrangers);
}

std::optional<GuardMemory> parse_entry_guard(const Value& section) {
  if (!section.given()) return std::nullopt;
  if (section.node().kind != Node::Kind::kMapping) {
    section.wrong_type("a mapping", "write guard: {memory: terminate-newest}, or remove it");
    return std::nullopt;
  }
  const Fields f(section);
  if (!f["memory"].given()) return std::nullopt;
  GuardMemory memory = Guard{}.memory;
  f["memory"].read_word(memory, kGuardMemories);
  return memory;
}

}  // namespace tranche::config
