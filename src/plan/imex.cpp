#include "plan/imex.h"

#include <fmt/format.h>

#include <algorithm>

namespace tranche::plan {
namespace {

std::vector<int> missing(const config::Imex& imex, const std::vector<int>& existing) {
  std::vector<int> channels;
  for (const int channel : imex.channel_ids)
    if (std::ranges::find(existing, channel) == existing.end()) channels.push_back(channel);
  return channels;
}

std::string node_of(int channel) {
  return fmt::format("/dev/nvidia-caps-imex-channels/channel{}", channel);
}

}  // namespace

std::vector<Problem> imex_problems(const config::Imex& imex, const std::vector<int>& existing) {
  std::vector<Problem> problems;
  for (const int channel : missing(imex, existing)) {
    const std::string is_not_there =
        fmt::format("channel {}, whose device node {} is not on this node", channel, node_of(channel));
    const std::string remedy =
        "create it (NVreg_CreateImexChannel0=1, or nvidia-modprobe), mount it into this container, or ";
    if (imex.required)
      problems.push_back({Severity::kError,
                          {},
                          "imex.required",
                          "is true for " + is_not_there + "; no device is handed out until it is there",
                          remedy + "write required: false"});
    else
      problems.push_back({Severity::kWarning,
                          {},
                          "imex.channelIDs",
                          "names " + is_not_there + "; it is left out of answers",
                          remedy + "take it out of the list"});
  }
  return problems;
}

std::string imex_block(const config::Imex& imex, const std::vector<int>& existing) {
  const auto channels = missing(imex, existing);
  if (!imex.required || channels.empty()) return {};
  return fmt::format("IMEX channel {} is required, and its device node {} is not there", channels.front(),
                     node_of(channels.front()));
}

}  // namespace tranche::plan
