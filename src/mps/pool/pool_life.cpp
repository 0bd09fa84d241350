#include "mps/pool/pool_life.h"

namespace tranche::mps {
namespace {

class LifeStep {
 public:
  LifeStep(PoolLife& life, const LifeInputs& inputs, const std::string& why)
      : life_(life), inputs_(inputs), why_(why) {}

  std::vector<LifeAction> take(LifeEvent event) {
    if (event == LifeEvent::kModesSet || event == LifeEvent::kStartFailed) life_.setting_modes = false;
    switch (life_.state) {
      case LifeState::kWaiting:
        begin();
        break;
      case LifeState::kPreparing:
        prepared(event);
        break;
      case LifeState::kFailed:
        if (event == LifeEvent::kRetry || event == LifeEvent::kPlanChanged || !is_wanted()) begin();
        break;
      case LifeState::kServing:
      case LifeState::kDraining:
        serve(event);
        break;
      case LifeState::kForcing:
        if (event == LifeEvent::kClientsEnded) stop();
        break;
      case LifeState::kEnding:
        if (!inputs_.has_daemon) end();
        break;
      case LifeState::kEnded:
        break;
    }
    return std::move(actions_);
  }

 private:
  bool is_wanted() const { return inputs_.planned && !inputs_.closing; }

  void begin() {
    if (!is_wanted()) {
      if (!life_.setting_modes) life_.state = LifeState::kEnded;
      return;
    }
    life_.reason = inputs_.waits;
    life_.state = inputs_.waits.empty() ? LifeState::kPreparing : LifeState::kWaiting;
    if (inputs_.waits.empty()) set_modes();
  }

  void set_modes() {
    if (life_.setting_modes) return;
    life_.setting_modes = true;
    actions_.push_back(LifeAction::kSetModes);
  }

  void prepared(LifeEvent event) {
    if (event == LifeEvent::kStartFailed) return fail(LifeState::kFailed);
    if (life_.setting_modes) return;
    if (!is_wanted() || !inputs_.waits.empty()) return begin();
    start();
  }

  void start() {
    life_.state = LifeState::kServing;
    life_.reason.clear();
    actions_.push_back(LifeAction::kStart);
  }

  void fail(LifeState state) {
    life_.state = state;
    life_.reason = why_;
    actions_.push_back(LifeAction::kRetryLater);
    if (!inputs_.has_daemon) actions_.push_back(LifeAction::kDiscard);
    if (!is_wanted()) begin();
  }

  void serve(LifeEvent event) {
    if (!inputs_.has_daemon && event == LifeEvent::kStartFailed) return fail(LifeState::kFailed);
    if (!is_wanted()) return leave();
    if (life_.state == LifeState::kDraining) life_.reason.clear();
    life_.state = LifeState::kServing;
    if (event == LifeEvent::kStartFailed) return fail(LifeState::kServing);
    const bool yields = inputs_.held && inputs_.users.empty() && !life_.setting_modes;
    if (yields) {
      life_.reason = inputs_.waits;
      return stop();
    }
    if (event == LifeEvent::kModesSet) start();
    if (event == LifeEvent::kPlanChanged || event == LifeEvent::kRetry) set_modes();
  }

  // Not planned any more, or the program ends.
  void leave() {
    if (inputs_.forced && !inputs_.users.empty()) {
      life_.state = LifeState::kForcing;
      life_.reason = "it is ended by force (tranche mps --end)";
      actions_.push_back(LifeAction::kEndClients);
    } else if (inputs_.closing || inputs_.users.empty()) {
      stop();
    } else {
      life_.state = LifeState::kDraining;
      life_.reason = "not configured any more: it ends when its last " + inputs_.users;
    }
  }

  void stop() {
    life_.state = LifeState::kEnding;
    actions_.push_back(LifeAction::kStop);
  }

  void end() {
    actions_.push_back(LifeAction::kDiscard);
    life_.state = LifeState::kWaiting;
    begin();
  }

  PoolLife& life_;
  const LifeInputs& inputs_;
  const std::string& why_;
  std::vector<LifeAction> actions_;
};

}  // namespace

std::vector<LifeAction> step(PoolLife& life, LifeEvent event, const LifeInputs& inputs, const std::string& why) {
  return LifeStep(life, inputs, why).take(event);
}

}  // namespace tranche::mps
