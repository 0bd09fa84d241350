#include "contract/node_under_test.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "grants/allocate/grant.h"
#include "grants/allocate/prefer.h"

namespace tranche::contract {

std::string gpu_uuid(int gpu) {
  return fmt::format("GPU-00000000-0000-0000-0000-{:012}", gpu);
}

std::string slot(int gpu, int ordinal) {
  return fmt::format("{}::{}", gpu_uuid(gpu), ordinal);
}

plan::PlannedResource shared_resource(int gpus, int slots_each, std::string name) {
  plan::PlannedResource resource;
  resource.name = std::move(name);
  resource.original_name = kWhole;
  resource.sharing = config::SharingStrategy::kTimeSlicing;
  resource.replicas = static_cast<std::uint32_t>(slots_each);
  for (int gpu = 0; gpu < gpus; ++gpu) {
    plan::PlannedDevice device;
    device.uuid = gpu_uuid(gpu);
    device.gpu_uuid = device.uuid;
    device.index = std::to_string(gpu);
    device.replicated = true;
    device.slots = static_cast<std::uint32_t>(slots_each);
    device.memory = gib(80);
    device.sm_count = 132;
    device.numa_node = static_cast<std::uint32_t>(gpu % 2);
    device.paths = {fmt::format("/dev/nvidia{}", gpu)};
    resource.devices.push_back(std::move(device));
  }
  return resource;
}

plan::PlannedResource with_mps(plan::PlannedResource resource) {
  resource.sharing = config::SharingStrategy::kMps;
  for (plan::PlannedDevice& device : resource.devices) {
    device.pool = "gpu-" + device.index;
    device.share = {.memory = gib(80 / device.slots), .threads = Percent::whole(100 / device.slots), .sms = 8};
  }
  return resource;
}

plan::Plan plan_of(std::vector<plan::PlannedResource> resources) {
  plan::Plan plan;
  plan.resources = std::move(resources);
  return plan;
}

void PlanAnswers::set(plan::Plan plan, plan::Faults faults) {
  auto next = std::make_shared<const Snapshot>(Snapshot{std::move(plan), std::move(faults)});
  const std::lock_guard lock(mutex_);
  snapshot_ = std::move(next);
}

std::shared_ptr<const PlanAnswers::Snapshot> PlanAnswers::snapshot() const {
  const std::lock_guard lock(mutex_);
  return snapshot_;
}

Result<grants::Grant> PlanAnswers::allocate(const std::string& resource, std::span<const std::string> ids) {
  const auto now = snapshot();
  const plan::PlannedResource* planned = plan::find_resource(now->plan, resource);
  if (planned == nullptr) return fail(Kind::kNotFound, "no such resource", resource);
  grants::Settings settings;
  settings.control_nodes = {"/dev/nvidiactl"};
  settings.flags.plugin.pass_device_specs = true;
  return grants::allocate(*planned, now->faults, ids, settings);
}

Result<std::vector<std::string>> PlanAnswers::prefer(const std::string& resource,
                                                     std::span<const std::string_view> available,
                                                     std::span<const std::string_view> must_include,
                                                     std::uint32_t size) {
  const auto now = snapshot();
  const plan::PlannedResource* planned = plan::find_resource(now->plan, resource);
  if (planned == nullptr) return fail(Kind::kNotFound, "no such resource", resource);
  return grants::prefer(*planned, {}, available, must_include, size, config::AllocationPolicy::kPacked);
}

kubelet::PluginHostSettings quick_settings(const std::string& plugin_dir) {
  kubelet::PluginHostSettings settings;
  settings.plugin_dir = plugin_dir;
  settings.unwatched_grace = std::chrono::seconds(2);
  settings.kept_after = std::chrono::milliseconds(50);
  settings.retry_first = std::chrono::milliseconds(20);
  settings.retry_most = std::chrono::milliseconds(200);
  settings.audit_every = std::chrono::milliseconds(500);
  settings.seed = 7;
  return settings;
}

NodeUnderTest::NodeUnderTest(kubelet::PluginHostSettings settings) {
  auto loop = os::Loop::open();
  CHECK_THAT(loop.has_value(), "a loop opens");
  loop_ = std::move(*loop);
  answers_.set({}, {});
  thread_ = std::thread([this] { loop_->run(); });
  on_loop([this, &settings] {
    host_.emplace(*loop_, std::move(settings), answers_, [this] {
      auto now = host_->states();
      const std::lock_guard lock(mutex_);
      states_ = std::move(now);
      changed_.notify_all();
    });
    if (const auto opened = host_->open(); !opened) ADD_FAILURE() << to_string(opened.error());
  });
}

NodeUnderTest::~NodeUnderTest() {
  stop_host();
  loop_->stop();
  thread_.join();
}

void NodeUnderTest::stop_host() {
  on_loop([this] { host_.reset(); });
}

void NodeUnderTest::on_loop(std::function<void()> turn) const {
  std::promise<void> done;
  loop_->post([&] {
    turn();
    done.set_value();
  });
  CHECK_THAT(done.get_future().wait_for(kSoon) == std::future_status::ready, "the loop turns");
}

void NodeUnderTest::publish(const plan::Plan& plan, const plan::Faults& faults) {
  answers_.set(plan, faults);
  on_loop([&] { host_->publish(plan::advertise(plan, faults)); });
}

std::vector<kubelet::PluginState> NodeUnderTest::states() const {
  const std::lock_guard lock(mutex_);
  return states_;
}

Result<kubelet::PluginState> NodeUnderTest::wait_for_state(const std::string& resource,
                                                           std::function<bool(const kubelet::PluginState&)> predicate,
                                                           Duration within) const {
  kubelet::PluginState last;
  const auto holds = [&] {
    for (const kubelet::PluginState& state : states_) {
      if (state.resource != resource) continue;
      last = state;
      return predicate(state);
    }
    return false;
  };
  std::unique_lock lock(mutex_);
  if (changed_.wait_for(lock, within, holds)) return last;
  return fail(Kind::kTimeout,
              fmt::format("{}: serving {}, registered {}, watchers {}, registrations {}, problem \"{}\"", resource,
                          last.serving, last.registered, last.watchers, last.registrations, last.problem));
}

Result<kubelet::PluginState> NodeUnderTest::wait_until_watched(const std::string& resource, int watchers) const {
  return wait_for_state(resource, [=](const kubelet::PluginState& state) {
    return state.serving && state.registered && state.watchers == watchers && state.problem.empty();
  });
}

std::unique_ptr<sim::Kubelet> open_kubelet(sim::KubeletSettings settings) {
  auto kubelet = sim::Kubelet::open(std::move(settings));
  CHECK_THAT(kubelet.has_value(), "the kubelet double opens");
  return std::move(*kubelet);
}

}  // namespace tranche::contract
