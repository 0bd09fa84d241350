// sim-cuda: a CUDA process on a simulated node, for tests, demos and people. It attaches according to its environment,
// reports that as a JSON line, carries out its options, and exits with a status per CUDA error. One JSON object per
// line on stdout.
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "standins/cuda/cuda_process.h"
#include "standins/cuda/sim_cuda_options.h"

namespace {

using namespace tranche::sim;

std::int64_t monotonic_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

volatile std::sig_atomic_t term_event = -1;

void note_term(int /*signal*/) {
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto written = ::write(term_event, &one, sizeof one);
}

// A handler instead of a signal descriptor, because programs that check whether a process catches SIGTERM look for
// handlers in /proc. Returns the descriptor that becomes readable with the first SIGTERM.
Fd catch_term() {
  Fd event(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  term_event = event.get();
  struct sigaction action{};
  action.sa_handler = note_term;
  action.sa_flags = SA_RESTART;
  ::sigaction(SIGTERM, &action, nullptr);
  return event;
}

class Program {
 public:
  Program(SimCudaOptions options, std::unique_ptr<CudaProcess> process, Fd term)
      : options_(std::move(options)), process_(std::move(process)), term_(std::move(term)) {}

  CudaError run() {
    for (int device = 0; device < static_cast<int>(process_->devices().size()); ++device) {
      if (device > 0 && !options_.all_devices) break;
      if (const auto error = process_->open_context(device); error != CudaError::kSuccess)
        return fail("context", error);
      say_attached(device);
    }
    for (const auto bytes : options_.allocations) {
      if (const auto error = allocate(bytes); error != CudaError::kSuccess && !options_.stay) return error;
    }
    if (options_.fault) {
      if (const auto error = fail("fault", process_->fault(0)); !options_.stay) return error;
    }
    if (options_.kernel_ns > 0) launch(options_.kernel_ns, options_.queue);
    return live();
  }

 private:
  void say_attached(int device) {
    MemoryInfo info;
    process_->memory_info(device, &info);
    const auto limit = process_->memory_limit(device);
    std::printf(
        "{\"event\":\"attached\",\"pid\":%d,\"mps\":%s,\"device\":%d,\"gpu\":\"%s\",\"sms\":%u,\"runs_on\":%u,\"free\":"
        "%llu,"
        "\"total\":%llu,\"limit\":%s}\n",
        static_cast<int>(::getpid()), process_->under_mps() ? "true" : "false", device,
        process_->devices()[static_cast<std::size_t>(device)].properties.uuid.c_str(), process_->attribute_sms(device),
        process_->sms(device), static_cast<unsigned long long>(info.free), static_cast<unsigned long long>(info.total),
        limit ? std::to_string(*limit).c_str() : "null");
    std::fflush(stdout);
  }

  void say(const char* event, CudaError error) {
    MemoryInfo info;
    process_->memory_info(0, &info);
    std::printf("{\"event\":\"%s\",\"error\":\"%s\",\"code\":%d,\"own\":%llu,\"free\":%llu}\n", event,
                std::string(error_name(static_cast<int>(error))).c_str(), static_cast<int>(error),
                static_cast<unsigned long long>(process_->own_bytes(0)), static_cast<unsigned long long>(info.free));
    std::fflush(stdout);
  }

  CudaError fail(const char* event, CudaError error) {
    say(event, error);
    return error;
  }

  CudaError allocate(std::uint64_t bytes) { return fail("allocate", process_->allocate(0, bytes)); }

  void launch(std::int64_t kernel_ns, std::int64_t count) {
    say("launch", process_->launch(0, kernel_ns, count, &work_done_ns_, options_.tensor));
  }

  // Carries out one line of stdin. false: exit.
  bool obey(const std::string& line) {
    const auto command = parse_sim_cuda_line(line);
    if (command.verb == "exit") return false;
    if (command.verb == "alloc") {
      allocate(command.bytes);
    } else if (command.verb == "free") {
      process_->release(0, command.bytes);
      say("free", process_->sticky());
    } else if (command.verb == "launch") {
      launch(command.kernel_ns, command.count);
    } else if (command.verb == "sync") {
      say("sync", process_->synchronize(0));
    } else if (command.verb == "fault") {
      say("fault", process_->fault(0));
    } else if (command.verb == "info") {
      say("info", process_->sticky());
    } else {
      say("unknown", CudaError::kInvalidValue);
    }
    return true;
  }

  // Until its time is over, stdin requests the exit, or an error ends it.
  CudaError live() {
    const std::int64_t start = monotonic_ns();
    std::int64_t next_report = options_.report_ns > 0 ? start + options_.report_ns : 0;
    std::int64_t next_growth = options_.grow_per_second > 0 ? start + options_.grow_every_ns : 0;
    const std::int64_t end = options_.hold ? 0 : start + options_.seconds_ns;
    std::string input;
    for (;;) {
      const std::int64_t now = monotonic_ns();
      if (end != 0 && now >= end && !options_.stdin_commands) return process_->sticky();
      if (next_report != 0 && now >= next_report) {
        say("report", process_->sticky());
        next_report += options_.report_ns;
      }
      if (next_growth != 0 && now >= next_growth) {
        const double step = static_cast<double>(options_.grow_per_second) * static_cast<double>(options_.grow_every_ns);
        const auto error = allocate(static_cast<std::uint64_t>(step / 1e9));
        if (error != CudaError::kSuccess && !options_.stay) return error;
        // An allocation takes time: missed ones are not made up for.
        next_growth = std::max(next_growth + options_.grow_every_ns, now + options_.grow_every_ns / 2);
      }
      if (options_.kernel_ns > 0 && !said_error_) keep_busy(now);
      pollfd fds[3] = {{said_error_ ? -1 : process_->error_descriptor(), POLLIN, 0},
                       {options_.stdin_commands ? STDIN_FILENO : -1, POLLIN, 0},
                       {said_term_ ? -1 : term_.get(), POLLIN, 0}};
      timespec wait{};
      const std::int64_t wake = earliest({end, next_report, next_growth, busy_wake(now)});
      if (wake != 0) {
        const std::int64_t left = std::max<std::int64_t>(0, wake - monotonic_ns());
        wait = {.tv_sec = left / 1'000'000'000, .tv_nsec = left % 1'000'000'000};
      }
      if (::ppoll(fds, 3, wake == 0 ? nullptr : &wait, nullptr) < 0) continue;
      if (fds[0].revents != 0) {
        said_error_ = true;
        const auto error = fail("error", process_->sticky());
        if (!options_.stay) return error;
      }
      if (fds[2].revents != 0) {
        said_term_ = true;
        say("term", process_->sticky());
        if (options_.on_term) return save(*options_.on_term);
      }
      if (fds[1].revents != 0 && !read_lines(&input)) return process_->sticky();
    }
  }

  // The exit of a program that saves a checkpoint: in pieces, so that a truncated file is detectable.
  CudaError save(const OnTerm& on_term) {
    if (const auto error = process_->synchronize(0); error != CudaError::kSuccess) return fail("save", error);
    FILE* file = std::fopen(on_term.file.c_str(), "we");
    if (file == nullptr) {
      std::fprintf(stderr, "sim-cuda: cannot write %s\n", on_term.file.c_str());
      return fail("save", CudaError::kUnknown);
    }
    const std::int64_t start = monotonic_ns();
    CudaError error = CudaError::kSuccess;
    for (int part = 1; part <= kSavedParts && error == CudaError::kSuccess; ++part) {
      error = process_->wait_until(start + on_term.seconds_ns * part / kSavedParts);
      if (error == CudaError::kSuccess) std::fprintf(file, "part %d of %d\n", part, kSavedParts);
      std::fflush(file);
    }
    if (error == CudaError::kSuccess) std::fprintf(file, "%s\n", kSavedEnd);
    if (std::fclose(file) != 0) error = CudaError::kUnknown;
    return fail("save", error);
  }

  bool read_lines(std::string* input) {
    char chunk[512];
    const auto got = ::read(STDIN_FILENO, chunk, sizeof chunk);
    if (got <= 0) return false;
    input->append(chunk, static_cast<std::size_t>(got));
    for (std::size_t end; (end = input->find('\n')) != std::string::npos;) {
      const std::string line = input->substr(0, end);
      input->erase(0, end + 1);
      if (!obey(line)) return false;
    }
    return true;
  }

  // Keeps `queue` kernels in flight: refills the queue whenever one has ended.
  void keep_busy(std::int64_t now) {
    const std::int64_t in_flight =
        work_done_ns_ <= now ? 0 : (work_done_ns_ - now + options_.kernel_ns - 1) / options_.kernel_ns;
    if (in_flight < options_.queue) {
      process_->launch(0, options_.kernel_ns, options_.queue - in_flight, &work_done_ns_, options_.tensor);
    }
  }
  std::int64_t busy_wake(std::int64_t now) const {
    if (options_.kernel_ns <= 0 || said_error_) return 0;
    const std::int64_t one_less = work_done_ns_ - (options_.queue - 1) * options_.kernel_ns;
    return std::max(one_less, now + 100'000);
  }

  static std::int64_t earliest(std::initializer_list<std::int64_t> times) {
    std::int64_t first = 0;
    for (const auto time : times) {
      if (time != 0 && (first == 0 || time < first)) first = time;
    }
    return first;
  }

  SimCudaOptions options_;
  std::unique_ptr<CudaProcess> process_;
  std::int64_t work_done_ns_ = 0;
  bool said_error_ = false;
  Fd term_;  // invalid: SIGTERM ends the process immediately
  bool said_term_ = false;
};

}  // namespace

int main(int argc, char** argv) {
  std::string problem;
  const auto options = parse_sim_cuda_options({argv + 1, argv + argc}, &problem);
  if (!options) {
    std::fprintf(stderr, "sim-cuda: %s\n%s", problem.c_str(), kSimCudaHelp);
    return 2;
  }
  if (options->help) {
    std::fputs(kSimCudaHelp, stdout);
    return 0;
  }
  if (const auto node = Node::open(); !node) {
    std::fprintf(stderr, "sim-cuda: %s\n", node.error().c_str());
    return 2;
  }
  Fd term;
  if (options->on_term || options->catch_term) term = catch_term();
  CudaError error = CudaError::kSuccess;
  auto process = CudaProcess::start(read_cuda_environment(), &error);
  if (!process) {
    std::printf("{\"event\":\"refused\",\"error\":\"%s\",\"code\":%d}\n",
                std::string(error_name(static_cast<int>(error))).c_str(), static_cast<int>(error));
    return exit_status(error);
  }
  return exit_status(Program(*options, std::move(process), std::move(term)).run());
}
