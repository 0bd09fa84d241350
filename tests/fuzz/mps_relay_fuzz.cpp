// A whole conversation at an endpoint from bytes: whatever is said, nothing of the client's goes on to the daemon. A
// client is admitted only by its server's answer, or on its own word where the exchange is not known.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "mps/relay/handshake.h"

using namespace tranche;

namespace {

void require(bool condition) {
  if (!condition) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string_view input(reinterpret_cast<const char*>(data), size);
  const mps::RelayTimes times;
  MonoTime now{};
  mps::Passage passage = mps::begin_passage(7, now, times);
  bool introduced = false, served = false, taken = false;
  // Each step: what happens, how many descriptors come along, how long the text is, the text.
  while (input.size() >= 3 && passage.stage != mps::RelayStage::kEnded) {
    const auto event = static_cast<mps::RelayEvent>(static_cast<unsigned char>(input[0]) % 14);
    const auto flags = static_cast<unsigned char>(input[1]);
    const auto length = std::min<std::size_t>(static_cast<unsigned char>(input[2]), input.size() - 3);
    mps::RelayMessage message{input.substr(3, length), flags % 3u, (flags & 4) != 0, {}};
    if ((flags & 8) == 0) message.sender = mps::RelaySender{(flags & 16) == 0 ? 7 : 8, 0, 0};
    input.remove_prefix(3 + length);
    now += std::chrono::milliseconds(flags);
    const auto before = passage.stage;
    switch (mps::step(passage, event, message, now, times)) {
      case mps::RelayAction::kIntroduce:
        require(before == mps::RelayStage::kGreeting && message.bytes == mps::kRelayHello && passage.client.pid == 7);
        introduced = true;
        break;
      case mps::RelayAction::kAnswer: {
        require(!introduced && event == mps::RelayEvent::kFromClient && passage.questions <= mps::kMostQuestions);
        const auto text = mps::answer_to(passage.question, {{{"GPU-a", mib(3840)}}, Percent::whole(25)});
        require(text.empty() || text.ends_with("25.0") || text.ends_with("3G"));
        break;
      }
      case mps::RelayAction::kFarewell:
        require(!introduced && passage.stage == mps::RelayStage::kEnded && passage.end == mps::RelayEnd::kAsked);
        break;
      case mps::RelayAction::kLetIn:
        require(introduced && served && !taken && passage.stage == mps::RelayStage::kIn);
        require(passage.exchange.over ||
                (passage.confirmed && (passage.exchange.foreign || !mps::is_carried(passage))));
        taken = true;
        break;
      case mps::RelayAction::kHandOver:
        require(event == mps::RelayEvent::kFromDaemon && introduced && !served && message.descriptors > 0);
        require(message.bytes == mps::kRelayDescriptor && !message.truncated);
        served = true;
        if ((flags & 32) == 0) mps::carry(passage, now, times);
        break;
      case mps::RelayAction::kComplete:
        require(event == mps::RelayEvent::kTimeUp && served && !passage.exchange.missing().empty());
        mps::complete(passage, now, times);
        break;
      case mps::RelayAction::kToClient:
        require(event == mps::RelayEvent::kFromDaemon && introduced && !message.truncated);
        break;
      case mps::RelayAction::kDropDaemon:
        require(served);
        break;
      case mps::RelayAction::kAskTurn:
        require(message.bytes == mps::kRelayNewClient && passage.client.pid == 7);
        break;
      case mps::RelayAction::kEnd:
        require(passage.stage == mps::RelayStage::kEnded && !passage.until);
        break;
      case mps::RelayAction::kNothing:
        break;
    }
    require(passage.stage != mps::RelayStage::kIn || taken);
    require(passage.exchange.missing().empty() || (!passage.exchange.over && !passage.exchange.foreign));
  }
  return 0;
}
