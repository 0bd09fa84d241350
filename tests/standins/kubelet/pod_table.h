#pragma once
// The pods of sim-kubelet and their progress: the content of the state file. Plain values.
#include <sys/types.h>

#include <chrono>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "standins/kubelet/kubelet.h"
#include "standins/kubelet/pods.h"

namespace tranche::sim {

struct ContainerRun {
  enum class State { kWaiting, kStarting, kRunning, kTerminated };

  PodContainer spec{};
  ContainerGrant grant{};  // of its last start
  State state = State::kWaiting;
  pid_t pid = 0;
  std::optional<int> exit{};  // of its last run: exit code, or 128 + signal
  int restarts = 0;
  std::string reason{};  // "CrashLoopBackOff", "StartError", "CreateContainerConfigError", "Completed", "Error"
  std::string message{};
  std::deque<std::string> output{};  // the last lines
  std::string last_json{};           // the last line that is a JSON object

  // For the runner only.
  std::string unfinished_line{};
  std::string start_error{};
  int output_fd = -1;
  int error_fd = -1;
  Duration back_off{};
  std::chrono::steady_clock::time_point started{};
  std::optional<std::uint64_t> timer{};
};

struct PodRun {
  enum class Phase { kPending, kRunning, kSucceeded, kFailed };

  PodSpec spec{};
  std::string uid{};
  Phase phase = Phase::kPending;
  std::string reason{};
  std::string message{};
  bool bound = false;     // scheduled: its requests are in use
  bool admitted = false;  // holds devices
  bool deleting = false;
  std::vector<ContainerRun> containers{};

  std::optional<std::uint64_t> timer{};  // to SIGKILL

  bool ended() const { return phase == Phase::kSucceeded || phase == Phase::kFailed; }
  std::string full_name() const { return spec.pod_namespace + "/" + spec.name; }
};

// The state file: tests/standins/README-kubelet.md describes it.
std::string state_json(const std::vector<ResourceView>& resources, const std::deque<PodRun>& pods, bool stopping);

// The line if it is a JSON object.
bool is_json_object(const std::string& line);

}  // namespace tranche::sim
