#include "mps/relay/handshake.h"

#include <utility>

#include "base/text.h"
#include "mps/protocol/requests.h"

namespace tranche::mps {
namespace {

// Observed types (docs/internals/evidence/mps-handshake.md).
constexpr std::string_view kServerReports{"\1\0\0\0", 4};
constexpr std::string_view kCommandsFollow{"\4\0\0\0", 4};

// Little-endian. Absent: another size.
template <class Number>
std::optional<Number> number_in(std::string_view bytes) {
  if (bytes.size() != sizeof(Number)) return std::nullopt;
  Number number = 0;
  for (std::size_t at = sizeof number; at-- > 0;) number = number << 8 | static_cast<unsigned char>(bytes[at]);
  return number;
}

// A message of another size counts as a context.
std::uint32_t context_of(std::string_view bytes) {
  return number_in<std::uint32_t>(bytes).value_or(1);
}

void enter(Passage& passage, RelayStage stage, MonoTime now, Duration deadline) {
  passage.stage = stage;
  passage.until.reset();
  if (deadline > Duration::zero()) passage.until = now + deadline;
}

bool is_plain(const RelayMessage& message, std::string_view text) {
  return !message.truncated && message.descriptors.empty() && message.bytes == text;
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
  const bool is_type = !message.truncated && message.descriptors.empty() && message.bytes.size() == 4;
  return ended(passage, is_type ? RelayEnd::kOtherType : RelayEnd::kGarbled);
}

RelayAction hear_length(Passage& passage, const RelayMessage& message) {
  const auto length = length_announced(message.bytes);
  if (!length || message.truncated || !message.descriptors.empty()) return ended(passage, RelayEnd::kGarbled);
  if (*length == 0) {
    ended(passage, RelayEnd::kLeft);
    return RelayAction::kFarewell;
  }
  if (*length > kLongestQuestion || passage.questions == kMostQuestions) return ended(passage, RelayEnd::kCommand);
  passage.announced = static_cast<std::size_t>(*length);
  return RelayAction::kNothing;
}

RelayAction hear_question(Passage& passage, const RelayMessage& message) {
  const bool as_announced =
      message.bytes.size() == std::exchange(passage.announced, 0) && !message.truncated && message.descriptors.empty();
  if (!as_announced) return ended(passage, RelayEnd::kGarbled);
  auto question = parse_question(message.bytes);
  if (!question) return ended(passage, RelayEnd::kCommand);
  passage.question = *std::move(question);
  ++passage.questions;
  return RelayAction::kAnswer;
}

// A server that hung up without a word has refused the client, or accepts no clients any more.
RelayEnd end_without_answer(const RelayExchange& exchange) {
  return exchange.heard == 0 ? RelayEnd::kServerLate : RelayEnd::kLeft;
}

// The client has confirmed that its server has accepted it. Where the exchange is known, the server's answer decides.
RelayAction confirmed(Passage& passage) {
  const RelayExchange& exchange = passage.exchange;
  if (passage.stage == RelayStage::kIn) {
    passage.until.reset();
    return passage.daemon_gone && exchange.over ? ended(passage, RelayEnd::kLeft) : RelayAction::kNothing;
  }
  if (!exchange.over && !exchange.foreign) return RelayAction::kNothing;
  if (exchange.heard == 0) return ended(passage, RelayEnd::kServerLate);
  passage.stage = RelayStage::kIn;
  passage.until.reset();
  return RelayAction::kLetIn;
}

// The client has left an exchange that its server has begun.
RelayAction left_exchange(Passage& passage) {
  return ended(passage, passage.exchange.foreign ? RelayEnd::kBrokeOff : RelayEnd::kLeft);
}

// Whether the server's next message may be the measured one. What follows its first five depends on the client.
bool as_measured(const RelayExchange& exchange, const RelayMessage& message) {
  if (exchange.heard > kExchangeDescriptors) return true;
  return message.bytes == (exchange.heard < kExchangeDescriptors ? kRelayDescriptor : kExchangeGreeted);
}

RelayAction hear_server(Passage& passage, const RelayMessage& message, MonoTime now, const RelayTimes& times) {
  RelayExchange& exchange = passage.exchange;
  const bool turns_foreign = !exchange.foreign && !as_measured(exchange, message);
  exchange.foreign = exchange.foreign || turns_foreign;
  if (++exchange.heard == 1) exchange.began = now;
  if ((exchange.heard == 1 || turns_foreign) && passage.stage == RelayStage::kTaken)
    passage.until = now + (exchange.foreign ? times.alone : exchange.has_all() ? times.greeting : times.exchange);
  if (passage.client_gone && passage.stage == RelayStage::kTaken) return left_exchange(passage);
  if (exchange.foreign) {
    const bool waits = passage.stage == RelayStage::kTaken && passage.confirmed;
    return waits ? confirmed(passage) : RelayAction::kNothing;
  }
  if (!exchange.has_all() || !is_plain(message, kExchangeAnswer)) return RelayAction::kNothing;
  exchange.over = true;
  enter(passage, RelayStage::kIn, now, passage.confirmed ? Duration::zero() : times.words);
  return RelayAction::kLetIn;
}

// The server refused the client, or has ended: nothing waits for this client any more.
RelayAction server_gone(Passage& passage) {
  passage.exchange.over = true;
  const bool is_in = passage.stage == RelayStage::kIn;
  if (passage.client_gone || (is_in && passage.daemon_gone)) return ended(passage, RelayEnd::kLeft);
  return !is_in && passage.confirmed ? confirmed(passage) : RelayAction::kNothing;
}

// The client has ended the exchange or its connection. The server waits for it from its first message on.
RelayAction broke_off(Passage& passage) {
  const RelayExchange& exchange = passage.exchange;
  if (exchange.over) return ended(passage, end_without_answer(exchange));
  if (exchange.heard > 0) return left_exchange(passage);
  passage.client_gone = true;
  return RelayAction::kNothing;
}

RelayAction late_in_exchange(Passage& passage, MonoTime now, const RelayTimes& times) {
  const RelayExchange& exchange = passage.exchange;
  if (passage.client_gone) return ended(passage, RelayEnd::kLeft);
  if (exchange.over) return ended(passage, end_without_answer(exchange));
  if (exchange.foreign) return ended(passage, RelayEnd::kBrokeOff);
  if (exchange.heard == 0 || exchange.has_all()) return ended(passage, RelayEnd::kServerLate);
  passage.until = now + times.greeting;
  return RelayAction::kComplete;
}

RelayAction hear_client(Passage& passage, const RelayMessage& message, MonoTime now, const RelayTimes& times) {
  switch (passage.stage) {
    case RelayStage::kCredentials:
      if (!is_plain(message, kRelayCredentials) || !message.sender) return ended(passage, RelayEnd::kGarbled);
      // Root of a user namespace may write another pid of its own into the credentials, but cannot change SO_PEERCRED.
      if (message.sender->pid != passage.connected_by.pid) return ended(passage, RelayEnd::kNotItself);
      passage.client = *message.sender;
      passage.stage = RelayStage::kType;
      return RelayAction::kNothing;
    case RelayStage::kType:
      return hear_type(passage, message, now, times);
    case RelayStage::kQuestions:
      return passage.announced == 0 ? hear_length(passage, message) : hear_question(passage, message);
    case RelayStage::kTaken:
    case RelayStage::kIn:
      if (passage.confirmed || !is_plain(message, kRelayTaken)) {
        passage.garbled = true;
        return waits_for_server(passage) ? broke_off(passage) : ended(passage, RelayEnd::kGarbled);
      }
      passage.confirmed = true;
      return confirmed(passage);
    case RelayStage::kServer:  // as if it had hung up, which it may do as well
      passage.client_gone = passage.garbled = true;
      return RelayAction::kNothing;
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
      if (message.bytes != kRelayDescriptor || message.descriptors.empty()) return RelayAction::kToClient;
      if (message.descriptors.size() > 1) return ended(passage, RelayEnd::kOtherDaemon);
      // The server may serve others first, so the client's own time begins with the server's first message.
      enter(passage, RelayStage::kTaken, now, times.greeting);
      return RelayAction::kHandOver;
    case RelayStage::kTaken:
    case RelayStage::kIn:
      return message.truncated ? ended(passage, RelayEnd::kOtherDaemon) : RelayAction::kToClient;
    default:
      return ended(passage, RelayEnd::kOtherDaemon);
  }
}

RelayEnd too_late(const Passage& passage) {
  if (passage.stage == RelayStage::kTurn) return RelayEnd::kNotServed;
  if (passage.stage == RelayStage::kGreeting) return RelayEnd::kDaemonMute;
  if (passage.stage == RelayStage::kServer) return passage.client_gone ? RelayEnd::kLeft : RelayEnd::kServerLate;
  return passage.stage == RelayStage::kIn ? RelayEnd::kLeft : RelayEnd::kMute;
}

}  // namespace

bool may_wait(Passage& passage, MonoTime now, const RelayTimes& times) {
  if (now >= passage.exchange.began + times.alone) return false;
  passage.until = now + times.exchange;
  return true;
}

Passage begin_passage(const RelaySender& connected_by, MonoTime now, const RelayTimes& times) {
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
      // Of a client whose exchange this program does not know, the rest may still pass.
      if (passage.stage == RelayStage::kIn && !passage.exchange.over) {
        passage.client_gone = true;
        return RelayAction::kDropDaemon;
      }
      if (passage.stage == RelayStage::kTaken) return broke_off(passage);
      // The daemon may have sent the server's socket already, and the server waits for this client.
      if (passage.stage == RelayStage::kServer) {
        passage.client_gone = true;
        return RelayAction::kNothing;
      }
      return ended(passage, RelayEnd::kLeft);
    case RelayEvent::kDaemonGone:
      passage.daemon_gone = true;
      if (passage.stage != RelayStage::kTaken && passage.stage != RelayStage::kIn)
        return ended(passage, passage.client_gone ? RelayEnd::kLeft : RelayEnd::kDaemonGone);
      if (passage.stage == RelayStage::kIn && passage.confirmed && passage.exchange.over)
        return ended(passage, RelayEnd::kLeft);
      return RelayAction::kDropDaemon;
    case RelayEvent::kClientSaid:
      if (passage.exchange.from_client == kExchangeSaysContext && passage.exchange.from_relay == 0)
        passage.exchange.context = context_of(message.bytes);
      if (++passage.exchange.from_client == kExchangeOfClient.size() && passage.stage == RelayStage::kTaken &&
          passage.exchange.heard > 0 && !passage.exchange.foreign)
        passage.until = now + times.greeting;
      return RelayAction::kNothing;
    case RelayEvent::kServerSaid:
      return hear_server(passage, message, now, times);
    case RelayEvent::kClientBrokeOff:
      return passage.stage == RelayStage::kIn ? ended(passage, RelayEnd::kLeft) : broke_off(passage);
    case RelayEvent::kServerGone:
      return server_gone(passage);
    case RelayEvent::kConnected:
      if (passage.stage == RelayStage::kTurn) enter(passage, RelayStage::kGreeting, now, times.greeting);
      return RelayAction::kNothing;
    case RelayEvent::kTimeUp:
      if (!passage.until || now < *passage.until) return RelayAction::kNothing;
      if (passage.stage == RelayStage::kTaken) return late_in_exchange(passage, now, times);
      return ended(passage, too_late(passage));
  }
  return RelayAction::kNothing;
}

