// Which clients a fatal GPU error kills, and when the server is healthy again (facts: section 3; log lines:
// transcripts).
#include <algorithm>
#include <set>

#include "standins/mps/server.h"
#include "standins/mps/server_shared.h"

namespace tranche::sim {
bool MpsServer::faulty() const {
  return !sticky_.empty();
}

void MpsServer::spread_fault(int ordinal, const Client* culprit, int code) {
  if (ordinal < 0) return;
  // All clients on the GPU, and all GPUs that one of those uses too: a shared client links their fates.
  std::set<int> gpus{ordinal};
  std::vector<Client*> victims;
  for (bool grown = true; grown;) {
    grown = false;
    for (const auto& slot : slots_) {
      if (!slot || slot->terminated || std::ranges::find(victims, slot.get()) != victims.end()) continue;
      if (std::ranges::none_of(slot->contexts, [&](const Context& c) { return gpus.contains(c.ordinal); })) continue;
      for (const auto& context : slot->contexts) gpus.insert(context.ordinal);
      victims.push_back(slot.get());
      grown = true;
    }
  }
  if (victims.empty()) return;
  // Victims are listed in the order in which they connected. Only this line names the culprit; after a death it names
  // an innocent peer, and the "assuming client … exit" line before it names the culprit (transcripts/lives.txt).
  std::ranges::sort(victims, {}, [](const Client* victim) { return victim->id; });
  const Client* reporter = culprit != nullptr ? culprit : victims.back();
  if (reporter->contexts.empty()) return;
  log_.line("Client {PID: " + std::to_string(reporter->pid) +
            ", Context: " + std::to_string(reporter->contexts.front().id) + "} encountered a fatal GPU error.");
  log_.line("Server is handling a fatal GPU error.");
  for (Client* victim : victims) {
    for (auto& context : victim->contexts) {
      context.poisoned = true;
      context.kernel_ns = context.until_ns = 0;
      log_.line("Client " + named(victim->pid, context.id) + " on device " + std::to_string(context.ordinal) +
                " to be torn down");
    }
  }
  for (const Client* victim : victims) {
    const std::string pid = std::to_string(victim->pid);
    log_.line("All clients belonging to error trigging process " + pid + " will be torn down");
    for (const auto& context : victim->contexts) {
      log_.line("Client " + named(victim->pid, context.id) + " on the error-trigging process " + pid +
                " to be torn down");
    }
  }
  log_.line("The following devices will be reset:");
  for (const int gpu : gpus) {
    log_.line(std::to_string(gpu));
    reset_.push_back(gpu);
  }
  log_.line("The following client process have a sticky error set:");
  for (Client* victim : victims) {
    log_.line(std::to_string(victim->pid));
    if (std::ranges::find(sticky_, victim->pid) == sticky_.end()) sticky_.push_back(victim->pid);
    send_message(victim->fd.get(), {"error", {{"code", std::to_string(code)}}});
  }
}

void MpsServer::leave_fault_if_clean() {
  if (faulty()) return;
  for (std::size_t i = 0; i < devices_.size(); ++i) {
    const bool poisoned_before = device_open_[i] && std::ranges::find(reset_, static_cast<int>(i)) != reset_.end();
    if (!poisoned_before) continue;
    log_.line("Destroy server context on device " + std::to_string(i) + " (" + devices_[i].properties.name + ")");
    device_open_[i] = false;
  }
  reset_.clear();
}

}  // namespace tranche::sim
