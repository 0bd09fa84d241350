#include "doctor/verify/live/looks.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <string>

#include "base/json_read.h"
#include "base/json_text.h"
#include "mps/control/control_client.h"
#include "os/socket/status_socket.h"
#include "plan/client_limits.h"

namespace tranche::doctor {
namespace {

using Json = nlohmann::json;

constexpr Duration kDaemonAnswer = std::chrono::seconds(10);
constexpr std::uint32_t kOtherUser = 65534;  // nobody
constexpr std::size_t kNeighbours = 2;
// Each was measured to lift the daemon's memory limit of a client, or to have no effect
// (docs/internals/mps-contract.md).
constexpr std::array kMalformed{"zz", "0=zz", "8192M", "GPU-bad=1G"};

std::string mebibytes(std::uint64_t count) {
  return fmt::format("{}M", std::max<std::uint64_t>(1, count));
}

// What the guard, and not the server, holds a container to.
// What is ended here computes as frameworks do, with products in flight, where the GPU has tensor cores: the neighbour
// is then beside the worst end that a client can have.
void try_guard(Probes& probes, const Trial& trial, bool tensor_cores, Findings& checks) {
  const auto& expected = trial.expected;
  const std::string beyond = mebibytes(beyond_mib(expected.memory_mib));
  const std::string most = mebibytes(expected.memory_mib * 6 / 10);
  const std::string name(plan::kPinnedLimitVariable);
  const auto computing = [&](const std::string& memory, const char* seconds) {
    std::vector<std::string> words{"--allocate", memory, "--seconds", seconds};
    if (tensor_cores) words.emplace_back("--tensor-cores");
    return words;
  };
  for (const char* value : kMalformed)
    judge_beyond("deep.memory.variable", expected, name + "=" + value,
                 probes.run(trial.grant, computing(beyond, "3"), {{name, value}}), checks);
  const auto first = probes.start(trial.grant, computing(most, "20"));
  const auto second = probes.run(trial.grant, computing(most, "5"));
  judge_second(expected, probes.end(first), second, trial.observed, checks);
}

Result<std::string> command_endpoint(Probes& probes, const VerifyOptions& options, const VerifyPlaces& places,
                                     const GrantHere& grant) {
  const auto program = mps::find_control_binary({.given = options.mps_control,
                                                 .driver_root = places.driver_root,
                                                 .path = config::variable(options.environment, "PATH")});
  if (!program) return fail(Kind::kUnavailable, program.error().what, program.error().where);
  mps::ControlTarget target{.argv = {*program}, .env = probes.environment()};
  target.env["CUDA_MPS_PIPE_DIRECTORY"] = grant.endpoint;
  Result<std::string> answer;
  bool done = false;
  const auto question =
      mps::ask(probes.loop(), target, "get_server_list\n", kDaemonAnswer, [&](Result<std::string> got) {
        answer = std::move(got);
        done = true;
        probes.loop().stop();
      });
  while (!done) probes.loop().run();
  return answer;
}

// Clients that are killed with work in flight, beside neighbours that compute. A death does its harm when the client's
// descriptors are closed for the last time (docs/internals/evidence/deaths.md), which with tranche-keeper is seconds
// later: the status of `tranche mps` shows when.
class Deaths {
 public:
  Deaths(Probes& probes, const VerifyPlaces& places, const Trial& trial)
      : probes_(probes),
        trial_(trial),
        watcher_(probes.loop(), places.mps_root_here + "/mps.sock", [this](const std::string& line) { heard(line); }) {}

  DeathTries run(const GrantHere& neighbour) {
    if (!probes_.until([this] { return heard_; }) || !status_.is_object())
      return {.skipped = "tranche mps does not answer, which reports what tranche-keeper holds"};
    for (std::size_t n = 0; n < kNeighbours; ++n)
      neighbours_.push_back(probes_.start(neighbour, {"--seconds", "280", "--stages"}));
    (void)probes_.until([this] { return std::ranges::all_of(neighbours_, Probes::computes_or_ended); });
    while (tries_.not_made.empty() && tries_.deaths < kDeaths && all_compute()) kill_one();
    // A client that starts and computes takes longer than a harm takes to reach the neighbours.
    if (tries_.deaths > 0 && all_compute()) (void)probes_.run(trial_.grant, {"--seconds", "1"});
    for (const auto& each : neighbours_) tries_.neighbours.push_back(probes_.end(each));
    return tries_;
  }

 private:
  void heard(const std::string& line) {
    heard_ = true;
    status_ = json_of(line);
    pool_ = endpoint_ = Json();
    for (const Json& pool : list_at(status_, "pools"))
      for (const Json& each : list_at(pool, "endpoints"))
        if (trial_.grant.endpoint.ends_with("/" + text_at(pool, "id") + "/endpoints/" + text_at(each, "grant")))
          pool_ = pool, endpoint_ = each;
    const Json& held = list_at(endpoint_, "protection");
    protection_ = held.empty() ? Json() : held[0];
    probes_.loop().stop();
  }
  bool all_compute() const { return std::ranges::none_of(neighbours_, Probes::has_ended); }
  bool is_free() const {
    return endpoint_.is_object() && list_at(endpoint_, "clients").empty() && list_at(endpoint_, "dead").empty();
  }
  bool others_run() const {
    std::size_t clients = 0;
    for (const Json& each : list_at(pool_, "endpoints")) clients += list_at(each, "clients").size();
    return clients > kNeighbours + 1;
  }

