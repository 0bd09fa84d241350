#include "containers/attribution.h"

#include <algorithm>
#include <span>
#include <utility>

#include "base/text.h"

namespace tranche::containers {
namespace {

constexpr std::size_t kGrantDigits = 16;

bool is_hex(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
}

// 36 35 98:0 <root> <mount point> <options> … - <type> <source> <super options>   (proc(5))
struct Mount {
  std::string_view device;
  std::string_view root;
  std::string_view point;
};

std::optional<Mount> read_mount(std::string_view line) {
  const auto fields = split(line, ' ');
  if (fields.size() < 6) return std::nullopt;
  return Mount{fields[2], fields[3], fields[4]};
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

std::optional<MountedDirectory> mounted_at(std::string_view mountinfo, std::string_view path) {
  std::optional<MountedDirectory> found;
  std::size_t longest = 0;
  for (const auto line : lines_of(mountinfo)) {
    const auto mount = read_mount(line);
    if (!mount) continue;
    const std::string point = unescaped(mount->point);
    const auto rest = below(path, point);
    if (!rest || (found && point.size() < longest)) continue;  // of several mounts at one point the last is on top
    longest = point.size();
    std::string root = unescaped(mount->root);
    if (root == "/") root.clear();
    found = MountedDirectory{std::string(mount->device), root + std::string(*rest)};
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

constexpr std::string_view kSlice = ".slice";

// "kubepods-pod<uid>.slice", "kubelet-kubepods-burstable-pod<uid>.slice"
std::optional<std::string> pod_of_slice(std::string_view part) {
  if (!part.ends_with(kSlice)) return std::nullopt;
  part.remove_suffix(kSlice.size());
  const auto at = part.rfind("-pod");
  if (at == std::string_view::npos) return std::nullopt;
  auto above = part.substr(0, at);
  for (const std::string_view quality : {"-burstable", "-besteffort"})
    if (above.ends_with(quality)) above.remove_suffix(quality.size());
  if (above != "kubepods" && !above.ends_with("-kubepods")) return std::nullopt;
  return pod_uid(part.substr(at + 4));
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

std::optional<Container> container_in(std::optional<std::string> pod, std::string_view part) {
  auto id = container_id(part);
  if (!pod || !id) return std::nullopt;
  return Container{*std::move(pod), *std::move(id)};
}

using Parts = std::span<const std::string_view>;

std::string_view at(Parts parts, std::size_t i) {
  return i < parts.size() ? parts[i] : std::string_view();
}

// kubelet's cgroupfs driver: [<root>/]kubepods[/<quality>]/pod<uid>/<container>. `inside`: the path may begin further
// down.
std::optional<Container> container_of_folders(Parts parts, bool inside) {
  std::size_t i = 0;
  // The name of a systemd unit, whose content a user may control.
  const auto is_unit = [](std::string_view name) { return name.find('.') != std::string_view::npos; };
  if (at(parts, 1) == "kubepods" && !is_unit(parts[0])) ++i;
  if (at(parts, i) == "kubepods") {
    ++i;
  } else if (!inside) {
    return std::nullopt;
  }
  if (at(parts, i) == "burstable" || at(parts, i) == "besteffort") ++i;
  const auto pod = at(parts, i);
  if (!pod.starts_with("pod")) return std::nullopt;
  return container_in(pod_uid(pod.substr(3)), at(parts, i + 1));
}

// With systemd: slices, each in the one whose name it extends, down to the pod's. Only systemd creates these.
std::optional<Container> container_of_slices(Parts parts, bool inside) {
  std::string_view above;
  for (std::size_t i = 0; i < parts.size() && parts[i].ends_with(kSlice); ++i) {
    const auto name = parts[i].substr(0, parts[i].size() - kSlice.size());
    const bool extends =
        above.empty() || (name.starts_with(above) && name.size() > above.size() + 1 && name[above.size()] == '-');
    const auto last = extends ? name.substr(above.empty() ? 0 : above.size() + 1) : std::string_view();
    const bool one_word = last.find('-') == std::string_view::npos || (above.empty() && inside);
    if (last.empty() || !one_word) return std::nullopt;
    if (auto pod = pod_of_slice(parts[i])) return container_in(std::move(pod), at(parts, i + 1));
    above = name;
  }
  return std::nullopt;
}

std::optional<Container> container_of_path(std::string_view path) {
  if (!path.starts_with('/')) return std::nullopt;
  const auto all = split(path.substr(1), '/');
  Parts parts = all;
  while (at(parts, 0) == "..") parts = parts.subspan(1);
  const bool inside = parts.size() < all.size();
  // A node that is a Docker container, such as kind's.
  if (at(parts, 0) == "docker" && container_id(at(parts, 1)) == at(parts, 1)) parts = parts.subspan(2);
  // containerd without the systemd driver under a kubelet with it: "<pod's slice>:cri-containerd:<id>" in one part
  if (at(parts, 0) == "system.slice" && at(parts, 1) == "containerd.service") {
    const auto pieces = split(at(parts, 2), ':');
    return pieces.size() == 3 ? container_in(pod_of_slice(pieces[0]), pieces[2]) : std::nullopt;
  }
  if (auto container = container_of_slices(parts, inside)) return container;
  return container_of_folders(parts, inside);
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
