#include "mps/endpoints/ancestors.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <limits>
#include <string_view>

#include "base/text.h"
#include "os/files/files.h"
#include "os/process/threads.h"

namespace tranche::agent {
namespace {

constexpr std::size_t kDeepest = 64;

std::optional<std::string_view> field(std::string_view status, std::string_view name) {
  for (const auto line : lines_of(status)) {
    if (line.size() > name.size() && line.starts_with(name) && line[name.size()] == ':')
      return trimmed(line.substr(name.size() + 1));
  }
  return std::nullopt;
}

std::optional<pid_t> pid_in(std::string_view text) {
  const auto number = parse_unsigned(text);
  return number && *number <= std::numeric_limits<pid_t>::max() ? std::optional(static_cast<pid_t>(*number))
                                                                : std::nullopt;
}

// "mnt:[4026531840]"; "" if it cannot be read.
std::string mounts_of(const std::string& process) {
  char link[64];
  const auto length = ::readlink((process + "/ns/mnt").c_str(), link, sizeof link);
  return length <= 0 ? std::string() : std::string(link, static_cast<std::size_t>(length));
}

// Whether a control group equals another or is below it, in every hierarchy; both in the format of /proc/<pid>/cgroup.
bool is_below(std::string_view cgroup, std::string_view other) {
  const auto lines = lines_of(cgroup), others = lines_of(other);
  return lines.size() == others.size() && std::ranges::equal(lines, others, [](auto line, auto above) {
           return line.starts_with(above) &&
                  (line.size() == above.size() || line[above.size()] == '/' || above.ends_with('/'));
         });
}

}  // namespace

// From a status (proc(5)), whose text is the kernel's.
std::optional<Ancestors::Place> Ancestors::place_of(const std::string& status) {
  const auto parent = field(status, "PPid");
  const auto namespaced = field(status, "NSpid");
  const auto of_parent = parent ? pid_in(*parent) : std::nullopt;
  if (!of_parent || !namespaced) return std::nullopt;
  Place place{.parent = *of_parent, .namespaced = {}};
  for (const auto word : words_of(*namespaced)) {
    const auto pid = pid_in(word);
    if (!pid || *pid == 0) return std::nullopt;
    place.namespaced.push_back(*pid);
  }
  return place.namespaced.empty() ? std::nullopt : std::optional(std::move(place));
}

// PID 1 of a namespace directly below the reader's.
bool Ancestors::is_init(const Place& place) {
  return place.namespaced.size() == 2 && place.namespaced.back() == 1;
}

Ancestors::Ancestors(std::string proc, std::size_t most_looks, Duration most_time)
    : proc_(std::move(proc)),
      left_(most_looks),
      time_(most_time),
      ours_(mounts_of(proc_ + "/self")),
      nodes_(mounts_of(proc_ + "/1")) {}

const Ancestors::Look* Ancestors::look(pid_t pid) {
  if (const auto known = looks_.find(pid); known != looks_.end()) return &known->second;
  if (left_ == 0 || time_.spent()) return nullptr;
  --left_;
  const auto status = host::read_file(fmt::format("{}/{}/status", proc_, pid));
  Look look{.place = status ? place_of(*status) : std::nullopt, .cgroup = {}, .mounts = {}};
  const auto read = [&look](const std::string& folder, pid_t) {
    look.mounts = mounts_of(folder);
    if (auto cgroup = host::read_file(folder + "/cgroup")) look.cgroup = *std::move(cgroup);
    return false;
  };
  host::look_at_living_thread(pid, read, proc_);
  return &looks_.emplace(pid, std::move(look)).first->second;
}

std::optional<std::vector<pid_t>> Ancestors::of(pid_t client) {
  std::vector<pid_t> above;
  const Look* const own = look(client);
  if (own == nullptr) return std::nullopt;
  for (const Look* here = own; here->place && own->cgroup && above.size() < kDeepest && here->place->parent > 1;) {
    const pid_t parent = here->place->parent;
    if (is_init(*here->place)) break;  // the parent of PID 1 of a namespace is outside of it
    const Look* const its = look(parent);
    if (its == nullptr) return std::nullopt;
    if (!its->place || !its->cgroup) break;
    // A container has neither the node's mounts nor this process's.
    if (!its->mounts.empty() && (its->mounts == ours_ || its->mounts == nodes_)) break;
    // A shim; or the pause process of a pod whose containers share their pid namespace.
    const bool own_namespace = its->place->namespaced.size() >= 2;
    if (!is_below(*own->cgroup, *its->cgroup) && (!own_namespace || is_init(*its->place))) break;
    above.push_back(parent);
    here = its;
  }
  return above;
}

}  // namespace tranche::agent