RelayAction ended(Passage& passage, RelayEnd end, const std::string& why) {
  passage.stage = RelayStage::kEnded;
  passage.end = passage.garbled ? RelayEnd::kGarbled : end;
  passage.why = why;
  passage.until.reset();
  return RelayAction::kEnd;
}

bool is_attempt(RelayEnd end) {
  using enum RelayEnd;
  return end == kCommand || end == kServer || end == kOtherType || end == kGarbled || end == kNotItself;
}

std::string context_text(std::uint32_t context) {
  std::string bytes;
  for (int i = 0; i < 4; ++i) bytes += static_cast<char>(context >> (8 * i) & 0xff);
  return bytes;
}

std::optional<std::string_view> for_server(const Passage& passage, std::string_view bytes) {
  if (bytes.empty()) return std::nullopt;  // the end of the socket, to the server
  if (passage.exchange.foreign) return bytes;
  switch (passage.exchange.from_client) {
    case kExchangeSaysContext:
      if (bytes.size() != 4 || context_of(bytes) > kHighestContext) return std::nullopt;
      return bytes;
    case kExchangeSaysPriority: {
      const std::string_view not_set = kExchangeOfClient[kExchangeSaysPriority];
      return bytes == kNormalPriority || bytes == kLowPriority ? bytes : not_set;
    }
    default:
      return bytes;
  }
}

