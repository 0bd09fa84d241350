#include "guard_cost.h"

#include <dlfcn.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>

#include <cstdio>
#include <cstdlib>
#include <thread>

#include "standins/node/sim_node.h"

extern char** environ;

namespace tranche::bench {
namespace {

using namespace std::chrono_literals;

[[noreturn]] void give_up(const std::string& what) {
  std::fprintf(stderr, "bench: %s\n", what.c_str());
  std::exit(1);
}

// Processes that do nothing, to be watched as clients.
class Sleepers {
 public:
  explicit Sleepers(int count) {
    char sleep[] = "/bin/sleep", time[] = "3600";
    char* argv[] = {sleep, time, nullptr};
    for (int i = 0; i < count; ++i) {
      pid_t pid = 0;
      if (::posix_spawn(&pid, sleep, nullptr, nullptr, argv, environ) != 0) give_up("cannot start /bin/sleep");
      pids_.push_back(pid);
    }
  }
  ~Sleepers() {
    for (const pid_t pid : pids_) ::kill(pid, SIGKILL);
    for (const pid_t pid : pids_) ::waitpid(pid, nullptr, 0);
  }
  const std::vector<pid_t>& pids() const { return pids_; }

 private:
  std::vector<pid_t> pids_;
};

double thread_cpu_us() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) * 1e6 + static_cast<double>(time.tv_nsec) / 1e3;
}

// A round of lists, one a GPU, ten times a second, as the stand-in gives them to a program that does nothing else:
// milliseconds of CPU a second. With pauses, because what a call costs depends on what is still in the caches.
double stand_in_ms_per_s(int gpus) {
  void* library = ::dlopen((build_dir() + "/standins/libnvidia-ml.so.1").c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) give_up(::dlerror());
  const auto init = reinterpret_cast<int (*)()>(::dlsym(library, "nvmlInit_v2"));
  const auto by_index = reinterpret_cast<int (*)(unsigned, void**)>(::dlsym(library, "nvmlDeviceGetHandleByIndex_v2"));
  const auto list =
      reinterpret_cast<int (*)(void*, unsigned*, void*)>(::dlsym(library, "nvmlDeviceGetComputeRunningProcesses_v3"));
  if (init() != 0) give_up("the stand-in for the driver does not answer");
  constexpr int kRounds = 40;
  std::vector<char> buffer(65 * 32);
  double sum = 0;
  for (int round = 0; round < kRounds; ++round) {
    std::this_thread::sleep_for(100ms);
    const double before = thread_cpu_us();
    for (int gpu = 0; gpu < gpus; ++gpu) {
      void* device = nullptr;
      unsigned count = 64;
      if (by_index(static_cast<unsigned>(gpu), &device) != 0 || list(device, &count, buffer.data()) != 0)
        give_up("the stand-in lists no processes");
    }
    sum += thread_cpu_us() - before;
  }
  return sum / kRounds * 10 / 1e3;
}

struct Cost {
  double all = 0;     // ms of CPU a second
  double driver = 0;  // of these, on the driver's thread
};

template <class Change>
Cost measure(pid_t pid, std::chrono::seconds time, Change change) {
  const auto all = cpu_ns(pid), driver = cpu_ns(pid, "nvml");
  const auto until = Clock::now() + time;
  while (Clock::now() < until) {
    change();
    std::this_thread::sleep_for(100ms);
  }
  const double scale = 1e6 * static_cast<double>(time.count());
  return {static_cast<double>(cpu_ns(pid) - all) / scale, static_cast<double>(cpu_ns(pid, "nvml") - driver) / scale};
}

nlohmann::ordered_json to_json(const Cost& cost, double stand_in) {
  return {{"cpu_ms_per_s", cost.all},
          {"driver_thread_ms_per_s", cost.driver},
          {"stand_in_ms_per_s", stand_in},
          {"own_ms_per_s", cost.all - stand_in}};
}

}  // namespace

nlohmann::ordered_json guard_cost(const Programs& programs, const GuardLoad& load) {
  const auto node = sim::Node::open(programs.simulated_node());
  if (!node) give_up(node.error());
  const Sleepers sleepers(load.gpus * load.clients);
  const auto put = [&](int i, std::uint64_t memory) {
    const auto& pids = sleepers.pids();
    if (!(*node)->add_made_up_process({.pid = pids[static_cast<std::size_t>(i)],
                                       .gpu = i % load.gpus,
                                       .kind = sim::ProcessKind::kMpsClient,
                                       .bytes = memory}))
      give_up("the simulated node takes no more processes");
  };
  for (int i = 0; i < load.gpus * load.clients; ++i) put(i, 100 << 20);
  std::this_thread::sleep_for(8s);  // until who is a client is asked every 5 s only
  const double stand_in = stand_in_ms_per_s(load.gpus);
  nlohmann::ordered_json json;
  json["unchanged"] = to_json(measure(programs.node(), load.time, [] {}), stand_in);
  std::uint64_t memory = 100 << 20;
  json["changing"] = to_json(measure(programs.node(), load.time, [&] { put(0, memory += 1 << 20); }), stand_in);
  return json;
}

}  // namespace tranche::bench
