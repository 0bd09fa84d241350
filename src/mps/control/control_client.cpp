#include "mps/control/control_client.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/text.h"
#include "os/process/process.h"

namespace tranche::mps {
namespace {

constexpr off_t kLongestAnswer = 1 << 20;
constexpr Duration kSessionPause = std::chrono::milliseconds(20);  // while another program holds the session
// What the program prints, on either output and with either exit status, while another program's session is open
// (docs/internals/evidence/mps-handshake.md).
constexpr std::string_view kSessionHeld = "Cannot send command to MPS control daemon process";

Result<std::string> content_of(const os::Fd& file, const std::string& program) {
  struct stat status{};
  const bool known = ::fstat(file.get(), &status) == 0;
  if (known && status.st_size > kLongestAnswer) return fail(Kind::kInvalid, "the answer is longer than 1 MiB", program);
  std::string text(known ? static_cast<std::size_t>(status.st_size) : 0, '\0');
  if (!known || ::pread(file.get(), text.data(), text.size(), 0) != status.st_size)
    return std::unexpected(error_from_errno(errno, "cannot read an answer", program));
  return text;
}

// A file in memory that holds `content`.
Result<os::Fd> memory_file(const char* name, const std::string& content) {
  os::Fd file(::memfd_create(name, MFD_CLOEXEC));
  if (!file) return std::unexpected(error_from_errno(errno, "cannot make a file in memory", name));
  if (::pwrite(file.get(), content.data(), content.size(), 0) != static_cast<ssize_t>(content.size()))
    return std::unexpected(error_from_errno(errno, "cannot write a file in memory", name));
  return file;
}

class RunningQuestion final : public Question {
 public:
  RunningQuestion(os::Loop& loop, std::string program, Duration deadline, std::function<void(Result<std::string>)> done)
      : loop_(loop), program_(std::move(program)), done_(std::move(done)) {
    timer_.start(deadline, [this, deadline] {
      finish(fail(Kind::kTimeout,
                  fmt::format("no answer within {:.1f} s", std::chrono::duration<double>(deadline).count()), program_));
    });
  }
  ~RunningQuestion() override { abandon(); }
  RunningQuestion(const RunningQuestion&) = delete;
  RunningQuestion& operator=(const RunningQuestion&) = delete;

  void begin(os::Command what, const std::string& input) {
    auto started = start(std::move(what), input);
    if (started) return;
    Error error = started.error();
    error.kind = Kind::kUnavailable;  // not the daemon's fault
    timer_.start(Duration{}, [this, error] { finish(std::unexpected(error)); });
  }

 private:
  Status start(os::Command what, const std::string& input) {
    TRY(const os::Fd in, memory_file("mps-question", input));
    TRY(output_, memory_file("mps-answer", ""));
    what.input = in.get();
    what.output = output_.get();
    what.kill_on_drop = true;
    TRY(process_, os::Process::start(loop_, what, {}, [this](os::ExitNote note) { ended(note); }));
    return {};
  }

  void ended(const os::ExitNote& note) {
    const auto text = content_of(output_, program_);
    if (text && text->find(kSessionHeld) != std::string::npos) {
      return finish(fail(Kind::kConflict, "another client holds the daemon's one control session", program_));
    }
    if (!text || (!note.signalled && note.code == 0)) return finish(text);
    const std::string printed = trimmed(*text).empty() ? std::string() : ": " + in_quotes(trimmed(*text));
    if (text->find("Cannot find MPS control daemon process") != std::string::npos) {
      return finish(fail(Kind::kNotFound, "no daemon there" + printed, program_, note.code));
    }
    finish(fail(Kind::kUnavailable, "it " + os::to_string(note) + printed, program_, note.code));
  }

  void finish(const Result<std::string>& result) {
    abandon();
    const auto done = std::move(done_);
    done(result);  // may destroy this
  }
  void abandon() {
    timer_.stop();
    process_.reset();
  }

