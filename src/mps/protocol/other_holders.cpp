#include "mps/protocol/other_holders.h"

#include <algorithm>

#include "base/text.h"

namespace tranche::mps {
namespace {

constexpr std::size_t kLongest = 128;

bool is_device(std::string_view text) {
  const auto allowed = [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' || c == '/';
  };
  return (text.starts_with("GPU-") || text.starts_with("MIG-")) && text.size() <= kLongest &&
         std::ranges::all_of(text, allowed);
}

}  // namespace

std::string render_other_holders(const std::set<std::string>& devices) {
  std::string text;
  for (const auto& device : devices) text += device + "\n";
  return text;
}

std::set<std::string> parse_other_holders(std::string_view text) {
  std::set<std::string> devices;
  for (const auto line : lines_of(text))
    if (is_device(line)) devices.emplace(line);
  return devices;
}

}  // namespace tranche::mps
