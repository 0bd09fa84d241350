#pragma once
// The product's side of a contract test: a real loop on a thread of its own, a real PluginHost on real sockets, and
// Answers over a hand-made plan. Every wait has a deadline and says what it saw instead; nothing sleeps.
#include <condition_variable>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "kubelet/plugin_host.h"
#include "os/files/scratch_fixture.h"
#include "os/loop/loop.h"
#include "plan/plan.h"
#include "standins/kubelet/kubelet.h"

namespace tranche::contract {

inline constexpr Duration kSoon = std::chrono::seconds(60);  // a deadline, not an expectation
inline constexpr const char* kShared = "nvidia.com/gpu.shared";
inline constexpr const char* kWhole = "nvidia.com/gpu";

std::string slot(int gpu, int ordinal);  // of the plans below
std::string gpu_uuid(int gpu);
plan::PlannedResource shared_resource(int gpus, int slots_each, std::string name = kShared);
plan::PlannedResource with_mps(plan::PlannedResource resource);  // each device a pool of its own
plan::Plan plan_of(std::vector<plan::PlannedResource> resources);

// What the agent does with a snapshot, in small: a pure function of plan and faults, swapped as a whole.
class PlanAnswers final : public kubelet::Answers {
 public:
  void set(plan::Plan plan, plan::Faults faults);
  Result<grants::Grant> allocate(const std::string& resource, std::span<const std::string> ids) override;
  Result<std::vector<std::string>> prefer(const std::string& resource, std::span<const std::string_view> available,
                                          std::span<const std::string_view> must_include, std::uint32_t size) override;

 private:
  struct Snapshot {
    plan::Plan plan;
    plan::Faults faults;
  };
  std::shared_ptr<const Snapshot> snapshot() const;
  mutable std::mutex mutex_;
  std::shared_ptr<const Snapshot> snapshot_;
};

// Settings with patience for a test: short durations, nothing random.
kubelet::PluginHostSettings quick_settings(const std::string& plugin_dir);

class NodeUnderTest {
 public:
  explicit NodeUnderTest(kubelet::PluginHostSettings settings);
  ~NodeUnderTest();  // stops the host, then the loop
  NodeUnderTest(const NodeUnderTest&) = delete;
  NodeUnderTest& operator=(const NodeUnderTest&) = delete;

  void publish(const plan::Plan& plan, const plan::Faults& faults = {});
  std::vector<kubelet::PluginState> states() const;  // as of the last on_change
  // Until some state of `resource` satisfies the predicate; fails with what it was last.
  [[nodiscard]] Result<kubelet::PluginState> wait_for_state(const std::string& resource,
                                                            std::function<bool(const kubelet::PluginState&)> predicate,
                                                            Duration within = kSoon) const;
  [[nodiscard]] Result<kubelet::PluginState> wait_until_watched(const std::string& resource = kShared,
                                                                int watchers = 1) const;

  void on_loop(std::function<void()> turn) const;  // and wait for it
  os::Loop& loop() { return *loop_; }
  void stop_host();  // as the agent's exit does; the loop runs on

 private:
  std::unique_ptr<os::Loop> loop_;
  PlanAnswers answers_;
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  std::vector<kubelet::PluginState> states_;
  std::optional<kubelet::PluginHost> host_;  // loop thread
  std::thread thread_;
};

std::unique_ptr<sim::Kubelet> open_kubelet(sim::KubeletSettings settings);

}  // namespace tranche::contract
