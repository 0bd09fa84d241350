#include "gpu/inventory/mig_minors.h"

#include <fmt/format.h>

#include "base/text.h"

namespace tranche::gpu {
namespace {

constexpr std::size_t kMostQuoted = 3;
constexpr std::uint64_t kMostMinor = (1u << 20) - 1;  // the largest minor on Linux
constexpr std::uint64_t kMostInstance = 0xffff;       // far beyond any GPU, and safe in arithmetic

// "gi7" → 7 for the prefix "gi".
std::optional<std::uint32_t> number_after(std::string_view prefix, std::string_view piece) {
  if (!piece.starts_with(prefix)) return std::nullopt;
  const auto number = parse_unsigned(piece.substr(prefix.size()));
  if (!number || *number > kMostInstance) return std::nullopt;
  return static_cast<std::uint32_t>(*number);
}

bool read_instance(std::string_view name, std::uint32_t minor, MigMinors& table) {
  const auto pieces = split(name, '/');
  if (pieces.size() < 3 || pieces.size() > 4 || pieces.back() != "access") return false;
  const auto gpu = number_after("gpu", pieces[0]);
  const auto gi = number_after("gi", pieces[1]);
  if (!gpu || !gi) return false;
  if (pieces.size() == 3) {
    table.gpu_instances[{*gpu, *gi}] = minor;
    return true;
  }
  const auto ci = number_after("ci", pieces[2]);
  if (!ci) return false;
  table.compute_instances[{*gpu, *gi, *ci}] = minor;
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

template <class Map>
std::optional<std::uint32_t> found_in(const Map& map, const typename Map::key_type& key) {
  const auto found = map.find(key);
  if (found == map.end()) return std::nullopt;
  return found->second;
}

}  // namespace

std::optional<std::uint32_t> MigMinors::of(std::uint32_t gpu_minor, std::uint32_t gi) const {
  return found_in(gpu_instances, {gpu_minor, gi});
}

std::optional<std::uint32_t> MigMinors::of(std::uint32_t gpu_minor, std::uint32_t gi, std::uint32_t ci) const {
  return found_in(compute_instances, {gpu_minor, gi, ci});
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
