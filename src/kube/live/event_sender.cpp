#include "kube/live/event_sender.h"

#include <algorithm>

#include "kube/api_status.h"
#include "os/log/log.h"

namespace tranche::agent {

EventSender::~EventSender() {
  if (client_ != nullptr) client_->cancel(call_);
}

void EventSender::emit(const kube::ObjectRef& about, const kube::Reason& reason, const std::string& message) {
  queue_.emit(about, reason, message, loop_.now(), loop_.wall_now());
  step();
}

void EventSender::use(host::KubeClient& client) {
  client_ = &client;
  step();
}

void EventSender::step() {
  if (client_ == nullptr) return;
  timer_.stop();
  if (const auto next = queue_.take(loop_.now())) {
    const auto done = [this, id = next->id](const host::KubeAnswer& answer) {
      call_ = 0;
      const bool refused = answer.status >= 400;
      const std::string why = refused ? kube::status_of_body(answer.status, answer.body).message : answer.why;
      if (refused || answer.status == 0)
        log::warning("kube.event_not_written", {{"status", answer.status}, {"why", why}});
      queue_.done(id, answer.status, why, loop_.now());
      step();
      on_answer_();
    };
    call_ = next->create ? client_->create(next->path, next->body, done) : client_->patch(next->path, next->body, done);
    return;
  }
  if (const auto due = queue_.next(loop_.now()))
    timer_.start(std::max(*due - loop_.now(), Duration::zero()), [this] { step(); });
}

}  // namespace tranche::agent
