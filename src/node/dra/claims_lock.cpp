#include "node/dra/claims.h"

#include <unistd.h>

#include <utility>

#include "os/log/log.h"

namespace tranche::node {
namespace {

using namespace std::chrono_literals;

constexpr const char* kLock = "claims.lock";
constexpr const char* kNext = "claims.next";
constexpr Duration kAskAgainAfter = 10s;
constexpr Duration kTakeBackAfter = 2s;  // the agent that asked may have ended before it had them

}  // namespace

ClaimsLock::ClaimsLock(os::Loop& loop, std::string run_dir, Callbacks callbacks)
    : loop_(loop), run_dir_(std::move(run_dir)), callbacks_(std::move(callbacks)), timer_(loop) {}

bool ClaimsLock::open() {
  // Before the first try: what happens after it is seen.
  auto watch = os::DirWatch::open(loop_, run_dir_, [this](const std::string& name) { look(name); });
  auto dir = os::Dir::open(run_dir_);
  auto lock = dir ? os::FileLock::open(run_dir_ + "/" + kLock) : std::unexpected(dir.error());
  const auto taken = lock ? lock->take() : Result<bool>(std::unexpected(lock.error()));
  if (!watch || !taken) {
    log::warning("claims.not_locked",
                 {{"why", watch ? taken.error() : watch.error()},
                  {"effect", "an older and a newer agent at a time can both change the claims of this node"}});
    return had_ = true;
  }
  watch_ = *std::move(watch);
  dir_ = *std::move(dir);
  lock_ = *std::move(lock);
  had_ = *taken;
  if (!had_) log::info("claims.with_older_agent", {{"file", run_dir_ + "/" + kLock}});
  return had_;
}

void ClaimsLock::want() {
  if (had_ || !dir_ || timer_.running()) return;
  timer_.start(kAskAgainAfter, [this] { want(); });
  const auto asked = dir_->write_atomically(kNext, std::to_string(::getpid()) + "\n", 0600);
  if (!asked) log::warning("claims.not_asked_for", {{"why", asked.error()}, {"effect", "the older agent has them"}});
}

void ClaimsLock::give_up() {
  if (!lock_ || !lock_->taken()) return;
  asked_of_ = false;
  lock_->free();
  (void)dir_->remove(kNext);
  log::info("claims.given_up", {{"why", "a newer agent of this node serves them"}});
  timer_.start(kTakeBackAfter, [this] { take(); });
}

void ClaimsLock::look(const std::string& name) {
  if (!lock_) return;
  if (lock_->taken()) {
    if ((name == kNext || name.empty()) && !asked_of_ && dir_->exists(kNext)) {
      asked_of_ = true;
      callbacks_.wanted();
    }
    return;
  }
  // The one that gave them up waits for the end of the one that asked: it removed claims.next itself.
  if (name == kLock || name.empty() || (name == kNext && !had_)) take();
}

void ClaimsLock::take() {
  if (!lock_ || lock_->taken() || !lock_->take().value_or(false)) return;
  had_ = true;
  timer_.stop();
  (void)dir_->remove(kNext);  // of one that ended before it had them
  log::info("claims.taken");
  callbacks_.taken();
}

}  // namespace tranche::node
