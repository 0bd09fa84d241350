#include "termination/live/survival.h"

#include <dirent.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>

#include "base/text.h"
#include "os/files/files.h"
#include "os/process/threads.h"

namespace tranche::host {
namespace {

constexpr std::size_t kDeepest = 64;

Result<std::string> read_of(const std::string& proc, pid_t pid, std::string_view name) {
  return read_file(fmt::format("{}/{}/{}", proc, pid, name));
}

// /proc lists the processes at the time of reading, so open a new directory instead of using Dir's.
Result<std::vector<std::string>> threads_of(const std::string& path, std::size_t most) {
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(::opendir(path.c_str()), &::closedir);
  if (!folder) return std::unexpected(error_from_errno(errno, "cannot list", path));
  std::vector<std::string> names;
  while (const dirent* entry = ::readdir(folder.get())) {
    if (!parse_unsigned(entry->d_name)) continue;
    if (names.size() == most) return fail(Kind::kInvalid, "too many threads", path);
    names.emplace_back(entry->d_name);
  }
  return names;
}

std::optional<stopping::Place> place(pid_t pid, const std::string& proc) {
  const auto status = read_of(proc, pid, "status");
  return status ? stopping::place_of(*status) : std::nullopt;
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
  Look look{.place = place(pid, proc_), .cgroup = {}, .mounts = {}};
  const auto read = [&look](const std::string& folder, pid_t) {
    look.mounts = mounts_of(folder);
    if (auto cgroup = read_file(folder + "/cgroup")) look.cgroup = *std::move(cgroup);
    return false;
  };
  look_at_living_thread(pid, read, proc_);
  return &looks_.emplace(pid, std::move(look)).first->second;
}

std::optional<std::vector<pid_t>> Ancestors::of(pid_t client) {
  std::vector<pid_t> above;
  const Look* const own = look(client);
  if (own == nullptr) return std::nullopt;
  for (const Look* here = own; here->place && own->cgroup && above.size() < kDeepest && here->place->parent > 1;) {
    const auto parent = static_cast<pid_t>(here->place->parent);
    if (stopping::is_init(*here->place)) break;  // the parent of PID 1 of a namespace is outside of it
    const Look* const its = look(parent);
    if (its == nullptr) return std::nullopt;
    if (!its->place || !its->cgroup) break;
    // A container has neither the node's mounts nor this process's.
    if (!its->mounts.empty() && (its->mounts == ours_ || its->mounts == nodes_)) break;
    // A shim; or the pause process of a pod whose containers share their pid namespace.
    const bool own_namespace = its->place->namespaced.size() >= 2;
    if (!is_below(*own->cgroup, *its->cgroup) && (!own_namespace || stopping::is_init(*its->place))) break;
    above.push_back(parent);
    here = its;
  }
  return above;
}

namespace {

// Reads the parts of /proc that one request needs: each first process once, and a bounded number of thread files.
class Reading {
 public:
  Reading(int stop_signal, const std::string& proc) : signal_(stop_signal), proc_(proc), ancestors_(proc) {}

  stopping::Fate fate(pid_t client) {
    const auto found = ancestors_.of(client);
    if (!found)
      return {false, "it cannot be read: its container has too many processes, or reading them takes too long"};
    const auto& above = *found;
    if (time_.spent()) return {false, "it cannot be read: reading its container's processes takes too long"};
    const auto texts = process(client, true, above.empty());
    if (!texts) return {false, "it cannot be read: " + to_string(texts.error())};
    const auto machine = stopping::this_machine();
    if (above.empty()) return stopping::fate_of(*texts, &*texts, true, signal_, machine);
    auto known = firsts_.find(above.back());
    if (known == firsts_.end()) known = firsts_.emplace(above.back(), process(above.back(), false, true)).first;
    return stopping::fate_of(*texts, known->second ? &*known->second : nullptr, false, signal_, machine);
  }

 private:
  Result<stopping::ProcessTexts> process(pid_t pid, bool is_client, bool is_first) {
    stopping::ProcessTexts texts;
    TRY(texts.status, read_of(proc_, pid, "status"));
    const auto needed = stopping::threads_needed(texts.status, is_client, is_first, signal_);
    if (needed == stopping::ThreadsNeeded::kNone) return texts;
    const bool calls = needed == stopping::ThreadsNeeded::kMasksAndCalls;
    const std::size_t most = left_ / (calls ? 2 : 1);
    // Listing the threads of a process is costly too. If this does not prove that the first process ignores the signal,
    // the client's own threads decide.
    if (stopping::thread_count(texts.status).value_or(most + 1) > most) {
      if (!is_client) return texts;
      return fail(Kind::kInvalid, "too many threads");
    }
    const std::string folder = fmt::format("{}/{}/task", proc_, pid);
    TRY(const auto threads, threads_of(folder, most));
    for (const auto& thread : threads) {
      if (time_.spent()) {
        if (is_client) return fail(Kind::kInvalid, "reading its threads takes too long");
        texts.threads.clear();
        return texts;
      }
      left_ -= calls ? 2 : 1;
      auto& each = texts.threads.emplace_back();
      TRY(each.status, read_file(folder + "/" + thread + "/status"));
      if (stopping::settles(needed, each.status, signal_)) break;
      if (!calls) continue;
      TRY(each.syscall, read_file(folder + "/" + thread + "/syscall"));
    }
    return texts;
  }

  int signal_;
  const std::string& proc_;
  Ancestors ancestors_;
  std::size_t left_ = kMostThreadFiles;
  CpuBudget time_{kMostLookTime};
  std::map<pid_t, Result<stopping::ProcessTexts>> firsts_;
};

}  // namespace

std::vector<stopping::Fate> client_fates(const std::vector<pid_t>& clients, int stop_signal, const std::string& proc) {
  Reading reading(stop_signal, proc);
  std::vector<stopping::Fate> fates;
  for (const pid_t client : clients) fates.push_back(reading.fate(client));
  return fates;
}

}  // namespace tranche::host
