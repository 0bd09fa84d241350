#include "termination/survival.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>

#include "base/text.h"

namespace tranche::stopping {
namespace {

// Calls that accept a signal or swap the mask while they wait, and the argument that shows it (0 = always; else the
// number of the argument that is then not null). asm/unistd.h of each machine. A 32-bit program has other numbers and
// cannot be identified as such, so the relevant calls are in both lists.
struct Waiting {
  std::uint64_t number;
  std::size_t mask_argument;
  std::string_view name;
};
constexpr std::array kOnX86{Waiting{128, 0, "rt_sigtimedwait"}, Waiting{130, 0, "rt_sigsuspend"},
                            Waiting{270, 6, "pselect6"},        Waiting{271, 4, "ppoll"},
                            Waiting{281, 5, "epoll_pwait"},     Waiting{333, 6, "io_pgetevents"},
                            Waiting{426, 5, "io_uring_enter"},  Waiting{441, 5, "epoll_pwait2"},
                            Waiting{177, 0, "rt_sigtimedwait"}, Waiting{421, 0, "rt_sigtimedwait"}};
constexpr std::array kOnArm{Waiting{137, 0, "rt_sigtimedwait"}, Waiting{133, 0, "rt_sigsuspend"},
                            Waiting{72, 6, "pselect6"},         Waiting{73, 4, "ppoll"},
                            Waiting{22, 5, "epoll_pwait"},      Waiting{292, 6, "io_pgetevents"},
                            Waiting{426, 5, "io_uring_enter"},  Waiting{441, 5, "epoll_pwait2"},
                            Waiting{177, 0, "rt_sigtimedwait"}, Waiting{421, 0, "rt_sigtimedwait"}};

constexpr int kTerm = 15;
// SIGTERM is the default; nginx uses SIGQUIT, systemd SIGRTMIN+3, others SIGUSR1 or SIGUSR2. SIGINT is not listed:
// every shell and every Python program catches it, and hardly any image uses it.
constexpr std::array kUsualStopSignals{kTerm, 3, 10, 12, 37};

std::span<const Waiting> waiting_calls(Machine machine) {
  return machine == Machine::kX86_64 ? std::span<const Waiting>(kOnX86) : std::span<const Waiting>(kOnArm);
}

std::optional<std::string_view> field(std::string_view status, std::string_view name) {
  for (const auto line : lines_of(status)) {
    if (line.size() > name.size() && line.starts_with(name) && line[name.size()] == ':')
      return trimmed(line.substr(name.size() + 1));
  }
  return std::nullopt;
}

std::optional<bool> in_mask(std::string_view status, std::string_view name, int signal) {
  const auto text = field(status, name);
  const auto mask = text ? parse_unsigned(*text, 16) : std::nullopt;
  if (!mask) return std::nullopt;
  return (*mask >> (signal - 1) & 1U) != 0;
}

Survival may_die(std::string why) {
  return {false, std::move(why)};
}

// "" if the thread neither blocks nor accepts the signal.
std::string what_takes_it(const ThreadTexts& thread, int signal, Machine machine) {
  const auto blocked = in_mask(thread.status, "SigBlk", signal);
  if (!blocked) return "a thread's signal mask cannot be read";
  if (*blocked) return "a thread has the signal blocked and may take it when it likes";
  const auto words = words_of(trimmed(thread.syscall));
  if (words.empty()) return "what a thread waits for cannot be read";
  if (words[0] == "running") return "a thread runs, and may wait for signals next";
  if (words[0].starts_with('-')) return "";  // asleep outside a system call: a fault, not a wait for signals
  const auto number = parse_unsigned(words[0]);
  if (!number || words.size() < 7) return "what a thread waits for cannot be read";
  for (const auto& call : waiting_calls(machine)) {
    if (call.number != *number) continue;
    if (call.mask_argument == 0 || words[call.mask_argument] != "0x0")
      return fmt::format("a thread waits in {}, where it may take signals", call.name);
  }
  return "";
}

}  // namespace

Machine this_machine() {
#if defined(__x86_64__)
  return Machine::kX86_64;
#elif defined(__aarch64__)
  return Machine::kArm64;
#else
  return Machine::kOther;
#endif
}

std::optional<Place> place_of(std::string_view status) {
  const auto parent = field(status, "PPid");
  const auto namespaced = field(status, "NSpid");
  if (!parent || !namespaced) return std::nullopt;
  Place place;
  const auto number = parse_signed(*parent);
  if (!number) return std::nullopt;
  place.parent = *number;
  for (const auto word : words_of(*namespaced)) {
    const auto pid = parse_signed(word);
    if (!pid || *pid <= 0) return std::nullopt;
    place.namespaced.push_back(*pid);
  }
  if (place.namespaced.empty()) return std::nullopt;
  return place;
}

bool is_init(const Place& place) {
  return place.namespaced.size() == 2 && place.namespaced.back() == 1;
}

namespace {

// What a process does with a signal according to its masks. "" if the kernel's default action ends it.
std::string how_it_lives(const ProcessTexts& process, int signal) {
  if (in_mask(process.status, "SigCgt", signal).value_or(false)) return "handles";
  if (in_mask(process.status, "SigIgn", signal).value_or(false)) return "ignores";
  // A process that reads signals with sigwait or a signalfd blocks them in all threads.
  const auto blocks = [signal](const ThreadTexts& thread) {
    return in_mask(thread.status, "SigBlk", signal).value_or(false);
  };
  return !process.threads.empty() && std::ranges::all_of(process.threads, blocks) ? "blocks" : "";
}

}  // namespace

ThreadsNeeded threads_needed(std::string_view status, bool is_client, bool is_first, int stop_signal) {
  const int signal = stop_signal == 0 ? kTerm : stop_signal;
  if (in_mask(status, "SigCgt", signal).value_or(false)) return ThreadsNeeded::kNone;
  const auto place = place_of(status);
  const bool blocks = in_mask(status, "SigBlk", signal).value_or(false);
  if (is_first && place && is_init(*place)) {
    // As a client it survives because it is an init; otherwise its threads must prove that none of them accepts the
    // signal.
    return is_client || blocks ? ThreadsNeeded::kNone : ThreadsNeeded::kMasksAndCalls;
  }
  if (in_mask(status, "SigIgn", signal).value_or(false)) return ThreadsNeeded::kNone;
  return blocks ? ThreadsNeeded::kMasks : ThreadsNeeded::kNone;
}

bool settles(ThreadsNeeded needed, std::string_view thread_status, int stop_signal) {
  const bool blocks = in_mask(thread_status, "SigBlk", stop_signal == 0 ? kTerm : stop_signal).value_or(false);
  // A thread that does not block the signal receives it; a thread of an init that blocks it may accept it at any time.
  return needed == ThreadsNeeded::kMasks ? !blocks : blocks;
}

std::optional<std::uint64_t> thread_count(std::string_view status) {
  const auto text = field(status, "Threads");
  return text ? parse_unsigned(*text) : std::nullopt;
}

Fate fate_of(const ProcessTexts& client, const ProcessTexts* init, bool client_is_init, int stop_signal,
             Machine machine) {
  if (init == nullptr) return {false, "the container's first process is not known", false};
  const int signal = stop_signal == 0 ? kTerm : stop_signal;
  const auto place = place_of(init->status);
  const bool kept = place && is_init(*place);  // the kernel does not deliver signals without a handler to it
  const auto init_lives = how_it_lives(*init, signal);
  if (client_is_init) {
    if (!init_lives.empty()) return {true, fmt::format("it {} the stop signal", init_lives), init_lives != "ignores"};
    if (kept) return {true, "it is PID 1 of its namespace: the stop signal does not end it", false};
    return {false, "the stop signal ends it", false};
  }
  if (kept && (stop_signal == 0 ? survives_usual_signals(*init, machine) : survives(*init, signal, machine)).survives)
    return {true, "the container's first process ignores the stop signal", false};
  if (!kept && init_lives.empty())
    return {false, "the stop signal ends the container's first process, and that ends it", false};
  const auto lives = how_it_lives(client, signal);
  if (lives.empty()) return {false, "it does not handle the stop signal, and its first process may hand it on", false};
  return {true, fmt::format("it {} the stop signal", lives), init_lives != "ignores"};
}

Survival survives_usual_signals(const ProcessTexts& init, Machine machine) {
  Survival verdict;
  for (const int usual : kUsualStopSignals) {
    verdict = survives(init, usual, machine);
    if (!verdict.survives) return verdict;
  }
  return verdict;
}

Survival survives(const ProcessTexts& init, int stop_signal, Machine machine) {
  if (machine == Machine::kOther) return may_die("this machine's system calls are not known");
  if (stop_signal < 1 || stop_signal > 64) return may_die(fmt::format("{} is no signal", stop_signal));
  if (stop_signal == 9 || stop_signal == 19) return may_die(fmt::format("nothing survives signal {}", stop_signal));
  const auto place = place_of(init.status);
  if (!place) return may_die("its place among the processes cannot be read");
  if (!is_init(*place)) return may_die("its first process is not PID 1 of a namespace of its own");
  if (field(init.status, "TracerPid") != "0") return may_die("its first process is traced");
  const auto state = field(init.status, "State").value_or("Z");
  if (state.empty() || state[0] == 'Z' || state[0] == 'X') return may_die("its first process has ended");
  const auto caught = in_mask(init.status, "SigCgt", stop_signal);
  const auto ignored = in_mask(init.status, "SigIgn", stop_signal);
  if (!caught || !ignored) return may_die("its signal masks cannot be read");
  if (*caught) return may_die("its first process handles the signal");
  if (init.threads.empty()) return may_die("its threads cannot be read");
  if (thread_count(init.status) != init.threads.size()) return may_die("its threads came or went while they were read");
  for (const auto& thread : init.threads)
    if (auto what = what_takes_it(thread, stop_signal, machine); !what.empty()) return may_die(std::move(what));
  return {true, *ignored ? "its first process ignores the signal"
                         : "its first process is PID 1 of its namespace and has no handler"};
}

}  // namespace tranche::stopping
