// The daemon, its clients, the pools and their files.
#include <algorithm>

#include "base/text.h"
#include "containers/attribution.h"
#include "fuzz/target.h"
#include "mps/control/log_lines.h"
#include "mps/control/questions.h"
#include "mps/daemon/compute_modes.h"
#include "mps/daemon/daemon_home.h"
#include "mps/keeper/held_files.h"
#include "mps/keeper/keeper_status.h"
#include "mps/limits/limits.h"
#include "mps/pool/client_ending.h"
#include "mps/pool/pool_dirs.h"
#include "mps/proof/proof.h"
#include "mps/protocol/pool_reports.h"
#include "mps/protocol/requests.h"
#include "mps/relay/handshake.h"
#include "mps/relay/relay.h"

using namespace tranche;

// Any text as what is kept of an endpoint: read whole, or refused; what is read is written the same, its limits can be
// set at a daemon, and no word of them is more than one word of a command.
FUZZ(grant_limits) {
  const auto terms = mps::parse_terms(text);
  if (!terms) return;
  if (mps::parse_terms(mps::render_terms(*terms)).value() != *terms) std::abort();
  if (!terms->limits) return;
  if (!mps::check_limits(*terms->limits)) std::abort();
  const auto limited = mps::limits_for(*terms->limits, std::vector<std::string>{terms->limits->front().uuid});
  if (!limited || limited->memory.size() != 1) std::abort();
  const auto input = mps::DaemonQuestion({*limited, true}, {}).input();
  if (tranche::lines_of(input).size() != 5 || input.find(';') != std::string::npos) std::abort();
}

// Any text as the limits that a tenant writes for itself: a sentence each at most, and none of them long.
FUZZ(tenant_limits) {
  constexpr std::size_t kLongest = 2000;
  const std::string all(text);
  const auto line = all.find('\n');
  const std::string threads = all.substr(0, line), memory = line == std::string::npos ? "" : all.substr(line + 1);
  const mps::DaemonLimits granted{{{"GPU-aaaaaaaa-0000-4000-8000-00000000000a", gib(8)}}, Percent::whole(25)};
  const auto remarks = mps::remarks_on(threads, memory, granted);
  if (remarks.size() > 2) std::abort();
  for (const auto& remark : remarks)
    if (remark.message.empty() || remark.message.size() > kLongest) std::abort();
  // Whatever has a client refused is also reported of a manifest, with a sentence that people can read.
  if (const auto why = mps::lifting(all, {granted.memory.front().first})) {
    if (why->empty() || why->size() > kLongest) std::abort();
    if (!fuzz::is_harmless(*why)) std::abort();
    if (mps::remarks_on("", all, granted).empty()) std::abort();
  }
}

// Any text as each reply to a question: no crash, a few runs at most, numbers in range, and limits that compare with
// what was set.
FUZZ(mps_replies) {
  using namespace tranche::mps;
  (void)offers_multiuser(text);
  const DaemonLimits limits{{{"GPU-3f2a1b4c-0000-1111-2222-333344445555", mib(14377)}}, Percent::whole(10)};
  for (const auto& servers : {std::vector<int>{}, std::vector<int>{12, 13}}) {
    DaemonQuestion question({limits}, servers);
    std::optional<tranche::Result<Answered>> answer;
    for (int run = 0; run < 4 && !answer; ++run) answer = question.heard(text);
    if (!answer) std::abort();
    if (!*answer) continue;
    if ((*answer)->defaults.threads > Percent::whole(100)) std::abort();
    for (const auto& pids : {server_pids((*answer)->servers), client_pids((*answer)->servers)})
      if (pids.size() > text.size() || std::ranges::any_of(pids, [](int pid) { return pid <= 0; })) std::abort();
    (void)check_held(limits, **answer);
  }
  if (const auto memory = amount_of(text)) {
    if ((memory->value & ((1u << 20) - 1)) != 0) std::abort();  // whole MiB
  }
}

// Any text as the list of devices that others hold: what is read is written and read back the same.
FUZZ(other_holders) {
  const auto devices = tranche::mps::parse_other_holders(text);
  if (tranche::mps::parse_other_holders(tranche::mps::render_other_holders(devices)) != devices) std::abort();
}

