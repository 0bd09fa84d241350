#include "guard/cgroup.h"

#include <algorithm>
#include <vector>

#include "base/text.h"

namespace tranche::guard {
namespace {

bool is_hex(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
}

// "7b0d4e5c-1f2a-…" as kubelet names pods, with '_' where systemd's unit names need it, or a static pod's digest.
std::optional<std::string> pod_uid(std::string_view text) {
  constexpr std::string_view kShape = "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx";
  constexpr std::size_t kDigest = 32;
  if (text.size() == kDigest && std::ranges::all_of(text, is_hex)) return std::string(text);
  if (text.size() != kShape.size()) return std::nullopt;
  std::string uid(text);
  for (std::size_t i = 0; i < uid.size(); ++i) {
    if (kShape[i] == 'x' ? !is_hex(uid[i]) : uid[i] != '-' && uid[i] != '_') return std::nullopt;
    if (kShape[i] == '-') uid[i] = '-';
  }
  return uid;
}

// "pod<uid>", "kubepods-pod<uid>.slice", "kubelet-kubepods-burstable-pod<uid>.slice"
std::optional<std::string> pod_of(std::string_view part) {
  constexpr std::string_view kSlice = ".slice";
  const bool slice = part.ends_with(kSlice);
  if (slice) part.remove_suffix(kSlice.size());
  const auto at = part.rfind("pod");
  if (at == std::string_view::npos) return std::nullopt;
  const std::string_view before = part.substr(0, at);
  if (slice ? before.find("kubepods") == std::string_view::npos || !before.ends_with('-') : !before.empty())
    return std::nullopt;
  return pod_uid(part.substr(at + 3));
}

// "<id>", "crio-<id>", "cri-containerd-<id>.scope"
std::optional<std::string> container_id(std::string_view part) {
  constexpr std::size_t kDigits = 64;
  if (constexpr std::string_view kScope = ".scope"; part.ends_with(kScope)) part.remove_suffix(kScope.size());
  if (part.size() < kDigits) return std::nullopt;
  const std::string_view id = part.substr(part.size() - kDigits);
  const std::string_view before = part.substr(0, part.size() - kDigits);
  if (!std::ranges::all_of(id, is_hex)) return std::nullopt;
  if (!before.empty() && (!before.ends_with('-') || before.ends_with("conmon-"))) return std::nullopt;
  return std::string(id);
}

std::optional<Container> container_of_path(std::string_view path) {
  const auto parts = split(path, '/');
  for (std::size_t i = 0; i < parts.size(); ++i) {
    // containerd without the systemd driver under a kubelet with it: "<pod's slice>:cri-containerd:<id>" in one part
    const auto pieces = split(parts[i], ':');
    const auto uid = pod_of(pieces.front());
    if (!uid) continue;
    const auto id = pieces.size() == 3     ? container_id(pieces[2])
                    : i + 1 < parts.size() ? container_id(parts[i + 1])
                                           : std::nullopt;
    if (!id) return std::nullopt;
    return Container{*uid, *id};
  }
  return std::nullopt;
}

}  // namespace

std::optional<Container> container_of_cgroup(std::string_view text) {
  std::optional<Container> found;
  for (const auto line : lines_of(text)) {
    // <hierarchy>:<controllers>:<path>   (cgroups(7)); the path may hold colons
    const auto first = line.find(':');
    const auto second = first == std::string_view::npos ? first : line.find(':', first + 1);
    if (second == std::string_view::npos) continue;
    auto container = container_of_path(line.substr(second + 1));
    if (!container) continue;
    if (found && *found != *container) return std::nullopt;
    found = std::move(container);
  }
  return found;
}

}  // namespace tranche::guard
