#include "tool_gpu.h"

#include <algorithm>
#include <chrono>
#include <functional>

#include "base/text.h"
#include "capabilities.h"
#include "mig.h"

namespace tranche::sim {
namespace {

using Change = std::function<void(GpuState&)>;

void raise(Node& node, int gpu, EventKind kind, std::uint64_t data = 0) {
  node.raise({.sequence = 0, .gpu = gpu, .kind = kind, .data = data});
}

void xid(ToolArguments& words, Node& node, int gpu) {
  EventRow event{.sequence = 0, .gpu = gpu, .kind = EventKind::kXid};
  event.data = words.need_number("the XID", 9999);
  event.gpu_instance = static_cast<std::uint32_t>(words.option_number("gi", kWholeGpu, kWholeGpu));
  event.compute_instance = static_cast<std::uint32_t>(words.option_number("ci", kWholeGpu, kWholeGpu));
  if (words.done()) node.raise(event);
}

void ecc(ToolArguments& words, Node& node, int gpu) {
  const std::string size = words.need("single or double");
  if (size != "single" && size != "double") return words.fail(in_quotes(size) + " is not single or double");
  if (!words.done()) return;
  const bool single = size == "single";
  node.update_gpu(gpu, [single](GpuState& state) {
    ++(single ? state.ecc.corrected_volatile : state.ecc.uncorrected_volatile);
    ++(single ? state.ecc.corrected_aggregate : state.ecc.uncorrected_aggregate);
  });
  raise(node, gpu, single ? EventKind::kEccSingle : EventKind::kEccDouble);
}

void mode(ToolArguments& words, Node& node, int gpu) {
  const std::string name = words.need("the mode");
  int number = -1;
  if (name == "default") number = 0;
  if (name == "prohibited") number = 2;
  if (name == "exclusive-process") number = 3;
  if (number < 0) words.fail(in_quotes(name) + " is not a mode; write default, prohibited or exclusive-process");
  if (words.done()) node.set_compute_mode(gpu, number);
}

void link(ToolArguments& words, Node& node, int gpu) {
  const auto number = words.need_number("the link", 31);
  const std::string state = words.need("up or down");
  if (state != "up" && state != "down") return words.fail(in_quotes(state) + " is not up or down");
  if (!words.done()) return;
  const std::uint32_t bit = 1u << number;
  node.update_gpu(gpu, [bit, &state](GpuState& changed) {
    changed.dead_links = state == "down" ? changed.dead_links | bit : changed.dead_links & ~bit;
  });
}

void mig(ToolArguments& words, Node& node, int gpu) {
  std::vector<std::string> names;
  while (const auto word = words.next()) names.push_back(*word);
  if (names.empty()) return words.fail("on, off or the profiles are missing");
  const bool off = names.size() == 1 && names[0] == "off";
  if (names.size() == 1 && names[0] == "on") names.clear();
  std::string refused;
  node.update_gpu(gpu, [&](GpuState& state) {
    if (off) {
      for (auto& gi : state.instances) gi.used = 0;
      state.mig_mode = state.mig_pending = 0;
    } else if (const auto cut = apply_mig_layout(state, names); !cut) {
      refused = cut.error();
    }
  });
  if (!refused.empty()) return words.fail(refused);
  show_capabilities(node, gpu);
  raise(node, gpu, EventKind::kMigChange);
}

void reset(ToolArguments& words, Node& node, int gpu) {
  if (words.done()) reset_gpu(node, gpu);
}

void recovery(ToolArguments& words, Node& node, int gpu) {
  const auto action = static_cast<std::uint32_t>(words.need_number("the recovery action", 7));
  if (!words.done()) return;
  node.update_gpu(gpu, [action](GpuState& state) { state.recovery_action = action; });
  raise(node, gpu, EventKind::kRecoveryAction);
}

void draw(GpuState& state, std::uint32_t power_mw) {
  const auto since_boot = std::chrono::steady_clock::now().time_since_epoch();
  const auto now =
      static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::milliseconds>(since_boot).count());
  state.energy_mj += (now - state.power_since_ms) * state.power_mw / 1000;
  state.power_since_ms = now;
  state.power_mw = power_mw;
}

void utilization(ToolArguments& words, Node& node, int gpu) {
  const auto sms = static_cast<std::uint32_t>(words.need_number("the utilization", 100));
  const auto memory = words.empty() ? sms / 2 : static_cast<std::uint32_t>(words.need_number("the second", 100));
  if (!words.done()) return;
  node.update_gpu(gpu, [=](GpuState& state) {
    state.utilization = sms;
    state.memory_utilization = memory;
    const std::uint64_t span = state.profile.power_max_mw - state.profile.power_idle_mw;
    draw(state, state.profile.power_idle_mw + static_cast<std::uint32_t>(span * sms / 100));
  });
}

void set_number(ToolArguments& words, Node& node, int gpu, std::uint64_t most,
                const std::function<void(GpuState&, std::uint32_t)>& set) {
  const auto number = static_cast<std::uint32_t>(words.need_number("the number", most));
  if (words.done()) node.update_gpu(gpu, [&](GpuState& state) { set(state, number); });
}

}  // namespace

