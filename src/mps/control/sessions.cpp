#include "mps/control/sessions.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace tranche::host {
namespace {

constexpr Duration kTryAgain = std::chrono::milliseconds(20);  // while another program holds the session

}  // namespace

struct Sessions::Entry {
  explicit Entry(Loop& loop) : expiry(loop) {}
  SessionAsked asked;
  Done done;
  Duration left{};           // time left while it waits; an urgent one has `due`
  MonoTime due{};            // deadline while it runs or is urgent
  Timer expiry;              // of an urgent one that waits
  std::optional<Error> why;  // the last refusal
  std::unique_ptr<Question> running;
  bool urgent() const { return asked.rank == SessionAsked::Rank::kUrgent; }
};

class Sessions::Handle final : public Question {
 public:
  Handle(Sessions& sessions, Shared entry) : sessions_(sessions), entry_(std::move(entry)) {}
  ~Handle() override { sessions_.withdraw(entry_); }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;

 private:
  Sessions& sessions_;
  Shared entry_;
};

Sessions::~Sessions() {
  for (const auto& entry : waiting_) entry->expiry.stop();  // breaks the cycle with the entry
  if (open_) open_->running.reset();                        // breaks the cycle with the entry
}

bool Sessions::urgent() const {
  return (open_ && open_->urgent()) || std::ranges::any_of(waiting_, [](const Shared& e) { return e->urgent(); });
}

std::unique_ptr<Question> Sessions::ask(SessionAsked what, Done done) {
  auto entry = std::make_shared<Entry>(loop_);
  entry->left = what.deadline;
  entry->due = loop_.now() + what.deadline;
  entry->asked = std::move(what);
  entry->done = std::move(done);
  waiting_.push_back(entry);
  wait_for_turn(entry);
  begin_soon();
  return std::make_unique<Handle>(*this, entry);
}

void Sessions::wait_for_turn(const Shared& entry) {
  if (!entry->urgent()) return;
  entry->expiry.start(std::max(Duration{}, entry->due - loop_.now()), [this, entry] {
    std::erase(waiting_, entry);
    const Error waited{Kind::kTimeout, "another control session took all the time there was",
                       entry->asked.target.program, 0};
    finish(entry, std::unexpected(entry->why.value_or(waited)));
  });
}

void Sessions::begin_soon(Duration pause) {
  not_before_ = std::max(not_before_, loop_.now() + pause);
  if (turn_.running() || open_ || waiting_.empty()) return;
  turn_.start(std::max(Duration{}, not_before_ - loop_.now()), [this] { begin_next(); });
}

void Sessions::begin_next() {
  if (open_ || waiting_.empty()) return;
  auto first = std::ranges::find_if(waiting_, [](const Shared& e) { return e->urgent(); });
  if (first == waiting_.end()) first = waiting_.begin();
  const Shared entry = *first;
  waiting_.erase(first);
  open_ = entry;
  entry->expiry.stop();
  if (!entry->urgent()) entry->due = loop_.now() + entry->left;
  entry->running =
      host::ask(loop_, entry->asked.target, entry->asked.input, std::max(Duration{}, entry->due - loop_.now()),
                [this, entry](const Result<std::string>& reply) { answered(entry, reply); });
  if (entry->asked.on_begun) entry->asked.on_begun();
}

void Sessions::answered(const Shared& entry, const Result<std::string>& reply) {
  open_.reset();
  const bool held = !reply && reply.error().kind == Kind::kConflict;
  const bool ran_out = !reply && reply.error().kind == Kind::kTimeout;
  if (const std::optional<Error> why = entry->why; ran_out && why) return finish(entry, std::unexpected(*why));
  if (!held || loop_.now() + kTryAgain >= entry->due) return finish(entry, reply);
  entry->why = reply.error();
  entry->running.reset();
  entry->left = entry->due - loop_.now() - kTryAgain;
  waiting_.push_front(entry);
  wait_for_turn(entry);
  begin_soon(kTryAgain);
}

void Sessions::finish(const Shared& entry, const Result<std::string>& result) {
  begin_soon();
  const auto done = std::exchange(entry->done, {});
  const auto running = std::move(entry->running);
  if (done) done(result);  // may ask the next question, or destroy this
}

void Sessions::withdraw(const Shared& entry) {
  entry->done = {};
  entry->expiry.stop();
  std::erase(waiting_, entry);
  if (open_ != entry) return;
  open_.reset();
  entry->running.reset();
  begin_soon();
}

}  // namespace tranche::host
