// Two hundred random misfortunes in a row, of kubelet and of ours, drawn from a seed; after each, every device must be
// back, and nothing may hang. A failure names the seed and the steps up to it: set $TRANCHE_SEED to see it again.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <random>

#include "contract/expect.h"
#include "contract/foreign_plugin.h"
#include "contract/node_under_test.h"

namespace tranche::contract {
namespace {

constexpr int kSteps = 200;

class RandomRestarts {
 public:
  explicit RandomRestarts(std::uint64_t seed) : random_(seed) {
    settings_.unwatched_grace = std::chrono::milliseconds(300);
    settings_.retry_first = std::chrono::milliseconds(2);
    settings_.retry_most = std::chrono::milliseconds(20);
    settings_.audit_every = std::chrono::milliseconds(50);
  }

  std::string step() {
    switch (std::uniform_int_distribution(0, 9)(random_)) {
      case 0:
      case 1:
        return kubelet_restarts();
      case 2:
        return we_restart();
      case 3:
        return both_restart();
      case 4:
        return rolling_update();
      case 5:
        return our_socket_is_deleted();
      case 6:
        return the_stream_is_lost();
      case 7:
        return kubelet_refuses_then_restarts();
      case 8:
        return the_plan_changes();
      default:
        return a_foreign_plugin_comes_and_goes();
    }
  }

  Status all_devices_are_back() {
    const auto expected = static_cast<std::uint64_t>(2 * slots_);
    if (auto seen = kubelet_->wait_for_devices(
            kShared, [=](const auto& v) { return v.watching && v.capacity == expected && v.allocatable == expected; },
            kSoon);
        !seen) {
      return std::unexpected(std::move(seen).error());
    }
    // Two streams are fine: an older instance's registration may reach the newer one, which serves at the same path.
    auto state = node_->wait_for_state(kShared, [](const kubelet::PluginState& s) {
      return s.serving && s.registered && s.watchers >= 1 && s.problem.empty();
    });
    return state ? Status{} : std::unexpected(std::move(state).error());
  }

  void begin() { we_restart(); }

 private:
  std::unique_ptr<NodeUnderTest> new_node() {
    settings_.seed = random_();
    auto node = std::make_unique<NodeUnderTest>(settings_);
    node->publish(plan_of({shared_resource(2, slots_)}));
    return node;
  }
  std::string kubelet_restarts() {
    if (!kubelet_->restart()) return "kubelet does not start";
    return "kubelet restarts";
  }
  std::string we_restart() {
    node_.reset();
    node_ = new_node();
    return "we restart";
  }
  std::string both_restart() {
    kubelet_->stop();
    node_.reset();
    if (random_() % 2 == 0) {
      node_ = new_node();
      if (!kubelet_->start()) return "kubelet does not start";
    } else {
      if (!kubelet_->start()) return "kubelet does not start";
      node_ = new_node();
    }
    return "both restart";
  }
  std::string rolling_update() {
    auto newer = new_node();
    const bool meanwhile = random_() % 3 == 0;
    if (meanwhile && !kubelet_->restart()) return "kubelet does not start";
    node_ = std::move(newer);
    return meanwhile ? "rolling update with kubelet restarting in its midst" : "rolling update";
  }
  std::string our_socket_is_deleted() {
    ::unlink(our_socket().c_str());
    return "our socket is deleted";
  }
  std::string the_stream_is_lost() {
    if (!kubelet_->close_stream(kShared)) return "there was no stream to lose";
    return "the stream is lost";
  }
  std::string kubelet_refuses_then_restarts() {
    kubelet_->refuse_next_registrations(1 + static_cast<int>(random_() % 3), 14, "not now");
    return "kubelet refuses; " + kubelet_restarts();
  }
  std::string the_plan_changes() {
    slots_ = 1 + static_cast<int>(random_() % 16);
    node_->publish(plan_of({shared_resource(2, slots_)}));
    return fmt::format("{} slots a GPU", slots_);
  }
  std::string a_foreign_plugin_comes_and_goes() {
    const ForeignPlugin plugin(our_socket(), random_() % 2 == 0);
    return "a foreign plugin comes and goes";
  }
  std::string our_socket() const { return dir_ / "nvidia-gpu.shared.sock"; }

  std::mt19937_64 random_;
  os::Scratch dir_;
  int slots_ = 4;
  kubelet::PluginHostSettings settings_ = quick_settings(dir_.path());
  std::unique_ptr<sim::Kubelet> kubelet_ = open_kubelet({.plugin_dir = dir_.path()});
  std::unique_ptr<NodeUnderTest> node_;
};

std::uint64_t seed_of_this_run() {
  const char* given = std::getenv("TRANCHE_SEED");
  return given != nullptr ? std::strtoull(given, nullptr, 10) : 20240613;
}

// Promise: kubelet/restart: Two hundred random restarts lose no device.
TEST(RandomRestarts, LoseNoDevice) {
  const std::uint64_t seed = seed_of_this_run();
  RandomRestarts world(seed);
  world.begin();
  std::string story;
  for (int step = 0; step < kSteps; ++step) {
    const Status back = world.all_devices_are_back();
    ASSERT_TRUE(back) << "seed " << seed << ", after step " << step << ": " << to_string(back.error()) << "\n" << story;
    story += fmt::format("{}: {}\n", step, world.step());
  }
  ASSERT_OK(world.all_devices_are_back());
}

}  // namespace
}  // namespace tranche::contract