// Log lines of MPS: pids are never negative, and the views lie within the line.
FUZZ(mps_log) {
  const auto line = tranche::mps::parse_log_line(text);
  if (!line) return;
  if (line->pid < 0 || line->writer < 0) std::abort();
  if (line->text.data() + line->text.size() != text.data() + text.size()) std::abort();
}

// Whole logs: the history stays bounded, and no process is both culprit and victim of one fault.
FUZZ(faults) {
  mps::FaultHistory history;
  const mps::FaultHistory::Processes processes{.grant_of = [](int) { return ""; },
                                               .lives = [](int pid) { return pid % 2 == 0; }};
  for (const auto line : lines_of(text)) {
    if (const auto parsed = mps::parse_log_line(line)) history.read(*parsed, WallTime{}, processes);
  }
  if (history.last().size() > mps::kMostFaults) std::abort();
  for (const auto& fault : history.last()) {
    if (std::ranges::find(fault.victims, fault.culprit) != fault.victims.end()) std::abort();
  }
}

// What a CUDA start printed: a verdict for every text and status; only a report of a connection passes.
FUZZ(proof_report) {
  using namespace tranche::mps;
  for (const int status : {0, 1, -1}) {
    const auto reading = read_proof({.exit_code = status, .timed_out = false, .output = text, .clients = 3});
    if (reading.verdict == ProofVerdict::kPassed && status != 0) std::abort();
    if (reading.verdict == ProofVerdict::kPassed && !reading.reason.empty()) std::abort();
    if (reading.reason.size() > 1024) std::abort();
  }
}

// Any text as a server's memory map.
FUZZ(proc_maps) {
  (void)tranche::mps::to_string(tranche::mps::shared_memory_in(text));
}

namespace {

void require(bool condition) {
  if (!condition) std::abort();
}

}  // namespace

