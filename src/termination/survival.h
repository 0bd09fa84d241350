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

struct ProcessTexts {
  std::string status;  // /proc/<pid>/status
  std::vector<ThreadTexts> threads;
};

struct Survival {
  bool survives = false;
  std::string why;  // in both cases
  friend bool operator==(const Survival&, const Survival&) = default;
};

Survival survives(const ProcessTexts& init, int stop_signal, Machine machine);

// Where the stop signal is not known: none of those that images name may end it.
Survival survives_usual_signals(const ProcessTexts& init, Machine machine);

// What the stop signal does to one CUDA client of a container that is about to be stopped.
struct Fate {
  bool keeps_grace = false;  // the signal does not kill it: it may work until shortly before the SIGKILL
  std::string why;           // in both cases
  friend bool operator==(const Fate&, const Fate&) = default;
};
// `init`: the container's first process, which alone is sent the signal; null: not known. `client_is_init`: the client
// is that process. `stop_signal` 0: not known; SIGTERM is assumed. A client does not keep its grace when the signal, or
// the end of the first process by it, kills it by the kernel's default action. Whether a first process with a handler
// hands the signal on, and waits, cannot be seen.
Fate fate_of(const ProcessTexts& client, const ProcessTexts* init, bool client_is_init, int stop_signal,
             Machine machine);

// Which of a process's threads fate_of() needs, by the process's own status: handlers are the whole process's, and the
// mask in its status is its first thread's. To read threads is what costs, and a tenant may make thousands.
enum class ThreadsNeeded { kNone, kMasks, kMasksAndCalls };
ThreadsNeeded threads_needed(std::string_view status, bool is_client, bool is_first, int stop_signal);

// Whether one thread's text settles it, so that the others need not be read.
bool settles(ThreadsNeeded needed, std::string_view thread_status, int stop_signal);

// How many threads it has; absent: cannot be read.
std::optional<std::uint64_t> thread_count(std::string_view status);

// The place of a process in its pid namespaces, from its status: what the search for a container's init needs.
struct Place {
  std::int64_t parent = 0;               // PPid
  std::vector<std::int64_t> namespaced;  // NSpid: from the reader's namespace inwards
};
std::optional<Place> place_of(std::string_view status);

// PID 1 of a namespace right below the reader's.
bool is_init(const Place& place);

}  // namespace tranche::stopping
