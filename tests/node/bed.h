#pragma once
// A test bed for the real programs: a simulated node in a directory of its own, kubelet's double in this process, and
// `tranche node`, `tranche mps` and CUDA programs as processes. Everything is waited for by what it says (a status
// line, kubelet's view, a line of output, its end), with a deadline; what sends no notice (a page, a file) is
// looked at again and again. Whatever a test leaves is killed and removed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "node/program.h"
#include "os/files/scratch_fixture.h"
#include "os/loop/loop.h"
#include "os/socket/status_socket.h"
#include "standins/kubelet/kubelet.h"

namespace tranche::e2e {

using Json = nlohmann::json;
using Strings = std::vector<std::string>;

inline constexpr Duration kSoon = std::chrono::seconds(60);  // a deadline, not an expectation
inline constexpr Duration kLookAgain = std::chrono::milliseconds(50);
inline constexpr const char* kGpu = "nvidia.com/gpu";

std::string sharing(const std::string& strategy, int replicas, const std::string& more = "");  // a configuration
const Json& device_of(const Json& node_status, int gpu);
const Json& pool_of(const Json& mps_status, int pool);

class NodeBed : public ::testing::Test {
 protected:
  NodeBed();
  ~NodeBed() override;

  // --- the node --------------------------------------------------------------------------------------------------
  void make_node(int gpus, const std::string& more = "");
  void write(const std::string& name, const std::string& text) const;  // replaced as a whole
  void sim_node(Strings words);
  // Of a long test: what ended programs printed is of no use any more. Not from within a condition.
  void drop_ended();
  std::string shown_node();  // what `sim-node show` prints: the GPUs, with their compute modes
  void start_kubelet();
  sim::Kubelet& kubelet() { return *kubelet_; }
  std::string uuid(int gpu) const { return uuids_.at(static_cast<std::size_t>(gpu)); }
  std::string slot(int gpu, int ordinal) const { return uuid(gpu) + "::" + std::to_string(ordinal); }
  std::string plugin_socket() const { return scratch_ / "plugins/nvidia-gpu.sock"; }

  // --- programs --------------------------------------------------------------------------------------------------
  Program& start(Strings argv, const Environment& more = {});
  // node, mps or plan, with this node's paths
  Program& start_tranche(const std::string& command, Strings more = {}, const Environment& environment = {});
  Strings paths_of_node() const;  // of what the programs read and write, as flags
  Program& start_node(Strings more = {}) { return start_tranche("node", std::move(more)); }
  Program& start_mps(Strings more = {}) { return start_tranche("mps", std::move(more)); }
  // `tranche mps`, kubelet and `tranche node`, until all slots are healthy.
  void start_all(int gpus, int slots);
  Program* program(const std::string& command);  // the last `tranche COMMAND` that was started
  Program& start_cuda(const sim::ContainerGrant& grant, Strings words);
  Json attached(const Program& cuda);  // its first line, waited for
  // Waits for the end: the exit status, -1 when it did not end in time.
  int finish(const Program& program);
  int run(Strings argv) { return finish(start(std::move(argv))); }
  void stop(Program& program, int signal, int expected);

  // --- waiting ---------------------------------------------------------------------------------------------------
  bool until(const std::function<bool()>& condition, const std::string& what, Duration within = kSoon);
  bool until_says(const Program& program, const std::string& text);
  std::string pages_of(const Program& program);  // the address of its pages, once its log names it
  // The newest status document that satisfies the condition; null, and a failure, when none comes.
  Json until_status(const std::string& socket, const std::function<bool(const Json&)>& condition);
  Json until_node(const std::function<bool(const Json&)>& condition) { return until_status(node_socket(), condition); }
  Json until_mps(const std::function<bool(const Json&)>& condition) { return until_status(mps_socket(), condition); }
  Json until_serving(std::size_t pools);
  bool until_healthy(std::uint64_t slots) { return until_healthy_of(slots, slots); }
  bool until_healthy_of(std::uint64_t slots, std::uint64_t healthy);
  // A list that says `healthy` for every slot of `gpu` and healthy for all others, after the first `after` messages.
  bool until_list_says(std::size_t after, int gpu, bool healthy);
  // No list since then says that a slot of `gpu` is unhealthy.
  bool never_unhealthy(std::size_t after, int gpu) const;

  std::string node_socket() const { return scratch_ / "run/node.sock"; }
  std::string mps_socket() const { return scratch_ / "mps/mps.sock"; }
  std::string build() const { return build_; }
  std::string tranche() const { return build_ + "/bin/tranche"; }
  std::string in(const std::string& name) const { return scratch_ / name; }
  os::Loop& loop() { return *loop_; }
  // This node's processes; the test's own and their children.
  std::vector<pid_t> processes() const { return processes_marked(scratch_.path()); }

  os::Scratch scratch_;
  std::string config_path_ = scratch_ / "config.yaml";  // what the programs read
  Environment environment_;                             // and what else is in their environment

 private:
  std::string logs() const;

  std::string build_;
  std::unique_ptr<os::Loop> loop_;
  std::unique_ptr<sim::Kubelet> kubelet_;
  std::vector<std::unique_ptr<Program>> programs_;
  std::map<std::string, Program*> newest_;
  std::vector<std::string> uuids_;
  std::function<bool()> check_;
};

// The one admitted container's grant.
sim::ContainerGrant admitted(sim::Kubelet& kubelet, const std::string& pod, std::uint64_t slots);
// Where the container's MPS directory is on the node.
std::string endpoint_of(const sim::ContainerGrant& grant);

}  // namespace tranche::e2e
