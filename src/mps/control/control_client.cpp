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
constexpr Duration kDescription = std::chrono::seconds(10);        // deadline of the question about the program itself
constexpr Duration kSessionPause = std::chrono::milliseconds(20);  // while another program holds the session
// What the program prints, on either output and with either exit status, while another program's session is open
// (docs/internals/evidence/mps-handshake.md).
constexpr std::string_view kSessionHeld = "Cannot send command to MPS control daemon process";

}  // namespace

Question::~Question() {
  if (sessions_ != nullptr) sessions_->leave(*this);
}

Duration Question::left() {
  const MonoTime now = sessions_->loop_.now();
  due_ = due_.value_or(now + deadline_);
  return std::max(Duration{}, *due_ - now);
}

void Question::begin() {
  const os::Command command{.argv = sessions_->target_.argv, .env = sessions_->target_.env, .text = input_};
  run_ = std::make_unique<os::Run>(sessions_->loop_, command, left(),
                                   [this](const Result<os::Ended>& end) { ended(end); });
}

void Question::ended(const Result<os::Ended>& ended) {
  const std::string& program = sessions_->target_.argv[0];
  if (!ended && ended.error().kind == Kind::kTimeout) {
    const double seconds = std::chrono::duration<double>(deadline_).count();
    const Error late{Kind::kTimeout, fmt::format("no answer within {:.1f} s", seconds), program, 0};
    return finish(std::unexpected(refused_.value_or(late)));
  }
  if (!ended) {
    Error error = ended.error();
    error.kind = Kind::kUnavailable;  // not the daemon's fault
    return finish(std::unexpected(std::move(error)));
  }
  const auto& [note, text] = *ended;
  if (text.find(kSessionHeld) != std::string::npos) {
    refused_ = Error{Kind::kConflict, "another client holds the daemon's one control session", program, 0};
    if (left() <= kSessionPause) return finish(std::unexpected(*refused_));
    run_.reset();
    return sessions_->begin_soon(kSessionPause);
  }
  if (!note.signalled && note.code == 0) return finish(text);
  const std::string printed = trimmed(text).empty() ? std::string() : ": " + in_quotes(trimmed(text));
  if (text.find("Cannot find MPS control daemon process") != std::string::npos)
    return finish(fail(Kind::kNotFound, "no daemon there" + printed, program, note.code));
  finish(fail(Kind::kUnavailable, "it " + os::to_string(note) + printed, program, note.code));
}

void Question::finish(const Result<std::string>& result) {
  run_.reset();
  std::exchange(sessions_, nullptr)->leave(*this);
  const auto done = std::move(done_);
  done(result);  // may ask the next question, or destroy this and the sessions
}

// --- one session after the other -------------------------------------------------------------------------------------

std::unique_ptr<Question> Sessions::ask(std::string input, Duration deadline, Question::Done done) {
  std::unique_ptr<Question> question(new Question(this, std::move(input), deadline, std::move(done)));
  questions_.push_back(question.get());
  begin_soon();
  return question;
}

void Sessions::begin_soon(Duration pause) {
  if (turn_.running()) return;
  turn_.start(pause, [this] {
    if (!questions_.empty() && questions_.front()->run_ == nullptr) questions_.front()->begin();
  });
}

void Sessions::leave(const Question& question) {
  std::erase(questions_, &question);
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
  const auto sessions = std::make_shared<Sessions>(loop, ControlTarget{{found.path, "-h"}, found.env});
  open = sessions->ask("", kDescription, [=](const Result<std::string>& help) mutable {
    (void)sessions;  // as long as the question is open
    if (!help) return done(std::unexpected(within(help.error(), "cannot learn about the MPS control program")));
    found.offers_multiuser = offers_multiuser(*help);
    done(found);
  });
}

}  // namespace tranche::mps
