#include "mps/daemon/tier.h"

#include <algorithm>

#include "base/text.h"

namespace tranche::mps {
namespace {

// Options are listed as "-S,--static-partitioning   words": the text before the first blank, split at commas.
bool lists_option(std::string_view help, std::string_view option) {
  for (const auto line : lines_of(help)) {
    for (const auto word : words_of(line)) {
      if (!word.starts_with('-')) break;
      const auto names = split(word, ',');
      if (std::ranges::find(names, option) != names.end()) return true;
    }
  }
  return false;
}

TierChoice untried(Tier tier) {
  return {tier, "sharing.mps.tier: " + std::string(to_string(tier)) +
                    " is in force; it is written from NVIDIA's manual and was not tried on hardware"};
}

}  // namespace

TierChoice fall_back(config::TierPolicy asked, const std::string& why) {
  return {Tier::kV2, "sharing.mps.tier: " + std::string(to_string(asked)) + " is not in force, v2 is: " + why};
}

TierChoice until_clients_leave(Tier running, Tier chosen) {
  return {running, "sharing.mps.tier: the daemon of tier " + std::string(to_string(running)) + " has clients; tier " +
                       std::string(to_string(chosen)) + " comes in force when they have left"};
}

std::string_view to_string(Tier tier) {
  switch (tier) {
    case Tier::kV2:
      return "v2";
    case Tier::kV3:
      return "v3";
  }
  return "v2";
}

Abilities abilities_in(std::string_view help) {
  return {.v3 = lists_option(help, "-p") || lists_option(help, "--protocol")};
}

TierChoice choose_tier(config::TierPolicy asked, const Abilities& abilities) {
  switch (asked) {
    case config::TierPolicy::kAuto:
    case config::TierPolicy::kV2:
      return {};
    case config::TierPolicy::kV3:
      if (!abilities.v3)
        return fall_back(asked, "this MPS control program has no -p (namespaces come with driver release 615)");
      return untried(Tier::kV3);
  }
  return {};
}

std::vector<std::string> not_enforced(Tier tier) {
  std::vector<std::string> holes{"memory bandwidth and L2 cache are shared",
                                 "a fatal GPU fault of one client ends all clients of the GPU"};
  switch (tier) {
    case Tier::kV2:
      holes.emplace_back("the memory limit counts for each process, not for the container");
      holes.emplace_back("a client's own variables can lift its memory limit");
      break;
    case Tier::kV3:
      holes.emplace_back(
          "the memory limit counts for each process, and a client's own variables can lift it, unless "
          "the kernel's limit is set as well");
      break;
  }
  return holes;
}

}  // namespace tranche::mps