// A whole conversation at an endpoint from bytes: whatever is said, nothing of the client's goes on to the daemon. A
// client is admitted only by its server's answer, or on its own word where the exchange is not known.
FUZZ(mps_relay) {
  const mps::RelayTimes times;
  MonoTime now{};
  mps::Passage passage = mps::begin_passage({7}, now, times);
  bool introduced = false, served = false, taken = false;
  // Each step: what happens, how many descriptors come along, how long the text is, the text.
  while (text.size() >= 3 && passage.stage != mps::RelayStage::kEnded) {
    const unsigned what = static_cast<unsigned char>(text[0]) % 13;  // 5 to 7: the relay refuses the client
    const auto event = static_cast<mps::RelayEvent>(what < 8 ? what : what - 3);
    const auto flags = static_cast<unsigned char>(text[1]);
    const auto length = std::min<std::size_t>(static_cast<unsigned char>(text[2]), text.size() - 3);
    mps::RelayMessage message{
        std::string(text.substr(3, length)), std::vector<os::Fd>(flags % 3u), (flags & 4) != 0, {}};
    if ((flags & 8) == 0) message.sender = mps::RelaySender{(flags & 16) == 0 ? 7 : 8, 0, 0};
    text.remove_prefix(3 + length);
    now += std::chrono::milliseconds(flags);
    const auto before = passage.stage;
    const bool refused = what >= 5 && what < 8;
    switch (refused ? ended(passage, mps::RelayEnd::kRefused) : mps::step(passage, event, message, now, times)) {
      case mps::RelayAction::kIntroduce:
        require(before == mps::RelayStage::kGreeting && message.bytes == mps::kRelayHello && passage.client.pid == 7);
        introduced = true;
        break;
      case mps::RelayAction::kAnswer: {
        require(!introduced && event == mps::RelayEvent::kFromClient && passage.questions <= mps::kMostQuestions);
        const auto answer = mps::answer_to(passage.question, {{{"GPU-a", mib(3840)}}, Percent::whole(25)});
        require(answer.empty() || answer.ends_with("25.0") || answer.ends_with("3G"));
        break;
      }
      case mps::RelayAction::kFarewell:
        require(!introduced && passage.stage == mps::RelayStage::kEnded && passage.end == mps::RelayEnd::kLeft);
        break;
      case mps::RelayAction::kLetIn:
        require(introduced && served && !taken && passage.stage == mps::RelayStage::kIn);
        require(passage.exchange.over || (passage.confirmed && passage.exchange.foreign));
        taken = true;
        break;
      case mps::RelayAction::kHandOver:
        require(event == mps::RelayEvent::kFromDaemon && introduced && !served && !message.descriptors.empty());
        require(message.bytes == mps::kRelayDescriptor && !message.truncated);
        served = true;
        break;
      case mps::RelayAction::kComplete:
        require(event == mps::RelayEvent::kTimeUp && served && !passage.exchange.missing().empty());
        passage.exchange.from_relay += passage.exchange.missing().size();
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
}

namespace {

void check(const mps::EndpointName& endpoint) {
  if (!mps::is_pool_name(endpoint.pool) || !containers::is_grant(endpoint.grant)) std::abort();
  if (endpoint.pool.find('/') != std::string::npos || endpoint.pool.find('.') != std::string::npos) std::abort();
}

}  // namespace

// Any line as a request on mps.sock: a request or an Error; no name that is accepted can leave its directory.
FUZZ(mps_request) {
  const auto request = mps::parse_mps_request(text);
  if (!request) {
    if (mps::error_reply(request.error()).find('\n') != std::string::npos) std::abort();
    return;
  }
  const auto line = mps::request_line(*request);
  const auto again = mps::parse_mps_request(line);
  if (!again || mps::request_line(*again) != line) std::abort();
  std::visit(
      [](const auto& r) {
        if constexpr (requires { r.endpoint; }) check(r.endpoint);
        if constexpr (requires { r.limits; }) {
          if (r.limits && !mps::check_limits(*r.limits)) std::abort();
        }
        if constexpr (requires { r.pids; }) {
          if (!mps::is_pool_name(r.pool) || r.pids.size() > mps::kMostPids) std::abort();
          for (const int pid : r.pids) {
            if (pid < 1) std::abort();
          }
        }
      },
      *request);
}

// Any text as an answer of `tranche mps`: reports or an Error; what is accepted has ids and states.
FUZZ(pool_reports) {
  if (const auto reports = tranche::mps::parse_pool_reports(text)) {
    for (const auto& [id, pool] : reports->pools) {
      if (id.empty() || id != pool.id || pool.state.empty()) std::abort();
    }
  }
}

// /proc/self/cgroup → cgroups for a daemon: whatever it says, they lie below the root and end with the pool.
FUZZ(daemon_cgroups) {
  const std::string all(text);
  for (const auto& dir : tranche::mps::daemon_cgroups(all, "/r", "gpu-1")) {
    if (!dir.starts_with("/r/") || !dir.ends_with("/tranche/gpu-1")) std::abort();
    if (dir.find("/../") != std::string::npos || dir.find('\0') != std::string::npos) std::abort();
  }
}

// compute-mode.json: what is accepted re-renders to something that means the same.
FUZZ(mode_journal) {
  using namespace tranche::mps;
  const auto earlier = parse_earlier_modes(text);
  if (!earlier) return;
  const auto again = parse_earlier_modes(render_earlier_modes(*earlier));
  if (!again || *again != *earlier) std::abort();
}

// Any text as the file of a relay's clients: what is read is written and read back the same.
FUZZ(client_file) {
  const auto stored = tranche::mps::parse_clients(text);
  if (tranche::mps::parse_clients(tranche::mps::render_clients(stored)) != stored) std::abort();
}

// Any text as what the keeper and `tranche mps` say to each other: what is read is written and read back the same. Any
// text as /proc/devices.
FUZZ(keeper) {
  if (const auto status = mps::read_keeper_status(text)) {
    const auto again = mps::read_keeper_status(mps::to_json(*status));
    if (!again || again->clients.size() != status->clients.size()) std::abort();
  }
  if (const auto request = mps::read_keeper_request(text); request && !mps::read_keeper_request(mps::to_json(*request)))
    std::abort();
  (void)mps::NvidiaDevices::parse(text).kind(195, 255);
}

// Any text as the file of processes that are being ended: what is read is written and read back the same.
FUZZ(ending_file) {
  const auto processes = tranche::mps::parse_ending(text);
  if (tranche::mps::parse_ending(tranche::mps::render_ending(processes)) != processes) std::abort();
}
