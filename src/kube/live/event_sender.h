#pragma once
// Sends the requests of kube::EventQueue, one at a time, when they are due. Loop thread only.
#include <functional>
#include <memory>

#include "kube/client/kube_client.h"
#include "kube/event_queue.h"
#include "os/loop/timer.h"

namespace tranche::agent {

class EventSender {
 public:
  // on_answer: after each request; it must not destroy this object.
  EventSender(host::Loop& loop, kube::EventSettings settings, std::function<void()> on_answer)
      : loop_(loop), on_answer_(std::move(on_answer)), queue_(std::move(settings)) {}
  ~EventSender();
  EventSender(const EventSender&) = delete;
  EventSender& operator=(const EventSender&) = delete;

  void emit(const kube::ObjectRef& about, const kube::Reason& reason, const std::string& message);
  void use(host::KubeClient& client);  // everything waits for this call
  const kube::EventReport& report() const { return queue_.report(); }

 private:
  void step();

  host::Loop& loop_;
  std::function<void()> on_answer_;
  host::KubeClient* client_ = nullptr;
  kube::EventQueue queue_;
  host::KubeClient::Id call_ = 0;
  host::Timer timer_{loop_};
};

}  // namespace tranche::agent
