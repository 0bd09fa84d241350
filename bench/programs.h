#pragma once
// The real programs on a simulated node, started and watched from outside: what the benchmarks measure.
#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "standins/kube/api_server.h"
#include "standins/kubelet/kubelet.h"

namespace tranche::bench {

using Clock = std::chrono::steady_clock;

struct NodeShape {
  int gpus = 1;
  int slots = 10;
  bool mps = true;      // else time-slicing, which needs no `tranche mps`
  bool claims = false;  // all GPUs to claims, with an API server; there are no slots then
  bool api = claims;    // an API server that the node agent is given
  std::string resource = "nvidia.com/gpu";
};

class Programs {
 public:
  // Starts kubelet's double, `tranche mps` (when the shape needs it) and `tranche node`, and waits until every slot is
  // healthy. Ends the benchmark with a message when that does not happen.
  static std::unique_ptr<Programs> start(const NodeShape& shape);
  ~Programs();

  double node_start_to_registered_ms() const { return start_to_registered_ms_; }
  std::string plugin_socket() const;
  std::vector<std::string> slots() const { return slots_; }
  pid_t node() const { return node_; }
  pid_t mps() const { return mps_; }  // 0 without
  const NodeShape& shape() const { return shape_; }
  std::string registry() const { return dir_ + "/plugins_registry"; }  // kubelet's
  sim::ApiServer& api() const { return *api_; }                        // with claims only
  std::string simulated_node() const { return dir_ + "/node"; }
  std::string node_log() const { return dir_ + "/node.log"; }

 private:
  Programs() = default;
  std::string dir_;
  NodeShape shape_;
  void wait_for_claims() const;
  std::unique_ptr<sim::Kubelet> kubelet_;
  std::unique_ptr<sim::ApiServer> api_;
  pid_t node_ = 0;
  pid_t mps_ = 0;
  double start_to_registered_ms_ = 0;
  std::vector<std::string> slots_;
};

double resident_mb(pid_t pid);  // without the stand-in for NVIDIA's library and its state, 1.8 MB of both programs
std::uint64_t cpu_ns(pid_t pid, const std::string& thread = "");  // of all threads, or of those of a name
std::string build_dir();                                          // $TRANCHE_BUILD, or where this program is

}  // namespace tranche::bench