  void kill_one() {
    if (!probes_.until([this] { return is_free(); }))
      return refuse("tranche mps does not report that the slot has no client");
    auto victim = probes_.start(trial_.grant, {"--seconds", "60", "--tensor-cores", "--queue", "128", "--stages"});
    const auto state = [this] { return text_at(protection_, "protected"); };
    const bool ready = probes_.until([&] {
      return Probes::has_ended(victim) || (Probes::computes_or_ended(victim) && (state() == "yes" || state() == "no"));
    });
    if (!ready || Probes::has_ended(victim)) {
      tries_.victim = probes_.end(victim);
      return refuse("a client did not compute, or tranche-keeper did not report whether it holds it");
    }
    const bool held = state() == "yes";
    if (!held) tries_.not_held = text_at(protection_, "why");
    if (!held && others_run()) {
      (void)probes_.end(victim);
      return refuse("pods' clients run on the GPU, and a death can end them");
    }
    (void)probes_.end(victim, SIGKILL);  // with work in flight
    ++tries_.deaths;
    if (held && !(probes_.until([this] { return !list_at(endpoint_, "dead").empty(); }) &&
                  probes_.until([this] { return is_free(); })))
      refuse("tranche-keeper did not release a client within a minute of its death");
  }

  void refuse(const char* why) { tries_.not_made = why; }

  Probes& probes_;
  const Trial& trial_;
  DeathTries tries_;
  std::vector<Probes::Started> neighbours_;
  bool heard_ = false;
  Json status_, pool_, endpoint_, protection_;  // of `tranche mps`; our pool, our grant's endpoint, its only client's
  os::StatusWatcher watcher_;
};

// "deep.deaths". If tranche-keeper does not hold a client, its death can harm clients of pods: then the trial is
// skipped beside them.
void try_deaths(Probes& probes, const VerifyPlaces& places, const Trial& trial, bool tensor_cores, Findings& checks) {
  DeathTries tries{.not_made = trial.deaths_not_covered};
  if (!trial.neighbour)
    tries.skipped = "only one slot is free: there is no neighbour";
  else if (!tensor_cores)
    tries.skipped = "the client's work needs tensor cores of compute capability 8.0 or newer";
  else if (tries.not_made.empty())
    tries = Deaths(probes, places, trial).run(*trial.neighbour);
  judge_deaths(trial.expected, tries, checks);
}

}  // namespace

void try_grant(Probes& probes, const VerifyOptions& options, const VerifyPlaces& places, const Trial& trial,
               Findings& checks) {
  const auto& expected = trial.expected;
  const auto& grant = trial.grant;
  const std::string within = mebibytes(within_mib(expected.memory_mib));
  const std::string beyond = mebibytes(beyond_mib(expected.memory_mib));

  if (probes.place() == ProbePlace::kOwnNamespace && probes.run(grant, {"--seconds", "0"}).status == kNoContainer)
    probes.move_to(ProbePlace::kHere);
  const bool inside = probes.place() == ProbePlace::kContainer;
  Probes::Started neighbour;
  if (trial.neighbour) neighbour = probes.start(*trial.neighbour, {"--seconds", "90"});
  const auto computed = probes.run(grant, {"--allocate", within});
  judge_grant(expected, computed, checks);
  judge_beyond("deep.memory.beyond", expected, "", probes.run(grant, {"--allocate", beyond, "--seconds", "2"}), checks);
  judge_all_sms(expected,
                probes.run(grant, {"--seconds", "0"}, {{std::string(plan::kThreadPercentageVariable), "100"}}), checks);
  if (probes.place() != ProbePlace::kHere) {
    try_guard(probes, trial, has_tensor_cores(computed), checks);
  } else {
    for (const char* id : {"deep.memory.variable", "deep.second-process"})
      checks.skip(id, expected.gpu,
                  "a probe cannot have a mount namespace of its own here, by which the guard "
                  "knows whose it is",
                  "run as root with CAP_SYS_ADMIN: on the node, or in a privileged container");
  }
  if (!inside)
    judge_user(expected, kOtherUser, probes.run(grant, {"--seconds", "0", "--as-user", std::to_string(kOtherUser)}),
               checks);
  judge_control(expected, command_endpoint(probes, options, places, grant), checks);
  if (neighbour) {
    judge_neighbour(expected, probes.end(neighbour), checks);
  } else if (!inside) {
    checks.skip("deep.neighbour", expected.gpu, "only one slot is free: there is no neighbour",
                "try again when two are free");
  }
  if (!inside) try_deaths(probes, places, trial, has_tensor_cores(computed), checks);
}

}  // namespace tranche::doctor
