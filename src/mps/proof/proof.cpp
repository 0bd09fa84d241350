#include "mps/proof/proof.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/json_text.h"
#include "base/text.h"

namespace tranche::mps {
namespace {

constexpr std::size_t kManyClients = 15;  // the smallest limit is 16 (before Volta), including the proof

bool says(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

// The probe's message about its failure: the last line, without its name.
std::string failure_text(std::string_view output) {
  std::string_view last;
  for (const auto line : lines_of(output)) {
    if (!trimmed(line).empty()) last = trimmed(line);
  }
  constexpr std::string_view kName = "tranche probe: ";
  if (last.starts_with(kName)) last.remove_prefix(kName.size());
  return cut_text(last, 400);
}

// nullopt: the output has no report.
std::optional<bool> connected(std::string_view output) {
  for (const auto line : lines_of(output)) {
    if (!line.starts_with('{')) continue;
    const auto report = json_of(line);
    const auto& sign = member_at(member_at(report, "mps"), "connected");
    if (sign.is_boolean()) return sign.get<bool>();
  }
  return std::nullopt;
}

class ProofTurn {
 public:
  ProofTurn(Proof& state, MonoTime now, const ProofSettings& settings) : p_(state), now_(now), settings_(settings) {}
  std::vector<ProofAction> actions;

  void on(const PoolServes&) {
    p_.serves = true;
    if (settings_.every == Duration{}) {
      cancel();
      p_.due.reset();
      p_.state = ProofState::kOff;
      p_.reason.clear();
      p_.trusted = true;
      return;
    }
    if (p_.state == ProofState::kOff) {  // enabled while the pool serves
      p_.state = ProofState::kUnknown;
      p_.reason = "not tried yet";
      if (p_.trusted) p_.due = now_ + settings_.settle;
    }
    if (p_.running) return;
    if (!p_.trusted) return start();
    if (!p_.due) p_.due = now_ + settings_.every;
  }

  void on(const PoolLeft& event) {
    p_.serves = false;
    p_.due.reset();
    cancel();
    if (event.why == PoolLeft::Why::kLimits) return;
    p_.trusted = false;
    if (event.why == PoolLeft::Why::kDaemon) {
      p_.wedged = 0;
      p_.step = Step::kNone;
      p_.step_due.reset();
      p_.fault_since.reset();
    }
    if (p_.state == ProofState::kOff || p_.state == ProofState::kFailed) return;  // keeps the useful reason
    p_.state = ProofState::kUnknown;
    p_.reason = "not tried since the daemon last served";
  }

  void on(const Doubt& event) {
    if (!p_.serves || p_.state == ProofState::kOff || p_.step_due) return;
    MonoTime at = now_ + settings_.settle;
    if (event.paced && p_.last_started) at = std::max(at, *p_.last_started + settings_.doubt_every);
    p_.due = p_.due ? std::min(*p_.due, at) : at;
  }

  void on(const FaultHandled& event) {
    if (!event.now) {
      p_.fault_since.reset();
    } else if (!p_.fault_since && p_.state != ProofState::kOff) {
      p_.fault_since = now_;
    }
  }

  void on(const ProofEnded& event) {
    if (!std::exchange(p_.running, false)) return;
    p_.ended_at = now_;
    p_.reason = event.reason;
    switch (event.verdict) {
      case ProofVerdict::kPassed:
        p_.state = ProofState::kProven;
        ++p_.passed;
        return trust();
      case ProofVerdict::kInconclusive:
        p_.state = ProofState::kUnknown;
        return trust();
      case ProofVerdict::kUnfit:
        distrust();
        p_.due = now_ + settings_.again;
        return;
      case ProofVerdict::kWedged:
        distrust();
        if (++p_.wedged == 1) {
          p_.due = now_ + settings_.again;
          return;
        }
        return end(next_step(event.has_clients, event.has_servers));
    }
  }

  void on(const StepDone&) {
    if (!p_.step_due) return;
    p_.step_due.reset();
    p_.due = now_ + settings_.settle;
  }

  void on(const ProofTick&) {
    if (p_.step_due && now_ >= *p_.step_due) on(StepDone{});
    if (fault_is_old() && p_.serves && p_.step == Step::kNone) {
      cancel();
      p_.reason = fmt::format("a server has handled a fatal GPU error for {} s",
                              std::chrono::duration_cast<std::chrono::seconds>(settings_.fault_patience).count());
      distrust();
      p_.wedged = 2;
      return end(Step::kClients);
    }
    if (p_.due && now_ >= *p_.due && p_.serves && !p_.running) start();
  }

 private:
  bool fault_is_old() const { return p_.fault_since && now_ >= *p_.fault_since + settings_.fault_patience; }

  void cancel() {
    if (std::exchange(p_.running, false)) actions.push_back(CancelProof{});
  }
  void start() {
    p_.due.reset();
    p_.running = true;
    p_.last_started = now_;
    if (!p_.trusted && p_.state != ProofState::kFailed) {
      p_.state = ProofState::kRunning;
      p_.reason.clear();
    }
    actions.push_back(StartProof{});
  }
  void trust() {
    p_.trusted = true;
    p_.wedged = 0;
    p_.step = Step::kNone;
    p_.due = p_.due ? std::max(*p_.due, now_ + settings_.settle) : now_ + settings_.every;  // a doubt came meanwhile
  }
  void distrust() {
    p_.state = ProofState::kFailed;
    p_.trusted = false;
    ++p_.failed;
  }
  Step next_step(bool clients, bool servers) const {
    if (p_.step == Step::kNone && clients) return Step::kClients;
    if (p_.step < Step::kServers && servers) return Step::kServers;
    return Step::kDaemon;
  }
  void end(Step step) {
    p_.step = step;
    p_.due.reset();
    p_.step_due = now_ + settings_.step_patience;
    ++(step == Step::kClients ? p_.clients_ended : step == Step::kServers ? p_.servers_ended : p_.daemons_ended);
    if (step == Step::kClients && p_.fault_since) p_.fault_since = now_;  // its patience restarts
    actions.push_back(EndStep{step});
  }

  Proof& p_;
  MonoTime now_;
  const ProofSettings& settings_;
};

}  // namespace

ProofReading read_proof(const ProbeEnded& probe) {
  using enum ProofVerdict;
  const std::string failure = failure_text(probe.output);
  if (probe.timed_out) return {kWedged, "a CUDA start hung and was killed at its deadline"};
  if (probe.exit_code == 0) {
    const auto sign = connected(probe.output);
    if (sign && *sign) return {kPassed, ""};
    return {kInconclusive, sign ? "CUDA started, and nothing shows that it did so through MPS"
                                : "CUDA started, but its report was not understood"};
  }
  if (says(failure, "libcuda.so")) return {kInconclusive, failure};
  if (says(failure, "no answer from the driver within")) return {kWedged, failure};
  if (says(failure, "that the GPU computed are wrong")) return {kUnfit, failure};
  if (says(failure, "CUDA_ERROR_OUT_OF_MEMORY")) {
    return {kInconclusive, "no memory was left for a CUDA start, which is no sign of a wedge: " + failure};
  }
  if (says(failure, "CUDA_ERROR_MPS_MAX_CLIENTS_REACHED") || says(failure, "CUDA_ERROR_MPS_MAX_CONNECTIONS_REACHED")) {
    return {kInconclusive, "the pool has as many clients as it can: " + failure};
  }
  if (says(failure, "CUDA_ERROR_DEVICE_UNAVAILABLE") && probe.clients >= kManyClients) {
    return {kInconclusive,
            fmt::format("busy with {} clients, which is no sign of a wedge: {}", probe.clients, failure)};
  }
  if (says(failure, "CUDA_ERROR_MPS_CLIENT_TERMINATED")) return {kInconclusive, "it was ended through MPS: " + failure};
  if (says(failure, "CUDA_ERROR_MPS_SERVER_NOT_READY")) {
    return {kUnfit, "the server accepts no new clients while it handles a fatal GPU error: " + failure};
  }
  if (says(failure, "CUDA_ERROR_NO_DEVICE") || says(failure, "CUDA_ERROR_DEVICE_NOT_LICENSED") ||
      says(failure, "CUDA_ERROR_ECC_UNCORRECTABLE") || says(failure, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH")) {
    return {kUnfit, failure};
  }
  if (!says(failure, "CUDA_ERROR_")) {
    return {kInconclusive, fmt::format("the CUDA start could not be tried (status {}): {}", probe.exit_code, failure)};
  }
  return {kWedged, failure};
}

std::vector<ProofAction> step(Proof& state, const ProofEvent& event, MonoTime now, const ProofSettings& settings) {
  ProofTurn turn(state, now, settings);
  std::visit([&](const auto& e) { turn.on(e); }, event);
  return std::move(turn.actions);
}

std::optional<MonoTime> wake_at(const Proof& state, const ProofSettings& settings) {
  std::optional<MonoTime> at;
  const auto sooner = [&](const std::optional<MonoTime>& other) {
    if (other) at = at ? std::min(*at, *other) : *other;
  };
  if (state.serves && !state.running) sooner(state.due);
  sooner(state.step_due);
  if (state.serves && state.step == Step::kNone && state.fault_since)
    sooner(*state.fault_since + settings.fault_patience);
  return at;
}

std::string_view pool_word(const Proof& state) {
  if (state.trusted) return "serving";
  return state.state == ProofState::kFailed ? "wedged" : "proving";
}

}  // namespace tranche::mps
