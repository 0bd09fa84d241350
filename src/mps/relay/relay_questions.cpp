#include "mps/relay/relay_questions.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "mps/protocol/grant_limits.h"

namespace tranche::mps {
namespace {

constexpr std::string_view kText{"\0\0\0\0", 4};  // the text that follows in this message is for people

std::string text(const std::string& said) {
  return std::string(kText) + said;
}

std::optional<Bytes> memory_of(const std::string& name, const DaemonLimits& limits) {
  for (const auto& [uuid, memory] : limits.memory)
    if (uuid == name) return memory;
  std::size_t ordinal = 0;
  const char* const end = name.data() + name.size();
  const auto [stop, error] = std::from_chars(name.data(), end, ordinal);
  if (error != std::errc() || stop != end || ordinal >= limits.memory.size()) return std::nullopt;
  return limits.memory[ordinal].second;
}

}  // namespace

std::optional<std::uint64_t> length_announced(std::string_view bytes) {
  if (bytes.size() != 8) return std::nullopt;
  std::uint64_t length = 0;
  for (std::size_t at = 8; at-- > 0;) length = length << 8 | static_cast<unsigned char>(bytes[at]);
  return length;
}

std::optional<RelayQuestion> parse_question(std::string_view bytes) {
  if (bytes.empty() || bytes.back() != '\0') return std::nullopt;
  bytes.remove_suffix(1);
  if (bytes.ends_with('\n')) bytes.remove_suffix(1);
  while (bytes.ends_with(' ')) bytes.remove_suffix(1);
  if (bytes == "get_default_active_thread_percentage") return RelayQuestion{};
  constexpr std::string_view kMemory = "get_default_device_pinned_mem_limit ";
  if (!bytes.starts_with(kMemory)) return std::nullopt;
  bytes.remove_prefix(kMemory.size());
  const bool plain = std::ranges::all_of(bytes, [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || c == 'G' || c == 'P' || c == 'U' || c == 'M' ||
           c == 'I' || c == '-';
  });
  if (bytes.empty() || !plain) return std::nullopt;
  return RelayQuestion{RelayQuestion::Kind::kMemory, std::string(bytes)};
}

std::string answer_to(const RelayQuestion& question, const DaemonLimits& limits) {
  if (question.kind == RelayQuestion::Kind::kThreads)
    return text(fmt::format("{}.{}", limits.threads.hundredths / 100, limits.threads.hundredths / 10 % 10));
  const auto memory = memory_of(question.device, limits);
  return memory && *memory < kNoMemoryLimit ? text(as_printed(*memory)) : std::string();
}

}  // namespace tranche::mps
