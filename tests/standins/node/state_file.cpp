#include "state_file.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstring>
#include <new>

#include "base/result.h"
#include "base/text.h"

namespace tranche::sim {
namespace {

constexpr std::uint64_t kMagic = 0x65646f6e6d697354;  // "Tsimnode"

std::string with_errno(const std::string& what, const std::string& path) {
  return what + " " + path + ": " + std::strerror(errno);
}

State* map(int fd) {
  void* memory = mmap(nullptr, sizeof(State), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  return memory == MAP_FAILED ? nullptr : static_cast<State*>(memory);
}

void make_mutex(pthread_mutex_t& mutex) {
  pthread_mutexattr_t attributes;
  pthread_mutexattr_init(&attributes);
  pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
  pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
  pthread_mutex_init(&mutex, &attributes);
  pthread_mutexattr_destroy(&attributes);
}

std::expected<void, std::string> create(const std::string& path,
                                        const std::function<std::expected<void, std::string>(State&)>& fill) {
  std::string temporary = path + ".XXXXXX";
  const int fd = mkostemp(temporary.data(), O_CLOEXEC);
  if (fd < 0)
    return std::unexpected(with_errno("cannot create the state of a simulated node in", path) +
                           "; make the node with sim-node init");
  std::expected<void, std::string> outcome;
  State* state = nullptr;
  // 0666: stand-ins of several users share the node.
  if (fchmod(fd, 0666) != 0 || ftruncate(fd, sizeof(State)) != 0 || (state = map(fd)) == nullptr) {
    outcome = std::unexpected(with_errno("cannot lay out", temporary));
  } else {
    new (&state->wake) std::atomic<std::uint32_t>(1);
    new (&state->fault_count) std::atomic<std::uint32_t>(0);
    make_mutex(state->mutex);
    state->layout = sizeof(State);
    outcome = fill(*state);
    state->magic = kMagic;
    munmap(state, sizeof(State));
  }
  // link() refuses an existing name: another process was faster, and its file is equivalent.
  if (outcome && link(temporary.c_str(), path.c_str()) != 0 && errno != EEXIST) {
    outcome = std::unexpected(with_errno("cannot put in place", path));
  }
  unlink(temporary.c_str());
  close(fd);
  return outcome;
}

}  // namespace

Locked::Locked(State& state) : state_(state) {
  const int result = pthread_mutex_lock(&state_.mutex);
  if (result == EOWNERDEAD) pthread_mutex_consistent(&state_.mutex);
  CHECK_THAT(result == 0 || result == EOWNERDEAD, "the simulated node's mutex cannot be taken");
}

Locked::~Locked() {
  pthread_mutex_unlock(&state_.mutex);
}

std::expected<std::unique_ptr<StateFile>, std::string> StateFile::open(
    const std::string& dir, const std::function<std::expected<void, std::string>(State&)>& fill) {
  const std::string path = dir + "/state";
  int fd = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (fd < 0 && errno == ENOENT) {
    if (auto created = create(path, fill); !created) return std::unexpected(created.error());
    fd = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  }
  if (fd < 0) return std::unexpected(with_errno("cannot open the simulated node's state", path));
  struct stat status{};
  const bool whole = fstat(fd, &status) == 0 && status.st_size == static_cast<off_t>(sizeof(State));
  State* state = whole ? map(fd) : nullptr;
  close(fd);
  if (state != nullptr && (state->magic != kMagic || state->layout != sizeof(State))) {
    munmap(state, sizeof(State));
    state = nullptr;
  }
  if (state == nullptr) {
    return std::unexpected("the simulated node's state was written by another build: " + path +
                           "; stop what runs on it and remove this file");
  }
  return std::unique_ptr<StateFile>(new StateFile(state));
}

StateFile::~StateFile() {
  munmap(state_, sizeof(State));
}

void wake_all(State& state) {
  state.wake.fetch_add(1, std::memory_order_acq_rel);
  syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&state.wake), FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

void wait_for_wake(State& state, std::uint32_t seen, std::int64_t timeout_ns) {
  if (timeout_ns <= 0) return;
  const timespec limit{timeout_ns / 1'000'000'000, timeout_ns % 1'000'000'000};
  // Not FUTEX_PRIVATE: the word is in a file that several processes map.
  syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&state.wake), FUTEX_WAIT, seen, &limit, nullptr, 0);
}

std::uint64_t process_start(pid_t pid) {
  const std::string path = "/proc/" + std::to_string(pid) + "/stat";
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return 0;
  char buffer[1024];
  const ssize_t got = read(fd, buffer, sizeof(buffer));
  close(fd);
  if (got <= 0) return 0;
  const std::string_view text(buffer, static_cast<std::size_t>(got));
  const std::size_t after_name = text.rfind(')');  // the name may contain any character, including blanks and brackets
  if (after_name == std::string_view::npos) return 0;
  const auto words = words_of(text.substr(after_name + 1));
  constexpr std::size_t kStartTime = 19;  // field 22 of proc(5), counted from the state
  constexpr std::size_t kThreads = 17;
  if (words.size() <= kStartTime) return 0;
  const bool ended = words[0] == "Z" || words[0] == "X";  // its first thread
  if (ended && parse_unsigned(words[kThreads]).value_or(0) < 2) return 0;
  return parse_unsigned(words[kStartTime]).value_or(0);
}

std::uint64_t own_pid_namespace() {
  thread_local pid_t of = 0;  // a forked child may be in another one
  thread_local std::uint64_t known = 0;
  if (of == ::getpid()) return known;
  struct stat status{};
  known = ::stat("/proc/self/ns/pid", &status) == 0 ? status.st_ino : 0;
  of = ::getpid();
  return known;
}

}  // namespace tranche::sim
