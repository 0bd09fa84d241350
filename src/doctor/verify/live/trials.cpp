#include "doctor/verify/live/probes.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>

#include "mps/control/control_client.h"
#include "mps/daemon/binary.h"
#include "plan/client_limits.h"

namespace tranche::verify {
namespace {

constexpr Duration kDaemonAnswer = std::chrono::seconds(10);
constexpr std::uint32_t kOtherUser = 65534;  // nobody
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

}  // namespace tranche::verify
