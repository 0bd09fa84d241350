#include "mig/live/state_label.h"

#include <nlohmann/json.hpp>

#include "base/json_text.h"
#include "base/text.h"
#include "kube/api_status.h"
#include "kube/node_condition.h"
#include "mig/live/mig_options.h"
#include "os/log/log.h"

namespace tranche::agent {

using namespace std::chrono_literals;

StateLabel::StateLabel(host::Loop& loop, std::string node, std::function<void()> on_written)
    : loop_(loop),
      node_(std::move(node)),
      on_written_(std::move(on_written)),
      backoff_(200ms, 1min, stable_hash(node_ + " mig")) {}

StateLabel::~StateLabel() {
  if (client_ != nullptr) client_->cancel(call_);
}

void StateLabel::is(const std::string& value) {
  if (call_ != 0) return;  // older than what is being written
  written_ = value;
  step();
}

void StateLabel::want(const std::string& value) {
  if (wanted_ != value) problem_.clear();
  wanted_ = value;
  step();
}

void StateLabel::step() {
  if (client_ == nullptr || call_ != 0 || timer_.running() || wanted_.empty() || wanted_ == written_) return;
  const nlohmann::json patch{{"metadata", {{"labels", {{kMigStateLabel, wanted_}}}}}};
  call_ =
      client_->patch(kube::node_path(node_), json_text(patch), [this, value = wanted_](const host::KubeAnswer& answer) {
        call_ = 0;
        if (answer.status >= 200 && answer.status < 300) {
          backoff_.reset();
          problem_.clear();
          written_ = value;
          log::info("mig.state", {{"label", kMigStateLabel}, {"value", value}});
        } else {
          const std::string why =
              answer.status >= 400 ? kube::status_of_body(answer.status, answer.body).message : answer.why;
          if (why != problem_) log::warning("mig.state_not_written", {{"value", value}, {"why", why}});
          problem_ = why.empty() ? "no answer" : why;
          timer_.start(backoff_.next(), [this] { step(); });
        }
        step();
        on_written_();
      });
}

}  // namespace tranche::agent
