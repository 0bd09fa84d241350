#include "mps/pool/pool_life.h"

#include <utility>

namespace tranche::mps {

std::vector<LifeAction> step(PoolLife& life, LifeEvent event, const LifeInputs& inputs, const std::string& why) {
  using enum LifeState;
  const bool wanted = inputs.planned && !inputs.closing;
  const bool failed = event == LifeEvent::kStartFailed;
  if (failed || event == LifeEvent::kModesSet) life.setting_modes = false;
  std::vector<LifeAction> actions;
  const auto go = [&](LifeState state, std::initializer_list<LifeAction> what = {}) {
    life.state = state;
    actions.insert(actions.end(), what);
  };
  const auto set_modes = [&] {
    if (!std::exchange(life.setting_modes, true)) actions.push_back(LifeAction::kSetModes);
  };
  const auto begin = [&] {
    if (!wanted) return life.setting_modes ? void() : go(kEnded);
    life.reason = inputs.waits;
    go(inputs.waits.empty() ? kPreparing : kWaiting);
    if (inputs.waits.empty()) set_modes();
  };
  const auto fail = [&](LifeState state) {
    life.reason = why;
    go(state, {LifeAction::kRetryLater});
    if (!inputs.has_daemon) actions.push_back(LifeAction::kDiscard);
    if (!wanted) begin();
  };
  const auto start = [&] {
    life.reason.clear();
    go(kServing, {LifeAction::kStart});
  };
  const auto stop = [&] { go(kEnding, {LifeAction::kStop}); };
  // Not planned any more, or the program ends.
  const auto leave = [&] {
    if (inputs.forced && !inputs.users.empty()) {
      life.reason = "it is ended by force (tranche mps --end)";
      return go(kForcing, {LifeAction::kEndClients});
    }
    if (inputs.closing || inputs.users.empty()) return stop();
    life.reason = "not configured any more: it ends when its last " + inputs.users;
    go(kDraining);
  };
  const auto serve = [&] {
    if (failed && !inputs.has_daemon) return fail(kFailed);
    if (!wanted) return leave();
    if (life.state == kDraining) life.reason.clear();
    life.state = kServing;
    if (failed) return fail(kServing);
    if (inputs.held && inputs.users.empty() && !life.setting_modes) {  // it yields to the other holders
      life.reason = inputs.waits;
      return stop();
    }
    if (event == LifeEvent::kModesSet) start();
    if (event == LifeEvent::kPlanChanged || event == LifeEvent::kRetry) set_modes();
  };
  switch (life.state) {
    case kWaiting:
      begin();
      break;
    case kPreparing:
      if (failed) {
        fail(kFailed);
      } else if (!life.setting_modes) {
        wanted&& inputs.waits.empty() ? start() : begin();
      }
      break;
    case kFailed:
      if (event == LifeEvent::kRetry || event == LifeEvent::kPlanChanged || !wanted) begin();
      break;
    case kServing:
    case kDraining:
      serve();
      break;
    case kForcing:
      if (event == LifeEvent::kClientsEnded) stop();
      break;
    case kEnding:
      if (inputs.has_daemon) break;
      go(kWaiting, {LifeAction::kDiscard});
      begin();
      break;
    case kEnded:
      break;
  }
  return actions;
}

}  // namespace tranche::mps
