// A whole conversation at a door from bytes: whatever is said, nothing of the client's goes on to the daemon, and a
// client is let in only in the one order that was measured.
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
  const mps::GateTimes times;
  MonoTime now{};
  mps::Passage passage = mps::begin_passage(7, now, times);
  bool introduced = false, served = false, taken = false;
  // Each step: what happens, how many descriptors come along, how long the text is, the text.
  while (input.size() >= 3 && passage.stage != mps::GateStage::kEnded) {
    const auto event = static_cast<mps::GateEvent>(static_cast<unsigned char>(input[0]) % 10);
    const auto flags = static_cast<unsigned char>(input[1]);
    const auto length = std::min<std::size_t>(static_cast<unsigned char>(input[2]), input.size() - 3);
    mps::GateMessage message{input.substr(3, length), flags % 3u, (flags & 4) != 0, {}};
    if ((flags & 8) == 0) message.sender = mps::GateSender{(flags & 16) == 0 ? 7 : 8, 0, 0};
    input.remove_prefix(3 + length);
    now += std::chrono::milliseconds(flags);
    const auto before = passage.stage;
    switch (mps::step(passage, event, message, now, times)) {
      case mps::GateAction::kIntroduce:
        require(before == mps::GateStage::kGreeting && message.bytes == mps::kGateHello && passage.client.pid == 7);
        introduced = true;
        break;
      case mps::GateAction::kAnswer: {
        require(!introduced && event == mps::GateEvent::kFromClient && passage.questions <= mps::kMostQuestions);
        const std::string known = "GPU-a";
        const auto text = mps::answer_to(passage.question, {{{known, mib(3840)}}, Percent::whole(25)}, {&known, 1});
        require(text.empty() || text.ends_with("25.0") || text.ends_with("3G"));
        break;
      }
      case mps::GateAction::kFarewell:
        require(!introduced && passage.stage == mps::GateStage::kEnded && passage.end == mps::GateEnd::kAsked);
        break;
      case mps::GateAction::kLetIn:
        require(event == mps::GateEvent::kFromClient && message.bytes == mps::kGateTaken && message.descriptors == 0);
        require(introduced && served && !taken);
        taken = true;
        break;
      case mps::GateAction::kHandOver:
        require(event == mps::GateEvent::kFromDaemon && introduced && !served && message.descriptors > 0);
        require(message.bytes == mps::kGateDescriptor && !message.truncated);
        served = true;
        break;
      case mps::GateAction::kToClient:
        require(event == mps::GateEvent::kFromDaemon && introduced && !message.truncated);
        break;
      case mps::GateAction::kDropDaemon:
        require(served && !taken);
        break;
      case mps::GateAction::kAskTurn:
        require(message.bytes == mps::kGateNewClient && passage.client.pid == 7);
        break;
      case mps::GateAction::kEnd:
        require(passage.stage == mps::GateStage::kEnded && !passage.until);
        break;
      case mps::GateAction::kNothing:
        break;
    }
    require(passage.stage != mps::GateStage::kIn || taken);
  }
  return 0;
}
