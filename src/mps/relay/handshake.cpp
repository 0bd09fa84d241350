#include "mps/relay/handshake.h"

namespace tranche::mps {
namespace {

// Types that were seen (docs/internals/evidence/mps-handshake.md).
constexpr std::string_view kServerReports{"\1\0\0\0", 4};
constexpr std::string_view kCommandsFollow{"\4\0\0\0", 4};

GateAction ended(Passage& passage, GateEnd end) {
  passage.stage = GateStage::kEnded;
  passage.end = end;
  passage.until.reset();
  return GateAction::kEnd;
}

void enter(Passage& passage, GateStage stage, MonoTime now, Duration deadline) {
  passage.stage = stage;
  passage.until.reset();
  if (deadline > Duration::zero()) passage.until = now + deadline;
}

bool is_plain(const GateMessage& message, std::string_view text) {
  return !message.truncated && message.descriptors == 0 && message.bytes == text;
}

GateAction hear_type(Passage& passage, const GateMessage& message, MonoTime now, const GateTimes& times) {
  if (is_plain(message, kGateNewClient)) {
    enter(passage, GateStage::kTurn, now, times.turn);
    return GateAction::kAskTurn;
  }
  if (is_plain(message, kCommandsFollow)) {  // its time goes on: all that it asks has to come in it
    passage.stage = GateStage::kQuestions;
    return GateAction::kNothing;
  }
  if (is_plain(message, kServerReports)) return ended(passage, GateEnd::kServer);
  const bool is_type = !message.truncated && message.descriptors == 0 && message.bytes.size() == 4;
  return ended(passage, is_type ? GateEnd::kOtherType : GateEnd::kGarbled);
}

GateAction hear_length(Passage& passage, const GateMessage& message) {
  const auto length = length_announced(message.bytes);
  if (!length || message.truncated || message.descriptors != 0) return ended(passage, GateEnd::kGarbled);
  if (*length == 0) {
    ended(passage, GateEnd::kAsked);
    return GateAction::kFarewell;
  }
  if (*length > kLongestQuestion || passage.questions == kMostQuestions) return ended(passage, GateEnd::kCommand);
  passage.announced = static_cast<std::size_t>(*length);
  passage.stage = GateStage::kQuestion;
  return GateAction::kNothing;
}

GateAction hear_question(Passage& passage, const GateMessage& message) {
  const bool as_announced = message.bytes.size() == passage.announced && !message.truncated && message.descriptors == 0;
  if (!as_announced) return ended(passage, GateEnd::kGarbled);
  auto question = parse_question(message.bytes);
  if (!question) return ended(passage, GateEnd::kCommand);
  passage.question = *std::move(question);
  ++passage.questions;
  passage.stage = GateStage::kQuestions;
  return GateAction::kAnswer;
}

GateAction hear_client(Passage& passage, const GateMessage& message, MonoTime now, const GateTimes& times) {
  switch (passage.stage) {
    case GateStage::kCredentials:
      if (!is_plain(message, kGateCredentials) || !message.sender) return ended(passage, GateEnd::kGarbled);
      // Root of a user namespace may write another pid of its own into the credentials; who connected is beyond it.
      if (message.sender->pid != passage.connected_by) return ended(passage, GateEnd::kNotItself);
      passage.client = *message.sender;
      passage.stage = GateStage::kType;
      return GateAction::kNothing;
    case GateStage::kType:
      return hear_type(passage, message, now, times);
    case GateStage::kQuestions:
      return hear_length(passage, message);
    case GateStage::kQuestion:
      return hear_question(passage, message);
    case GateStage::kTaken:
      if (!is_plain(message, kGateTaken)) return ended(passage, GateEnd::kGarbled);
      enter(passage, GateStage::kIn, now, Duration::zero());
      return GateAction::kLetIn;
    default:  // nothing is said here by any CUDA process
      return ended(passage, GateEnd::kGarbled);
  }
}

GateAction hear_daemon(Passage& passage, const GateMessage& message, MonoTime now, const GateTimes& times) {
  switch (passage.stage) {
    case GateStage::kGreeting:
      if (!is_plain(message, kGateHello)) return ended(passage, GateEnd::kOtherDaemon);
      enter(passage, GateStage::kServer, now, times.server);
      return GateAction::kIntroduce;
    case GateStage::kServer:
      if (message.truncated) return ended(passage, GateEnd::kOtherDaemon);
      // Anything but the socket is a refusal in words that nobody has written down: the client's to read.
      if (message.bytes != kGateDescriptor || message.descriptors == 0) return GateAction::kToClient;
      enter(passage, GateStage::kTaken, now, times.taken);
      return GateAction::kHandOver;
    case GateStage::kTaken:
    case GateStage::kIn:
      return message.truncated ? ended(passage, GateEnd::kOtherDaemon) : GateAction::kToClient;
    default:
      return ended(passage, GateEnd::kOtherDaemon);
  }
}

GateEnd too_late(GateStage stage) {
  switch (stage) {
    case GateStage::kTurn:
      return GateEnd::kNotServed;
    case GateStage::kGreeting:
      return GateEnd::kDaemonMute;
    case GateStage::kServer:
      return GateEnd::kServerLate;
    case GateStage::kTaken:
      return GateEnd::kStalled;
    default:
      return GateEnd::kMute;
  }
}

GateEnd client_left(GateStage stage) {
  if (stage == GateStage::kCredentials) return GateEnd::kLooked;
  if (stage == GateStage::kTaken) return GateEnd::kStalled;
  if (stage == GateStage::kQuestions) return GateEnd::kAsked;
  return stage == GateStage::kIn ? GateEnd::kDone : GateEnd::kLeft;
}

}  // namespace

Passage begin_passage(int connected_by, MonoTime now, const GateTimes& times) {
  Passage passage;
  passage.connected_by = connected_by;
  enter(passage, GateStage::kCredentials, now, times.words);
  return passage;
}

GateAction step(Passage& passage, GateEvent event, const GateMessage& message, MonoTime now, const GateTimes& times) {
  if (passage.stage == GateStage::kEnded) return GateAction::kNothing;
  switch (event) {
    case GateEvent::kFromClient:
      return hear_client(passage, message, now, times);
    case GateEvent::kFromDaemon:
      return hear_daemon(passage, message, now, times);
    case GateEvent::kClientGone:
      return ended(passage, client_left(passage.stage));
    case GateEvent::kDaemonGone:
      if (passage.stage == GateStage::kTaken) return GateAction::kDropDaemon;
      return ended(passage, passage.stage == GateStage::kIn ? GateEnd::kDone : GateEnd::kDaemonGone);
    case GateEvent::kConnected:
      if (passage.stage == GateStage::kTurn) enter(passage, GateStage::kGreeting, now, times.greeting);
      return GateAction::kNothing;
    case GateEvent::kNoDaemon:  // back into the queue; what is left of its time goes on
      return GateAction::kNothing;
    case GateEvent::kRefused:
      return ended(passage, GateEnd::kRefused);
    case GateEvent::kNoLimits:
      return ended(passage, GateEnd::kNoLimits);
    case GateEvent::kConnectorGone:
      return ended(passage, GateEnd::kAbandoned);
    case GateEvent::kTimeUp:
      if (!passage.until || now < *passage.until) return GateAction::kNothing;
      return ended(passage, too_late(passage.stage));
  }
  return GateAction::kNothing;
}

std::string_view to_string(GateStage stage) {
  switch (stage) {
    case GateStage::kCredentials:
      return "credentials";
    case GateStage::kType:
      return "type";
    case GateStage::kTurn:
      return "turn";
    case GateStage::kGreeting:
      return "greeting";
    case GateStage::kServer:
      return "server";
    case GateStage::kTaken:
      return "taken";
    case GateStage::kQuestions:
      return "questions";
    case GateStage::kQuestion:
      return "question";
    case GateStage::kIn:
      return "in";
    case GateStage::kEnded:
      return "ended";
  }
  return "ended";
}

std::string_view to_string(GateEnd end) {
  switch (end) {
    case GateEnd::kLooked:
      return "looked whether a daemon is there";
    case GateEnd::kLeft:
      return "hung up before it was let in";
    case GateEnd::kDone:
      return "was let in";
    case GateEnd::kAsked:
      return "asked what its own share is";
    case GateEnd::kCommand:
      return "wanted to command the MPS daemon";
    case GateEnd::kServer:
      return "wanted to report to the MPS daemon as a server";
    case GateEnd::kOtherType:
      return "wanted something that no CUDA process wants";
    case GateEnd::kGarbled:
      return "said something that no CUDA process says";
    case GateEnd::kNotItself:
      return "introduced itself as another process";
    case GateEnd::kMute:
      return "did not introduce itself in time";
    case GateEnd::kNotServed:
      return "the MPS daemon did not serve in time";
    case GateEnd::kOtherDaemon:
      return "the MPS daemon says something that this program does not know";
    case GateEnd::kDaemonMute:
      return "the MPS daemon did not answer in time";
    case GateEnd::kDaemonGone:
      return "the MPS daemon hung up";
    case GateEnd::kServerLate:
      return "the MPS daemon had no server for it in time";
    case GateEnd::kStalled:
      return "broke off with its MPS server, which may be stuck for everybody now";
    case GateEnd::kRefused:
      return "was not admitted";
    case GateEnd::kNoLimits:
      return "could not be given its own limits";
    case GateEnd::kAbandoned:
      return "was left open by a process that has ended";
  }
  return "ended";
}

bool is_attempt(GateEnd end) {
  switch (end) {
    case GateEnd::kCommand:
    case GateEnd::kServer:
    case GateEnd::kOtherType:
    case GateEnd::kGarbled:
    case GateEnd::kNotItself:
      return true;
    default:
      return false;
  }
}

}  // namespace tranche::mps
