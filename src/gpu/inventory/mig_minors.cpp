#include "gpu/inventory/mig_minors.h"

#include <fmt/format.h>

#include "base/text.h"

namespace tranche::gpu {
namespace {

constexpr std::size_t kMostQuoted = 3;
constexpr std::uint64_t kMostMinor = (1u << 20) - 1;  // the largest minor on Linux
constexpr std::uint64_t kMostInstance = 0xffff;       // far beyond any GPU, and safe in arithmetic

// "gpu0/gi7/access" or "gpu0/gi7/ci1/access".
bool read_instance(std::string_view name, std::uint32_t minor, MigMinors& table) {
  constexpr std::array<std::string_view, 3> kPrefixes{"gpu", "gi", "ci"};
  const auto pieces = split(name, '/');
  if (pieces.size() < 3 || pieces.size() > 4 || pieces.back() != "access") return false;
  std::array<std::uint32_t, 3> key{0, 0, kNoInstance};
  for (std::size_t i = 0; i + 1 < pieces.size(); ++i) {
    const auto [prefix, piece] = std::pair(kPrefixes.at(i), pieces[i]);
    const auto number = piece.starts_with(prefix) ? parse_unsigned(piece.substr(prefix.size())) : std::nullopt;
    if (!number || *number > kMostInstance) return false;
    key.at(i) = static_cast<std::uint32_t>(*number);
  }
  table.nodes[key] = minor;
  return true;
}

bool read_line(std::string_view line, MigMinors& table) {
  const auto words = words_of(line);
  if (words.size() != 2) return false;
  const auto number = parse_unsigned(words[1]);
  if (!number || *number > kMostMinor) return false;
  if (words[0] == "config" || words[0] == "monitor") return true;  // give access to no instance
  return read_instance(words[0], static_cast<std::uint32_t>(*number), table);
}

}  // namespace

std::optional<std::uint32_t> MigMinors::of(std::uint32_t gpu_minor, std::uint32_t gi, std::uint32_t ci) const {
  const auto found = nodes.find({gpu_minor, gi, ci});
  return found == nodes.end() ? std::nullopt : std::optional(found->second);
}

MigMinors parse_mig_minors(std::string_view text) {
  MigMinors table;
  std::size_t number = 0;
  for (const std::string_view line : lines_of(text)) {
    ++number;
    if (trimmed(line).empty() || read_line(line, table)) continue;
    ++table.bad_lines;
    if (table.not_understood.size() < kMostQuoted)
      table.not_understood.push_back(fmt::format(
          "line {} is {}, which is neither a GPU instance's node (gpu0/gi1/access 12) nor config or monitor", number,
          in_quotes(line)));
  }
  return table;
}

}  // namespace tranche::gpu