// --- a container's questions about its own limits --------------------------------------------------------------------

namespace {

constexpr std::string_view kText{"\0\0\0\0", 4};  // the text that follows in this message is for people

std::string text(const std::string& content) {
  return std::string(kText) + content;
}

std::optional<Bytes> memory_of(const std::string& name, const DaemonLimits& limits) {
  if (const auto of_uuid = memory_limit_of(limits, name)) return of_uuid;
  const auto ordinal = parse_unsigned(name);
  if (!ordinal || *ordinal >= limits.memory.size()) return std::nullopt;
  return limits.memory[*ordinal].second;
}

}  // namespace

std::optional<std::uint64_t> length_announced(std::string_view bytes) {
  return number_in<std::uint64_t>(bytes);
}

std::optional<RelayQuestion> parse_question(std::string_view bytes) {
  if (bytes.empty() || bytes.back() != '\0') return std::nullopt;
  bytes.remove_suffix(1);
  if (bytes.ends_with('\n')) bytes.remove_suffix(1);
  while (bytes.ends_with(' ')) bytes.remove_suffix(1);
  if (bytes == "get_default_active_thread_percentage") return RelayQuestion{};
  constexpr std::string_view kMemory = "get_default_device_pinned_mem_limit ";
  if (!bytes.starts_with(kMemory)) return std::nullopt;
  bytes.remove_prefix(kMemory.size());
  if (bytes.empty() || bytes.find_first_not_of("0123456789abcdefGPUMI-") != bytes.npos) return std::nullopt;
  return RelayQuestion{std::string(bytes)};
}

std::string answer_to(const RelayQuestion& question, const DaemonLimits& limits) {
  if (question.device.empty()) return text(as_printed(limits.threads));
  const auto memory = memory_of(question.device, limits);
  return memory && *memory < kNoMemoryLimit ? text(as_printed(*memory)) : std::string();
}

}  // namespace tranche::mps
