#pragma once
// Pods on the simulated node: scheduled when they fit, admitted through the kubelet stand-in, run as real processes,
// restarted according to their policy, and removed completely when deleted. Everything runs on the loop's thread,
// except calls to plugins, which a worker makes.
#include <atomic>
#include <deque>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "standins/kubelet/event_loop.h"
#include "standins/kubelet/kubelet.h"
#include "standins/kubelet/launch.h"
#include "standins/kubelet/pod_table.h"
#include "standins/kubelet/worker.h"

namespace tranche::sim {

struct RunnerSettings {
  ContainerMode mode = ContainerMode::kProcess;
  std::string state_file{};
  Duration back_off = std::chrono::seconds(10);         // before the second consecutive restart, doubling …
  Duration longest_back_off = std::chrono::minutes(5);  // … up to this
  Duration stop_grace = std::chrono::seconds(5);        // from SIGTERM to SIGKILL when the whole node stops
  std::size_t output_lines = 50;
  bool once = false;  // stop when every pod has ended
};

class PodRunner {
 public:
  PodRunner(EventLoop& loop, Kubelet& kubelet, RunnerSettings settings);
  ~PodRunner();

  // Adds pods with new names; existing names are not changed. Returns one line per pod on what happened.
  std::string apply(const std::vector<PodSpec>& pods);
  // "name", "namespace/name", or "deployment/name" and "job/name" for all its pods. Returns "" or the error.
  std::string remove(const std::string& what);
  void restart_kubelet(std::function<void(std::string)> when_done);
  void stop();       // ends every pod, then quits the loop
  void stop_hard();  // the same without grace
  void reap();       // after SIGCHLD
  void catch_up();   // schedules and writes the state now; otherwise done at the end of each callback
  std::string state() const;
  bool all_succeeded() const;

 private:
  PodRun* find(const std::string& uid);
  ContainerRun* find(PodRun& pod, const std::string& container);
  void schedule();
  void take_admission(const std::string& uid, const Admission& admission, unsigned life);
  void prepare(PodRun& pod, ContainerRun& run);
  void start(PodRun& pod, ContainerRun& run, const Result<ContainerGrant>& grant);
  void read_output(const std::string& uid, const std::string& container);
  void read_start_error(const std::string& uid, const std::string& container);
  void take_line(ContainerRun& run, std::string line);
  void container_ended(PodRun& pod, ContainerRun& run, int code);
  void wait_and_restart(PodRun& pod, ContainerRun& run);
  void close_pipes(ContainerRun& run);
  void terminate(PodRun& pod, Duration grace);
  void kill_group(const ContainerRun& run, int signal);
  void settle(PodRun& pod);
  void replace(const PodSpec& spec);
  std::string new_uid(const PodSpec& spec);

  EventLoop& loop_;
  Kubelet& kubelet_;
  RunnerSettings settings_;
  std::vector<std::string> image_env_;
  std::deque<PodRun> pods_;                  // in order of creation
  std::map<std::string, unsigned> created_;  // how many pods of this name were created
  std::set<std::string> withdrawn_;          // owners deleted as a whole
  std::string written_;
  std::atomic<bool> woken_ = false;
  bool restarting_ = false;
  unsigned kubelet_life_ = 0;  // grows with every restart of kubelet
  bool stopping_ = false;
  std::jthread restarter_;
  Worker worker_;
};

void say(const std::string& line);  // one line for people, to standard error

}  // namespace tranche::sim
