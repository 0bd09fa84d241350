#include "mps/relay/relay_questions.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "mps/limits/grant_limits.h"

namespace tranche::mps {
namespace {

constexpr std::string_view kText{"\0\0\0\0", 4};  // the text that follows in this message is for people

std::string text(const std::string& said) {
  return std::string(kText) + said;
}

const std::string* device_called(const std::string& name, std::span<const std::string> devices) {
  if (const auto found = std::ranges::find(devices, name); found != devices.end()) return &*found;
  std::size_t ordinal = 0;
  const char* const end = name.data() + name.size();
  const auto [stop, error] = std::from_chars(name.data(), end, ordinal);
  return error == std::errc() && stop == end && ordinal < devices.size() ? &devices[ordinal] : nullptr;
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

std::string answer_to(const RelayQuestion& question, const DaemonLimits& limits, std::span<const std::string> devices) {
  if (question.kind == RelayQuestion::Kind::kThreads)
    return text(fmt::format("{}.{}", limits.threads.hundredths / 100, limits.threads.hundredths / 10 % 10));
  const std::string* device = device_called(question.device, devices);
  if (device == nullptr) return {};
  const auto found = std::ranges::find(limits.memory, *device, &std::pair<std::string, Bytes>::first);
  if (found == limits.memory.end() || found->second >= kNoMemoryLimit) return {};
  return text(as_printed(found->second));
}

}  // namespace tranche::mps
