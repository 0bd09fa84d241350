#pragma once
// The mapped file itself: layout, creation, and the mutex that survives the death of its holders. Does not interpret
// the rows. Readers need the same layout: a file of another build is refused.
#include <pthread.h>
#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <expected>
#include <functional>
#include <memory>
#include <string>

#include "node_state.h"
#include "sim_node.h"

namespace tranche::sim {

inline constexpr std::uint32_t kMaxProcesses = 2048;
inline constexpr std::uint32_t kEventRing = 256;
inline constexpr std::uint32_t kMaxFaults = 32;

struct ProcessSlot {
  std::int32_t pid;  // 0: free. Written last when a row is created, first when it is removed.
  std::int32_t gpu;
  std::uint32_t kind;
  std::uint32_t sms;
  std::uint64_t bytes;
  std::uint64_t started;        // clock ticks since boot, from /proc; 0: a simulated process, never removed
  std::uint64_t pid_namespace;  // of the pid: in a container of its own, the same pid is another process
  std::uint32_t gpu_instance, compute_instance;
  std::uint32_t utilization;
};

struct State {
  std::uint64_t magic;
  std::uint64_t layout;  // sizeof(State): differs between builds
  pthread_mutex_t mutex;
  std::atomic<std::uint32_t> wake;         // futex word: grows whenever something happens that a process may wait for
  std::atomic<std::uint32_t> fault_count;  // read without the mutex by every driver call
  FixedText<32> driver;
  FixedText<32> topology;
  FixedText<32> seed;
  FixedText<256> proc_root;
  std::int32_t cuda;
  std::uint32_t driver_present;
  std::uint32_t require_root;
  std::uint32_t gpu_count;
  std::uint64_t newest_event;
  EventRow events[kEventRing];  // event n lies at n % kEventRing
  Fault faults[kMaxFaults];
  GpuState gpus[kMaxGpus];
  ProcessSlot processes[kMaxProcesses];
};
static_assert(std::atomic<std::uint32_t>::is_always_lock_free);  // otherwise it would not work between processes

// Holds the mutex during its lifetime. A holder that died leaves rows that are each valid or free, so there is nothing
// to undo: the next one marks the mutex consistent and continues.
class Locked {
 public:
  explicit Locked(State& state);
  ~Locked();
  Locked(const Locked&) = delete;
  Locked& operator=(const Locked&) = delete;

 private:
  State& state_;
};

class StateFile {
 public:
  // Maps <dir>/state; if there is none, creates it with fill() and moves it into place atomically, so that of several
  // first openers one wins and all map the winner's.
  static std::expected<std::unique_ptr<StateFile>, std::string> open(
      const std::string& dir, const std::function<std::expected<void, std::string>(State&)>& fill);
  ~StateFile();
  StateFile(const StateFile&) = delete;
  StateFile& operator=(const StateFile&) = delete;
  State& state() const { return *state_; }

 private:
  explicit StateFile(State* state) : state_(state) {}
  State* state_;
};

void wake_all(State& state);  // bumps the word and wakes every waiter in every process
// Sleeps until the word differs from `seen` or the timeout; may return early.
void wait_for_wake(State& state, std::uint32_t seen, std::int64_t timeout_ns);

// Start time of a live process in clock ticks since boot, 0 if it has exited, even if it is not reaped yet.
std::uint64_t process_start(pid_t pid);

// The inode of this process's PID namespace; 0 when it cannot be read.
std::uint64_t own_pid_namespace();

}  // namespace tranche::sim
