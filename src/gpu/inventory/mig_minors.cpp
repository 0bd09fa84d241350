#include <fmt/format.h>

#include <map>

#include "base/text.h"
#include "gpu/inventory/inventory.h"

namespace tranche::gpu {
namespace {

constexpr std::size_t kMostQuoted = 3;
constexpr std::uint64_t kMostMinor = (1u << 20) - 1;  // the largest minor on Linux
constexpr std::uint64_t kMostInstance = 0xffff;       // far beyond any GPU, and safe in arithmetic

using Nodes = std::map<std::array<std::uint32_t, 3>, std::uint32_t>;  // (GPU minor, GI, CI or kNoInstance) → n

// "gpu0/gi7/access" or "gpu0/gi7/ci1/access".
bool read_instance(std::string_view name, std::uint32_t minor, Nodes& nodes) {
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
  nodes[key] = minor;
  return true;
}

bool read_line(std::string_view line, Nodes& nodes) {
  const auto words = words_of(line);
  if (words.size() != 2) return false;
  const auto number = parse_unsigned(words[1]);
  if (!number || *number > kMostMinor) return false;
  if (words[0] == "config" || words[0] == "monitor") return true;  // give access to no instance
  return read_instance(words[0], static_cast<std::uint32_t>(*number), nodes);
}

}  // namespace

void set_mig_nodes(std::string_view table, const std::string& path, Inventory& inventory) {
  Nodes nodes;
  std::size_t number = 0, bad = 0;
  for (const std::string_view line : lines_of(table)) {
    ++number;
    if (trimmed(line).empty() || read_line(line, nodes)) continue;
    if (++bad <= kMostQuoted)
      inventory.doubts.push_back(fmt::format(
          "{}: line {} is {}, which is neither a GPU instance's node (gpu0/gi1/access 12) nor config or monitor", path,
          number, in_quotes(line)));
  }
  if (bad > kMostQuoted) inventory.doubts.push_back(fmt::format("{}: {} lines are not understood", path, bad));
  const auto node_of = [&](std::uint32_t gpu_minor, std::uint32_t gi, std::uint32_t ci) {
    const auto found = nodes.find({gpu_minor, gi, ci});
    return found == nodes.end() ? std::nullopt : std::optional(found->second);
  };
  for (Gpu& gpu : inventory.gpus) {
    for (MigDevice& mig : gpu.mig_devices) {
      mig.gi_cap = node_of(gpu.minor, mig.gpu_instance, kNoInstance);
      mig.ci_cap = node_of(gpu.minor, mig.gpu_instance, mig.compute_instance);
      if (!mig.gi_cap || !mig.ci_cap)
        inventory.doubts.push_back(name_of(gpu, mig) + ": " + path + " does not list the device nodes that open it");
    }
  }
}

}  // namespace tranche::gpu
