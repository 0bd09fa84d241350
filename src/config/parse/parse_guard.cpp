#include "base/enum_names.h"
#include "config/document/duration.h"
#include "config/parse/sections.h"

namespace tranche::config {

void read_duration(const Value& value, Duration& into, Duration least, Duration most, const char* remedy) {
  if (!value.given()) return;
  value.note_given();
  const auto text = value.plain_text();
  if (!text) return value.wrong_type("a duration", remedy);
  const auto duration = parse_duration(*text);
  if (!duration) return value.error("must be a duration, but is " + in_quotes(*text), remedy);
  if (*duration < least || *duration > most)
    return value.error("must be from " + render_duration(least) + " to " + render_duration(most) + ", but is " + *text,
                       remedy);
  into = *duration;
}

std::string_view to_string(GuardMemory value) {
  return enum_name<GuardMemory::kTerminateAll>(value, {"observe", "refuse-new", "terminate-newest", "terminate-all"});
}

std::string_view to_string(GuardForeignProcesses value) {
  return value == GuardForeignProcesses::kObserve ? "observe" : "terminate";
}

void parse_guard(const Value& section, Guard& guard) {
  if (!section.given()) return;
  if (section.node().kind != Node::Kind::kMapping)
    return section.wrong_type("a mapping", "write memory: terminate-newest below it, or remove it");
  const Fields f(section);
  read_duration(f["interval"], guard.interval, kGuardIntervalLeast, kGuardIntervalMost, "write for example 100ms");
  f["memory"].read_word(guard.memory, kGuardMemories);
  f["foreignProcesses"].read_word(guard.foreign_processes, kGuardForeignProcesses);
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
