#include "mps/pool/namespace_controller.h"

#include <algorithm>
#include <utility>

#include "mps/daemon/capacity.h"
#include "mps/pool/namespaces.h"
#include "os/log/log.h"

namespace tranche::agent {
namespace {

void answer(const std::vector<NamespaceController::Done>& callbacks, const Status& status) {
  for (const auto& done : callbacks) done(status);
}

}  // namespace

void NamespaceController::settle(Done done) {
  waiting_.push_back(std::move(done));
  try_refused_again();  // the clients of a removed endpoint may have ended since; the lists are up to seconds old
  if (!busy_) begin();
}

void NamespaceController::begin() {
  auto next = callbacks_.wanted();
  const bool serves = callbacks_.daemon().state == mps::State::kServing;
  if (!serves || next == all_) {
    const bool changed = next != all_;
    all_ = std::move(next);
    if (changed) callbacks_.all_changed();
    answer(std::exchange(waiting_, {}), {});
    return look();
  }
  busy_ = true;
  answered_ = std::exchange(waiting_, {});
  callbacks_.change(next, [this, next](const Status& status) { ended(status, next); });
}

void NamespaceController::ended(const Status& status, const Namespaces& next) {
  busy_ = false;
  if (status) all_ = next;
  answer(std::exchange(answered_, {}), status);
  if (busy_) return;  // one of the callbacks started it
  if (!waiting_.empty()) return begin();
  look();
}

// A removal in progress counts too: the daemon may have refused it before the last client exited.
void NamespaceController::try_refused_again() {
  refused_.clear();
  ++tries_;
}

// The clients that blocked a removal may have exited.
void NamespaceController::look() {
  const auto& daemon = callbacks_.daemon();
  const std::size_t clients = mps::live_clients(daemon);
  if (daemon.state != mps::State::kServing) removed_.clear();
  if (clients < std::exchange(clients_, clients)) try_refused_again();
  for (const auto& one : all_) {
    removed_.erase(one.name);
    refused_.erase(one.name);
  }
  remove_next();
}

void NamespaceController::remove_next() {
  const auto& daemon = callbacks_.daemon();
  if (busy_ || daemon.state != mps::State::kServing || !daemon.read_back) return;
  for (const auto& [name, server, memory, threads, pipe] : daemon.read_back->namespaces) {
    if (server != mps::v3::kServer || name == mps::v3::kDefaultNamespace || mps::find(all_, name) != nullptr) continue;
    if (removed_.contains(name) || refused_.contains(name)) continue;
    busy_ = true;
    return callbacks_.remove(name, [this, name = name, tries = tries_](const Status& status) {
      if (!status) log::info("namespace.stays", {{"namespace", name}, {"why", status.error()}});
      if (status) removed_.insert(name);
      if (!status && tries == tries_) refused_.insert(name);
      ended({}, all_);
    });
  }
}

}  // namespace tranche::agent
