#include "mps/relay/handshake.h"

namespace tranche::mps {
namespace {

// Observed types (docs/internals/evidence/mps-handshake.md).
constexpr std::string_view kServerReports{"\1\0\0\0", 4};
constexpr std::string_view kCommandsFollow{"\4\0\0\0", 4};

RelayAction ended(Passage& passage, RelayEnd end) {
  passage.stage = RelayStage::kEnded;
  passage.end = end;
  passage.until.reset();
  return RelayAction::kEnd;
}

void enter(Passage& passage, RelayStage stage, MonoTime now, Duration deadline) {
  passage.stage = stage;
  passage.until.reset();
  if (deadline > Duration::zero()) passage.until = now + deadline;
}

bool is_plain(const RelayMessage& message, std::string_view text) {
  return !message.truncated && message.descriptors == 0 && message.bytes == text;
}

RelayAction hear_type(Passage& passage, const RelayMessage& message, MonoTime now, const RelayTimes& times) {
  if (is_plain(message, kRelayNewClient)) {
    enter(passage, RelayStage::kTurn, now, times.turn);
    return RelayAction::kAskTurn;
  }
  if (is_plain(message, kCommandsFollow)) {  // the deadline stays: all questions have to arrive before it
    passage.stage = RelayStage::kQuestions;
    return RelayAction::kNothing;
  }
  if (is_plain(message, kServerReports)) return ended(passage, RelayEnd::kServer);
  const bool is_type = !message.truncated && message.descriptors == 0 && message.bytes.size() == 4;
  return ended(passage, is_type ? RelayEnd::kOtherType : RelayEnd::kGarbled);
}

RelayAction hear_length(Passage& passage, const RelayMessage& message) {
  const auto length = length_announced(message.bytes);
  if (!length || message.truncated || message.descriptors != 0) return ended(passage, RelayEnd::kGarbled);
  if (*length == 0) {
    ended(passage, RelayEnd::kAsked);
    return RelayAction::kFarewell;
  }
  if (*length > kLongestQuestion || passage.questions == kMostQuestions) return ended(passage, RelayEnd::kCommand);
  passage.announced = static_cast<std::size_t>(*length);
  passage.stage = RelayStage::kQuestion;
  return RelayAction::kNothing;
}

RelayAction hear_question(Passage& passage, const RelayMessage& message) {
  const bool as_announced = message.bytes.size() == passage.announced && !message.truncated && message.descriptors == 0;
  if (!as_announced) return ended(passage, RelayEnd::kGarbled);
  auto question = parse_question(message.bytes);
  if (!question) return ended(passage, RelayEnd::kCommand);
  passage.question = *std::move(question);
  ++passage.questions;
  passage.stage = RelayStage::kQuestions;
  return RelayAction::kAnswer;
}

RelayAction hear_client(Passage& passage, const RelayMessage& message, MonoTime now, const RelayTimes& times) {
  switch (passage.stage) {
    case RelayStage::kCredentials:
      if (!is_plain(message, kRelayCredentials) || !message.sender) return ended(passage, RelayEnd::kGarbled);
      // Root of a user namespace may write another pid of its own into the credentials, but cannot change SO_PEERCRED.
      if (message.sender->pid != passage.connected_by) return ended(passage, RelayEnd::kNotItself);
      passage.client = *message.sender;
      passage.stage = RelayStage::kType;
      return RelayAction::kNothing;
    case RelayStage::kType:
      return hear_type(passage, message, now, times);
    case RelayStage::kQuestions:
      return hear_length(passage, message);
    case RelayStage::kQuestion:
      return hear_question(passage, message);
    case RelayStage::kTaken:
      if (!is_plain(message, kRelayTaken)) return ended(passage, RelayEnd::kGarbled);
      enter(passage, RelayStage::kIn, now, Duration::zero());
      return RelayAction::kLetIn;
    default:  // no CUDA process sends anything in these stages
      return ended(passage, RelayEnd::kGarbled);
  }
}

RelayAction hear_daemon(Passage& passage, const RelayMessage& message, MonoTime now, const RelayTimes& times) {
  switch (passage.stage) {
    case RelayStage::kGreeting:
      if (!is_plain(message, kRelayHello)) return ended(passage, RelayEnd::kOtherDaemon);
      enter(passage, RelayStage::kServer, now, times.server);
      return RelayAction::kIntroduce;
    case RelayStage::kServer:
      if (message.truncated) return ended(passage, RelayEnd::kOtherDaemon);
      // Any message without the socket is a refusal in an undocumented text, meant for the client.
      if (message.bytes != kRelayDescriptor || message.descriptors == 0) return RelayAction::kToClient;
      enter(passage, RelayStage::kTaken, now, times.taken);
      return RelayAction::kHandOver;
    case RelayStage::kTaken:
    case RelayStage::kIn:
      return message.truncated ? ended(passage, RelayEnd::kOtherDaemon) : RelayAction::kToClient;
    default:
      return ended(passage, RelayEnd::kOtherDaemon);
  }
}

RelayEnd too_late(RelayStage stage) {
  switch (stage) {
    case RelayStage::kTurn:
      return RelayEnd::kNotServed;
    case RelayStage::kGreeting:
      return RelayEnd::kDaemonMute;
    case RelayStage::kServer:
      return RelayEnd::kServerLate;
    case RelayStage::kTaken:
      return RelayEnd::kStalled;
    default:
      return RelayEnd::kMute;
  }
}

RelayEnd client_left(RelayStage stage) {
  if (stage == RelayStage::kCredentials) return RelayEnd::kLooked;
  if (stage == RelayStage::kTaken) return RelayEnd::kStalled;
  if (stage == RelayStage::kQuestions) return RelayEnd::kAsked;
  return stage == RelayStage::kIn ? RelayEnd::kDone : RelayEnd::kLeft;
}

}  // namespace

Passage begin_passage(int connected_by, MonoTime now, const RelayTimes& times) {
  Passage passage;
  passage.connected_by = connected_by;
  enter(passage, RelayStage::kCredentials, now, times.words);
  return passage;
}

RelayAction step(Passage& passage, RelayEvent event, const RelayMessage& message, MonoTime now,
                 const RelayTimes& times) {
  if (passage.stage == RelayStage::kEnded) return RelayAction::kNothing;
  switch (event) {
    case RelayEvent::kFromClient:
      return hear_client(passage, message, now, times);
    case RelayEvent::kFromDaemon:
      return hear_daemon(passage, message, now, times);
    case RelayEvent::kClientGone:
      return ended(passage, client_left(passage.stage));
    case RelayEvent::kDaemonGone:
      if (passage.stage == RelayStage::kTaken) return RelayAction::kDropDaemon;
      return ended(passage, passage.stage == RelayStage::kIn ? RelayEnd::kDone : RelayEnd::kDaemonGone);
    case RelayEvent::kConnected:
      if (passage.stage == RelayStage::kTurn) enter(passage, RelayStage::kGreeting, now, times.greeting);
      return RelayAction::kNothing;
    case RelayEvent::kNoDaemon:  // it is queued again with its remaining time
      return RelayAction::kNothing;
    case RelayEvent::kRefused:
      return ended(passage, RelayEnd::kRefused);
    case RelayEvent::kNoLimits:
      return ended(passage, RelayEnd::kNoLimits);
    case RelayEvent::kConnectorGone:
      return ended(passage, RelayEnd::kAbandoned);
    case RelayEvent::kTimeUp:
      if (!passage.until || now < *passage.until) return RelayAction::kNothing;
      return ended(passage, too_late(passage.stage));
  }
  return RelayAction::kNothing;
}

std::string_view to_string(RelayStage stage) {
  switch (stage) {
    case RelayStage::kCredentials:
      return "credentials";
    case RelayStage::kType:
      return "type";
    case RelayStage::kTurn:
      return "turn";
    case RelayStage::kGreeting:
      return "greeting";
    case RelayStage::kServer:
      return "server";
    case RelayStage::kTaken:
      return "taken";
    case RelayStage::kQuestions:
      return "questions";
    case RelayStage::kQuestion:
      return "question";
    case RelayStage::kIn:
      return "in";
    case RelayStage::kEnded:
      return "ended";
  }
  return "ended";
}

std::string_view to_string(RelayEnd end) {
  switch (end) {
    case RelayEnd::kLooked:
      return "looked whether a daemon is there";
    case RelayEnd::kLeft:
      return "hung up before it was let in";
    case RelayEnd::kDone:
      return "was let in";
    case RelayEnd::kAsked:
      return "asked what its own share is";
    case RelayEnd::kCommand:
      return "wanted to command the MPS daemon";
    case RelayEnd::kServer:
      return "wanted to report to the MPS daemon as a server";
    case RelayEnd::kOtherType:
      return "wanted something that no CUDA process wants";
    case RelayEnd::kGarbled:
      return "said something that no CUDA process says";
    case RelayEnd::kNotItself:
      return "introduced itself as another process";
    case RelayEnd::kMute:
      return "did not introduce itself in time";
    case RelayEnd::kNotServed:
      return "the MPS daemon did not serve in time";
    case RelayEnd::kOtherDaemon:
      return "the MPS daemon says something that this program does not know";
    case RelayEnd::kDaemonMute:
      return "the MPS daemon did not answer in time";
    case RelayEnd::kDaemonGone:
      return "the MPS daemon hung up";
    case RelayEnd::kServerLate:
      return "the MPS daemon had no server for it in time";
    case RelayEnd::kStalled:
      return "broke off with its MPS server, which may be stuck for everybody now";
    case RelayEnd::kRefused:
      return "was not admitted";
    case RelayEnd::kNoLimits:
      return "could not be given its own limits";
    case RelayEnd::kAbandoned:
      return "was left open by a process that has ended";
  }
  return "ended";
}

bool is_attempt(RelayEnd end) {
  switch (end) {
    case RelayEnd::kCommand:
    case RelayEnd::kServer:
    case RelayEnd::kOtherType:
    case RelayEnd::kGarbled:
    case RelayEnd::kNotItself:
      return true;
    default:
      return false;
  }
}

}  // namespace tranche::mps