  os::Loop& loop_;
  std::string program_;
  std::function<void(Result<std::string>)> done_;
  os::Timer timer_{loop_};
  os::Fd output_;
  std::unique_ptr<os::Process> process_;
};

}  // namespace

std::unique_ptr<Question> ask(os::Loop& loop, const ControlTarget& target, const std::string& input, Duration deadline,
                              std::function<void(Result<std::string>)> done) {
  auto question = std::make_unique<RunningQuestion>(loop, target.argv[0], deadline, std::move(done));
  question->begin({.argv = target.argv, .env = target.env}, input);
  return question;
}

// --- one session after the other -------------------------------------------------------------------------------------

class Sessions::Entry final : public Question {
 public:
  Entry(Sessions& sessions, SessionAsked what, Done then)
      : asked(std::move(what)), done(std::move(then)), expiry(sessions.loop_), sessions_(sessions) {}
  ~Entry() override {
    std::erase(sessions_.waiting_, this);
    if (sessions_.open_ != this) return;
    sessions_.open_ = nullptr;
    sessions_.begin_soon();
  }
  Entry(const Entry&) = delete;
  Entry& operator=(const Entry&) = delete;
  bool urgent() const { return asked.urgent; }

  SessionAsked asked;
  Done done;
  std::optional<MonoTime> due;  // from its first start on, or if it is urgent
  os::Timer expiry;             // of an urgent one that waits
  std::optional<Error> why;     // the last refusal
  std::unique_ptr<Question> running;

 private:
  Sessions& sessions_;
};

bool Sessions::urgent() const {
  return (open_ != nullptr && open_->urgent()) || std::ranges::any_of(waiting_, &Entry::urgent);
}

std::unique_ptr<Question> Sessions::ask(SessionAsked what, Done done) {
  auto entry = std::make_unique<Entry>(*this, std::move(what), std::move(done));
  waiting_.push_back(entry.get());
  wait_for_turn(*entry);
  begin_soon();
  return entry;
}

void Sessions::wait_for_turn(Entry& entry) {
  if (!entry.urgent()) return;
  entry.due = entry.due.value_or(loop_.now() + entry.asked.deadline);
  entry.expiry.start(std::max(Duration{}, *entry.due - loop_.now()), [this, &entry] {
    std::erase(waiting_, &entry);
    const Error waited{Kind::kTimeout, "another control session took all the time there was", target_.argv[0], 0};
    finish(entry, std::unexpected(entry.why.value_or(waited)));
  });
}

void Sessions::begin_soon(Duration pause) {
  not_before_ = std::max(not_before_, loop_.now() + pause);
  if (turn_.running() || open_ != nullptr || waiting_.empty()) return;
  turn_.start(std::max(Duration{}, not_before_ - loop_.now()), [this] { begin_next(); });
}

void Sessions::begin_next() {
  if (open_ != nullptr || waiting_.empty()) return;
  auto first = std::ranges::find_if(waiting_, &Entry::urgent);
  if (first == waiting_.end()) first = waiting_.begin();
  Entry& entry = **first;
  waiting_.erase(first);
  open_ = &entry;
  entry.expiry.stop();
  entry.due = entry.due.value_or(loop_.now() + entry.asked.deadline);
  entry.running = mps::ask(loop_, target_, entry.asked.input, std::max(Duration{}, *entry.due - loop_.now()),
                           [this, &entry](const Result<std::string>& reply) { answered(entry, reply); });
  if (const auto on_begun = entry.asked.on_begun) on_begun();  // may destroy the entry
}

void Sessions::answered(Entry& entry, const Result<std::string>& reply) {
  open_ = nullptr;
  const bool held = !reply && reply.error().kind == Kind::kConflict;
  const bool ran_out = !reply && reply.error().kind == Kind::kTimeout;
  if (ran_out && entry.why) return finish(entry, std::unexpected(*entry.why));
  if (!held || loop_.now() + kSessionPause >= entry.due.value_or(MonoTime{})) return finish(entry, reply);
  entry.why = reply.error();
  entry.running.reset();
  waiting_.push_front(&entry);
  wait_for_turn(entry);
  begin_soon(kSessionPause);
}

void Sessions::finish(Entry& entry, const Result<std::string>& result) {
  begin_soon();
  const auto done = std::move(entry.done);
  const auto running = std::move(entry.running);
  done(result);  // may ask the next question, or destroy the entry and this
}

}  // namespace tranche::mps
