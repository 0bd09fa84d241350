#pragma once
// Does a container survive its stop signal until its grace period ends? The runtime sends the signal only to the
// container's first process, and the kernel does not deliver signals without a handler to the first process of a pid
// namespace. So a container whose init is PID 1 of its own namespace and does not handle the signal lives until
// SIGKILL, and its clients may work until shortly before that; any other may be dead a moment later. Survival must be
// *proven*: missing, truncated or unknown input means "may die". The texts are the kernel's, about a tenant, and are
// not trusted. Pure; fuzzed.
//
// A thread in sigwait (tini, dumb-init) is not visible in signal masks: only `syscall` shows it. A call that swaps the
// mask while it waits (ppoll, sigsuspend …) hides the usual mask, and counts as doubt.
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

// For an unknown stop signal: none of those that images use may end it.
Survival survives_usual_signals(const ProcessTexts& init, Machine machine);

// The effect of the stop signal on one CUDA client of a container that is about to be stopped.
struct Fate {
  bool keeps_grace = false;  // the signal does not kill it: it may work until shortly before the SIGKILL
  std::string why;           // in both cases
  bool reacts = false;       // it, or the first process, handles the signal, and may exit at once
  friend bool operator==(const Fate&, const Fate&) = default;
};
// `init`: the container's first process, the only one that receives the signal; null: not known. `client_is_init`: the
// client is that process. `stop_signal` 0: not known; SIGTERM is assumed. A client does not keep its grace period if
// the kernel's default action for the signal kills it or the first process. Whether a first process with a handler
// forwards the signal, and waits, is not visible.
Fate fate_of(const ProcessTexts& client, const ProcessTexts* init, bool client_is_init, int stop_signal,
             Machine machine);

// Which of a process's threads fate_of() needs, by the process's own status: handlers belong to the whole process, and
// the mask in its status is its first thread's. Reading threads is expensive, and a tenant may create thousands.
enum class ThreadsNeeded { kNone, kMasks, kMasksAndCalls };
ThreadsNeeded threads_needed(std::string_view status, bool is_client, bool is_first, int stop_signal);

// Whether one thread's text decides, so that the others need not be read.
bool settles(ThreadsNeeded needed, std::string_view thread_status, int stop_signal);

// The number of threads; absent: cannot be read.
std::optional<std::uint64_t> thread_count(std::string_view status);

// The position of a process in its pid namespaces, from its status: input of the search for a container's init.
struct Place {
  std::int64_t parent = 0;               // PPid
  std::vector<std::int64_t> namespaced;  // NSpid: from the reader's namespace inwards
};
std::optional<Place> place_of(std::string_view status);

// PID 1 of a namespace directly below the reader's.
bool is_init(const Place& place);

}  // namespace tranche::stopping