void reset_gpu(Node& node, int gpu) {
  node.update_gpu(gpu, [](GpuState& state) {
    state.lost = 0;
    state.recovery_action = 0;
    state.mig_mode = state.mig_pending;
    for (auto& gi : state.instances) gi.used = 0;
    state.ecc.corrected_volatile = state.ecc.uncorrected_volatile = 0;
  });
  show_capabilities(node, gpu);
  raise(node, gpu, EventKind::kMigChange);
}

void reboot(Node& node) {
  for (int gpu = 0; gpu < static_cast<int>(node.gpus().size()); ++gpu) {
    node.update_gpu(gpu, [](GpuState& state) {
      if (state.profile.mig.needs_reset == 0) state.mig_pending = 0;
    });
    reset_gpu(node, gpu);
  }
}

int need_gpu(ToolArguments& words, const Node& node) {
  const std::string name = words.need("the GPU");
  const int gpu = node.find_gpu(name);
  if (gpu < 0) words.fail("there is no GPU " + in_quotes(name));
  return gpu;
}

void gpu_command(ToolArguments& words, Node& node) {
  const int gpu = need_gpu(words, node);
  const std::string what = words.need("what happens to the GPU");
  if (!words.fault().empty()) return;
  if (what == "xid") return xid(words, node, gpu);
  if (what == "ecc") return ecc(words, node, gpu);
  if (what == "mode") return mode(words, node, gpu);
  if (what == "link") return link(words, node, gpu);
  if (what == "mig") return mig(words, node, gpu);
  if (what == "reset") return reset(words, node, gpu);
  if (what == "recovery") return recovery(words, node, gpu);
  if (what == "utilization") return utilization(words, node, gpu);
  if (what == "lost" || what == "back") {
    if (words.done()) node.update_gpu(gpu, [&](GpuState& state) { state.lost = what == "lost" ? 1 : 0; });
  } else if (what == "plug" || what == "unplug") {
    if (words.done()) node.update_gpu(gpu, [&](GpuState& state) { state.unplugged = what == "unplug" ? 1 : 0; });
  } else if (what == "memory") {
    const std::uint64_t bytes = words.need_bytes("the memory");
    if (words.done()) node.update_gpu(gpu, [bytes](GpuState& state) { state.extra_bytes = bytes; });
  } else if (what == "temperature") {
    set_number(words, node, gpu, 200, [](GpuState& state, std::uint32_t degrees) { state.temperature_c = degrees; });
  } else if (what == "power") {
    set_number(words, node, gpu, 10'000, [](GpuState& state, std::uint32_t watts) { draw(state, watts * 1000); });
  } else {
    words.fail(in_quotes(what) + " is nothing that happens to a GPU; sim-node help lists what does");
  }
}

}  // namespace tranche::sim
