#include "mps/control/control_client.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include "base/text.h"
#include "mps/control/questions.h"
#include "os/files/files.h"

namespace tranche::mps {
namespace {

constexpr const char* kName = "nvidia-cuda-mps-control";
constexpr Duration kDescription = std::chrono::seconds(10);        // deadline of each question about the program itself
constexpr Duration kSessionPause = std::chrono::milliseconds(20);  // while another program holds the session
// What the program prints, on either output and with either exit status, while another program's session is open
// (docs/internals/evidence/mps-handshake.md).
constexpr std::string_view kSessionHeld = "Cannot send command to MPS control daemon process";

}  // namespace

std::unique_ptr<Question> ask(os::Loop& loop, const ControlTarget& target, const std::string& input, Duration deadline,
                              Question::Done done) {
  std::unique_ptr<Question> question(new Question(loop, input, deadline, std::move(done), nullptr));
  question->begin(target);
  return question;
}

Question::~Question() {
  if (sessions_ != nullptr) sessions_->leave(*this);
}

Duration Question::left() {
  due_ = due_.value_or(loop_.now() + deadline_);
  return std::max(Duration{}, *due_ - loop_.now());
}

void Question::begin(const ControlTarget& target) {
  program_ = target.argv[0];
  run_ = std::make_unique<os::Run>(loop_, os::Command{.argv = target.argv, .env = target.env}, input_, left(),
                                   [this](const Result<os::Ended>& end) { ended(end); });
}

void Question::ended(const Result<os::Ended>& ended) {
  if (!ended && ended.error().kind == Kind::kTimeout) {
    const double seconds = std::chrono::duration<double>(deadline_).count();
    const Error late{Kind::kTimeout, fmt::format("no answer within {:.1f} s", seconds), program_, 0};
    return finish(std::unexpected(refused_.value_or(late)));
  }
  if (!ended) {
    Error error = ended.error();
    error.kind = Kind::kUnavailable;  // not the daemon's fault
    return finish(std::unexpected(std::move(error)));
  }
  const auto& [note, text] = *ended;
  if (text.find(kSessionHeld) != std::string::npos) {
    refused_ = Error{Kind::kConflict, "another client holds the daemon's one control session", program_, 0};
    if (sessions_ != nullptr && sessions_->try_again(*this)) return;
    return finish(std::unexpected(*refused_));
  }
  if (!note.signalled && note.code == 0) return finish(text);
  const std::string printed = trimmed(text).empty() ? std::string() : ": " + in_quotes(trimmed(text));
  if (text.find("Cannot find MPS control daemon process") != std::string::npos)
    return finish(fail(Kind::kNotFound, "no daemon there" + printed, program_, note.code));
  finish(fail(Kind::kUnavailable, "it " + os::to_string(note) + printed, program_, note.code));
}

void Question::finish(const Result<std::string>& result) {
  run_.reset();
  if (sessions_ != nullptr) sessions_->leave(*this);
  const auto done = std::move(done_);
  done(result);  // may ask the next question, or destroy this and the sessions
}

// --- one session after the other -------------------------------------------------------------------------------------

std::unique_ptr<Question> Sessions::ask(std::string input, Duration deadline, Question::Done done) {
  std::unique_ptr<Question> question(new Question(loop_, std::move(input), deadline, std::move(done), this));
  waiting_.push_back(question.get());
  begin_soon();
  return question;
}

void Sessions::begin_soon(Duration pause) {
  not_before_ = std::max(not_before_, loop_.now() + pause);
  if (turn_.running() || open_ != nullptr || waiting_.empty()) return;
  turn_.start(std::max(Duration{}, not_before_ - loop_.now()), [this] { begin_next(); });
}

void Sessions::begin_next() {
  if (open_ != nullptr || waiting_.empty()) return;
  open_ = waiting_.front();
  waiting_.pop_front();
  open_->begin(target_);
}

bool Sessions::try_again(Question& question) {
  if (question.left() <= kSessionPause) return false;
  question.run_.reset();
  open_ = nullptr;
  waiting_.push_front(&question);
  begin_soon(kSessionPause);
  return true;
}

void Sessions::leave(const Question& question) {
  std::erase(waiting_, &question);
  if (open_ == &question) open_ = nullptr;
  begin_soon();
}

// --- the program -----------------------------------------------------------------------------------------------------

std::vector<std::string> candidates(const BinarySearch& search) {
  if (!search.given.empty()) return {search.given};
  std::vector<std::string> paths;
  for (const char* dir : {"/usr/bin/", "/usr/local/bin/", "/usr/local/nvidia/bin/"})
    paths.push_back(os::under_root(search.driver_root, dir) + kName);
  for (const auto dir : split(search.path, ':'))
    if (dir.starts_with('/')) paths.push_back(os::under_root(std::string(dir), "/") + kName);
  return paths;
}

Result<std::string> find_control_binary(const BinarySearch& search) {
  const auto paths = candidates(search);
  for (const auto& path : paths) {
    if (::access(path.c_str(), X_OK) == 0) return path;
  }
  return fail(Kind::kNotFound,
              std::string("there is no ") + kName +
                  "; it comes with the driver (in a container: NVIDIA_DRIVER_CAPABILITIES=compute,utility), or name it "
                  "with --mps-control",
              "looked at " + join(paths, ", "));
}

ProcessEnvironment handed_on(const ProcessEnvironment& ours) {
  ProcessEnvironment env;
  for (const auto& [name, value] : ours) {
    if (name == "LD_LIBRARY_PATH" || name == "PATH" || name.starts_with("TRANCHE_")) env.emplace(name, value);
  }
  return env;
}

void describe_control_binary(os::Loop& loop, ControlBinary found, std::unique_ptr<Question>& open,
                             std::function<void(Result<ControlBinary>)> done) {
  const auto run = [&loop, &open, found, done](const char* option,
                                               const std::function<void(const std::string&)>& then) {
    open = ask(loop, {{found.path, option}, found.env}, "", kDescription, [=](const Result<std::string>& text) {
      if (text) return then(*text);
      done(std::unexpected(within(text.error(), "cannot learn about the MPS control program")));
    });
  };
  run("-h", [=](const std::string& help) {
    run("-v", [=, offers = offers_multiuser(help)](const std::string& version) mutable {
      found.version = parse_version(version);
      found.offers_multiuser = offers;
      done(found);
    });
  });
}

}  // namespace tranche::mps
