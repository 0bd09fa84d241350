#pragma once
// Does a container survive its stop signal until its grace ends? The runtime sends the signal to the container's first
// process only, and the kernel keeps signals without a handler from the first process of a pid namespace. So a
// container whose init is PID 1 of its own namespace and takes no notice of the signal lives on until SIGKILL, and its
// clients may work until shortly before that; any other may be dead the moment after. This must be *proven*: whatever
// is missing, cut short or unknown reads as "may die". The texts are the kernel's, about a tenant: read as hostile.
// Pure; fuzzed.
//
// What hides in no signal mask is a thread in sigwait (tini, dumb-init): only `syscall` shows it. A call that swaps the
// mask while it waits (ppoll, sigsuspend …) hides what is blocked otherwise, and counts as doubt.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tranche::stopping {

enum class Machine { kX86_64, kArm64, kOther };
Machine this_machine();

struct ThreadTexts {
  std::string status;   // /proc/<init>/task/<tid>/status
  std::string syscall;  // /proc/<init>/task/<tid>/syscall
};

struct InitTexts {
  std::string status;  // /proc/<init>/status
  std::vector<ThreadTexts> threads;
};

struct Survival {
  bool survives = false;
  std::string why;  // in both cases
  friend bool operator==(const Survival&, const Survival&) = default;
};

Survival survives(const InitTexts& init, int stop_signal, Machine machine);

// The place of a process in its pid namespaces, from its status: what the search for a container's init needs.
struct Place {
  std::int64_t parent = 0;               // PPid
  std::vector<std::int64_t> namespaced;  // NSpid: from the reader's namespace inwards
};
std::optional<Place> place_of(std::string_view status);

// PID 1 of a namespace right below the reader's.
bool is_init(const Place& place);

}  // namespace tranche::stopping
