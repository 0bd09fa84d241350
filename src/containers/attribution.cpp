#include "containers/attribution.h"

#include <algorithm>
#include <array>
#include <span>
#include <utility>
#include <vector>

#include "base/text.h"

namespace tranche::containers {
namespace {

constexpr std::size_t kGrantDigits = 16;

bool is_hex(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
}

// Blanks, tabs, line ends and backslashes are encoded as three octal digits.
std::string unescaped(std::string_view text) {
  std::string plain;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto code = text[i] == '\\' && i + 3 < text.size() ? parse_unsigned(text.substr(i + 1, 3), 8) : std::nullopt;
    if (code && *code < 256) {
      plain += static_cast<char>(*code);
      i += 3;
    } else {
      plain += text[i];
    }
  }
  return plain;
}

// The rest of `path` below `directory`: "" for the directory itself, "/a" for an entry in it.
std::optional<std::string_view> below(std::string_view path, std::string_view directory) {
  while (directory.ends_with('/')) directory.remove_suffix(1);
  if (!path.starts_with(directory)) return std::nullopt;
  path.remove_prefix(directory.size());
  if (!path.empty() && !path.starts_with('/')) return std::nullopt;
  return path;
}

}  // namespace

bool is_grant(std::string_view name) {
  return name.size() == kGrantDigits && std::ranges::all_of(name, is_hex);
}

std::optional<std::string> mounted_at(std::string_view mountinfo, std::string_view path) {
  std::optional<std::string> found;
  std::size_t longest = 0;
  for (const auto line : lines_of(mountinfo)) {
    const auto fields = split(line, ' ');  // 36 35 98:0 <root> <mount point> <options> … (proc(5))
    if (fields.size() < 6) continue;
    const std::string point = unescaped(fields[4]);
    const auto rest = below(path, point);
    if (!rest || (found && point.size() < longest)) continue;  // of several mounts at one point the last is on top
    longest = point.size();
    std::string root = unescaped(fields[3]);
    if (root == "/") root.clear();
    found = std::string(fields[2]) + " " + root + std::string(*rest);
  }
  return found;
}

// --- by its control group --------------------------------------------------------------------------------------------

namespace {

// "7b0d4e5c-1f2a-…", kubelet's name of a pod, with '_' as systemd's unit names require, or a static pod's digest.
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

// "pod<uid>"
std::optional<std::string> pod_of(std::string_view name) {
  return name.starts_with("pod") ? pod_uid(name.substr(3)) : std::nullopt;
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

using Parts = std::span<const std::string_view>;

std::string_view at(Parts parts, std::size_t i) {
  return i < parts.size() ? parts[i] : std::string_view();
}

constexpr std::string_view kSlice = ".slice";

// Takes the slices off the beginning, each in the one whose name it extends by a word, and returns the words. Only
// systemd creates these. `inside`: the path may begin further down.
std::vector<std::string_view> words_of_slices(Parts& parts, bool inside) {
  std::vector<std::string_view> words;
  std::string above;  // "kubepods-"
  for (; at(parts, 0).ends_with(kSlice); parts = parts.subspan(1)) {
    const auto name = parts[0].substr(0, parts[0].size() - kSlice.size());
    if (!name.starts_with(above)) return {};
    const auto added = split(name.substr(above.size()), '-');
    if (added.front().empty() || (added.size() > 1 && !(inside && words.empty()))) return {};
    words.insert(words.end(), added.begin(), added.end());
    above = std::string(name) + "-";
  }
  return words;
}

// The names down to the pod's are [<root>/]kubepods[/<quality>]/pod<uid>: with kubelet's cgroupfs driver folders, with
// systemd's the words of slices.
std::optional<Container> container_in(Parts parts, bool inside) {
  const bool sliced = at(parts, 0).ends_with(kSlice);
  auto names = sliced ? words_of_slices(parts, inside) : std::vector<std::string_view>();
  for (; !sliced && !parts.empty() && (names.empty() || !pod_of(names.back())); parts = parts.subspan(1))
    names.push_back(parts[0]);
  auto pod = names.empty() ? std::nullopt : pod_of(names.back());
  auto id = container_id(at(parts, 0));
  if (!pod || !id) return std::nullopt;
  names.pop_back();
  const auto ends_with = [&names](std::string_view name) { return !names.empty() && names.back() == name; };
  if (ends_with("burstable") || ends_with("besteffort")) names.pop_back();
  const bool cut = inside && !sliced && names.empty();
  if (!cut && !ends_with("kubepods")) return std::nullopt;
  if (!cut) names.pop_back();
  // A folder's name may be that of a systemd unit, whose content a user may control.
  if (!sliced && (names.size() > 1 || at(names, 0).contains('.'))) return std::nullopt;
  return Container{*std::move(pod), *std::move(id)};
}

std::optional<Container> container_of_path(std::string_view path) {
  if (!path.starts_with('/')) return std::nullopt;
  const auto all = split(path.substr(1), '/');
  Parts parts = all;
  while (at(parts, 0) == "..") parts = parts.subspan(1);
  const bool inside = parts.size() < all.size();
  // A node that is a Docker container, such as kind's.
  if (at(parts, 0) == "docker" && container_id(at(parts, 1)) == at(parts, 1)) parts = parts.subspan(2);
  if (at(parts, 0) != "system.slice" || at(parts, 1) != "containerd.service") return container_in(parts, inside);
  // containerd without the systemd driver under a kubelet with it: "<pod's slice>:cri-containerd:<id>" in one part
  const auto pieces = split(at(parts, 2), ':');
  if (pieces.size() != 3 || !pieces[0].ends_with(kSlice)) return std::nullopt;
  return container_in(std::array{pieces[0], pieces[2]}, true);
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

}  // namespace tranche::containers
