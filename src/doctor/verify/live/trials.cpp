// Probes in grants, here: in place of a container with a slot that no pod holds, and in the container that has one.
#include "doctor/verify/live/verify_program.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <ranges>
#include <set>
#include <string>
#include <utility>

#include "base/json_text.h"
#include "base/text.h"
#include "doctor/verify/checks.h"
#include "gpu/platform/platform.h"
#include "grants/allocate/grant.h"
#include "kubelet/pod_resources.h"
#include "mps/control/control_client.h"
#include "mps/limits/limits.h"
#include "os/loop/loop.h"
#include "os/process/process.h"
#include "os/socket/status_socket.h"
#include "probe/main.h"

namespace tranche::doctor {
namespace {

using Json = nlohmann::json;

constexpr int kBySignal = 128;
// A CUDA start, a context, the kernels, and what it was asked to do; each stage has the probe's own deadline.
constexpr Duration kLongestProbe = std::chrono::seconds(300);
constexpr Duration kLongestWait = std::chrono::seconds(60);  // a CUDA start, or the keeper's 5 s, on a busy node
constexpr Duration kLookAgain = std::chrono::milliseconds(50);
constexpr Duration kQueueRunsOut = std::chrono::seconds(2);  // of a probe that was stopped

enum class ProbePlace {
  kOwnNamespace,  // a mount namespace with the grant's endpoint, by which the guard attributes the process
  kHere,          // the namespaces of this process: the probe uses the endpoint, and the guard cannot attribute it
  kContainer,     // this process runs in the container that has the grant
};

// A grant as its container has it.
struct GrantHere {
  std::string endpoint;                    // as this process sees it
  std::map<std::string, std::string> env;  // from the node agent
};

// `tranche probe` as child processes, each in place of a container with a grant. Several may run at once.
struct Probes {
  struct Running {
    os::Timer timer;
    bool ended = false;
    ProbeRun run = {};
    std::unique_ptr<os::Process> process = {};
  };
  using Started = std::unique_ptr<Running>;
  // `words` follow "probe --json"; `more` replaces variables of the grant.
  Started start(const GrantHere& grant, const std::vector<std::string>& words,
                const std::map<std::string, std::string>& more = {}) {
    Started probe(new Running{.timer = os::Timer(loop)});
    os::Command command{.argv = {"/proc/self/exe", "probe", "--json"},
                        .env = environment,
                        .kill_on_drop = true,
                        .die_with_parent = true};
    command.argv.insert(command.argv.end(), words.begin(), words.end());
    for (const auto& [name, value] : grant.env) command.env[name] = value;
    for (const auto& [name, value] : more) command.env[name] = value;
    if (place == ProbePlace::kOwnNamespace) {
      command.argv.insert(command.argv.end(), {"--endpoint", grant.endpoint});
    } else {
      command.env["CUDA_MPS_PIPE_DIRECTORY"] = grant.endpoint;
    }
    Running* self = probe.get();
    auto process = os::Process::start(loop, command, [this, self](os::ExitNote note) {
      self->ended = true;
      self->run.status = note.signalled ? kBySignal + note.code : note.code;
      self->run.output = self->process->output().value_or("");
      loop.stop();
    });
    if (!process) {
      probe->ended = true;
      probe->run.not_started = to_string(process.error());
      return probe;
    }
    probe->process = *std::move(process);
    probe->timer.start(kLongestProbe, [self] {
      self->run.timed_out = true;
      // Killed with work in flight it would take its neighbours along.
      (void)self->process->signal(SIGSTOP);
      self->timer.start(kQueueRunsOut, [self] { (void)self->process->signal(SIGKILL); });
    });
    return probe;
  }

  // The loop stops at the end of any probe.
  ProbeRun wait(const Started& probe) {
    while (!probe->ended) loop.run();
    return probe->run;
  }

  // At SIGTERM the probe ends its context first.
  ProbeRun end(const Started& probe, int signal = SIGTERM) {
    if (probe->process) (void)probe->process->signal(signal);
    return wait(probe);
  }

  static bool has_ended(const Started& probe) { return probe->ended; }
  // With --stages: launches are in flight.
  static bool computes_or_ended(const Started& probe) {
    return probe->ended || probe->process->output().value_or("").contains("computing\n");
  }
  // Runs the loop until so() is true; false: not within a minute.
  bool until(const std::function<bool()>& so) {
    os::Timer look(loop);
    for (const auto late = loop.now() + kLongestWait; !so() && loop.now() < late;) {
      look.start(kLookAgain, [this] { loop.stop(); });
      loop.run();
    }
    return so();
  }

  ProbeRun run(const GrantHere& grant, const std::vector<std::string>& words,
               const std::map<std::string, std::string>& more = {}) {
    return wait(start(grant, words, more));
  }

  os::Loop& loop;
  std::map<std::string, std::string> environment;
  ProbePlace place;
};

// The trials of one grant and their judgement, the same in every place.
struct Trial {
  DeepGrant expected;
  GrantHere grant = {};
  std::optional<GrantHere> neighbour = {};  // a different slot of the same GPU
  bool observed = false;                    // the guard only reports
  std::string deaths_not_covered = {};      // why a client's death can hurt others, as the node agent reports
};

constexpr Duration kDaemonAnswer = std::chrono::seconds(10);
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
  mps::ControlTarget target{.argv = {*program}, .env = probes.environment};
  target.env["CUDA_MPS_PIPE_DIRECTORY"] = grant.endpoint;
  Result<std::string> answer;
  bool done = false;
  mps::Sessions sessions(probes.loop, std::move(target));
  const auto question = sessions.ask("get_server_list\n", kDaemonAnswer, [&](Result<std::string> got) {
    answer = std::move(got);
    done = true;
    probes.loop.stop();
  });
  while (!done) probes.loop.run();
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
        watcher_(probes.loop, places.mps_root_here + "/mps.sock", [this](const std::string& line) { heard(line); }) {}

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

void try_grant(Probes& probes, const VerifyOptions& options, const VerifyPlaces& places, const Trial& trial,
               Findings& checks) {
  const auto& expected = trial.expected;
  const auto& grant = trial.grant;
  const std::string within = mebibytes(within_mib(expected.memory_mib));
  const std::string beyond = mebibytes(beyond_mib(expected.memory_mib));

  if (probes.place == ProbePlace::kOwnNamespace && probes.run(grant, {"--seconds", "0"}).status == kNoContainer)
    probes.place = ProbePlace::kHere;
  const bool inside = probes.place == ProbePlace::kContainer;
  Probes::Started neighbour;
  if (trial.neighbour) neighbour = probes.start(*trial.neighbour, {"--seconds", "90"});
  const auto computed = probes.run(grant, {"--allocate", within});
  judge_grant(expected, computed, checks);
  judge_beyond("deep.memory.beyond", expected, "", probes.run(grant, {"--allocate", beyond, "--seconds", "2"}), checks);
  judge_all_sms(expected,
                probes.run(grant, {"--seconds", "0"}, {{std::string(plan::kThreadPercentageVariable), "100"}}), checks);
  if (probes.place != ProbePlace::kHere) {
    try_guard(probes, trial, has_tensor_cores(computed), checks);
  } else {
    for (const char* id : {"deep.memory.variable", "deep.second-process"})
      checks.skip(id, expected.gpu,
                  "a probe cannot have a mount namespace of its own here, by which the guard "
                  "knows whose it is",
                  "run as root with CAP_SYS_ADMIN: on the node, or in a privileged container");
  }
  if (!inside)
    judge_user(expected, kNeighbourUser,
               probes.run(grant, {"--seconds", "0", "--as-user", std::to_string(kNeighbourUser)}), checks);
  judge_control(expected, command_endpoint(probes, options, places, grant), checks);
  if (neighbour) {
    judge_neighbour(expected, probes.end(neighbour), checks);
  } else if (!inside) {
    checks.skip("deep.neighbour", expected.gpu, "only one slot is free: there is no neighbour",
                "try again when two are free");
  }
  if (!inside) try_deaths(probes, places, trial, has_tensor_cores(computed), checks);
}

// "12", or "GPU-a=12,GPU-b=14".
Result<std::uint64_t> sms_of(const std::string& text, const std::string& gpu) {
  if (text.empty()) return 0;
  for (const auto part : split(text, ',')) {
    const auto equals = part.find('=');
    const auto number = parse_unsigned(equals == std::string_view::npos ? part : part.substr(equals + 1));
    if (!number) return fail(Kind::kInvalid, "--sms: not \"12\" nor \"GPU-a=12,GPU-b=14\"", text);
    if (equals == std::string_view::npos || part.substr(0, equals) == gpu) return *number;
  }
  return 0;
}

// By a probe that is asked for nothing.
Result<std::string> gpu_seen(Probes& probes, const GrantHere& grant) {
  const auto run = probes.run(grant, {"--seconds", "0"});
  if (auto uuid = text_at(map_at(report_of(run), "device"), "uuid"); !uuid.empty()) return uuid;
  return fail(Kind::kUnavailable,
              "CUDA does not start here: " + std::string(run.output.empty() ? run.not_started : trimmed(run.output)),
              "tranche probe");
}

Result<std::vector<DeepGrant>> grants_here(const VerifyOptions& options, Probes& probes, const GrantHere& grant) {
  std::vector<DeepGrant> grants;
  TRY(const auto gpu, gpu_seen(probes, grant));  // it starts at all
  const std::string limit = config::variable(options.environment, plan::kPinnedLimitVariable);
  if (limit.empty()) grants.push_back({.gpu = gpu});
  for (const auto entry : limit.empty() ? std::vector<std::string_view>{} : split(limit, ',')) {
    const auto equals = entry.find('=');
    const auto memory = equals == entry.npos ? std::nullopt : mps::amount_of(entry.substr(equals + 1));
    if (!memory)
      return fail(Kind::kInvalid, "not \"GPU-a=4096M,GPU-b=2G\": " + in_quotes(limit), plan::kPinnedLimitVariable);
    grants.push_back({.gpu = std::string(entry.substr(0, equals)), .memory_mib = memory->in_mib()});
  }
  for (auto& one : grants) {
    TRY(one.sms, sms_of(options.sms, one.gpu));
  }
  return grants;
}

constexpr Duration kAgentAnswer = std::chrono::seconds(10);

// The slots that containers hold, as kubelet's PodResources API reports them now.
Result<std::set<std::string>> held_slots(const VerifyOptions& options) {
  TRY(const auto holdings, kubelet::list_pod_resources(options.pod_resources_socket, kAgentAnswer));
  std::set<std::string> held;
  for (const auto& holding : holdings) held.insert(holding.slots.begin(), holding.slots.end());
  return held;
}

Result<GrantHere> take(const VerifyPlaces& places, const std::string& socket, const std::string& slot,
                       const std::string& gpu) {
  TRY(const auto asked, kubelet::request_grant(socket, {slot}, kAgentAnswer));
  GrantHere grant;
  grant.env = asked.envs;
  const auto mount = std::ranges::find(asked.mounts, grants::kEndpointInContainer, &grants::Mount::container_path);
  if (mount == asked.mounts.end()) return fail(Kind::kInvalid, "the grant has no endpoint", socket);
  grant.endpoint = mount->host_path;
  if (grant.endpoint.starts_with(places.mps_root + "/"))
    grant.endpoint = places.mps_root_here + grant.endpoint.substr(places.mps_root.size());
  if (gpu.starts_with("GPU-")) grant.env["CUDA_VISIBLE_DEVICES"] = gpu;
  return grant;
}

void try_device(Probes& probes, const VerifyOptions& options, const VerifyPlaces& places, const Json& node,
                const Json& device, const std::set<std::string>& held, Findings& checks) {
  const std::string gpu = text_at(device, "uuid"), resource = text_at(device, "resource");
  if (text_at(device, "sharing") != "mps")
    return checks.skip("deep", gpu, "the GPU is not shared by MPS, so it has no limits to test");
  // kubelet hands out the first ones first: from the other end a pod that comes meanwhile is less likely met.
  std::vector<std::string> slots;
  for (const Json& slot : list_at(device, "slots") | std::views::reverse)
    if (const std::string id = text_at(slot, "id"); text_at(slot, "holder").empty() && !held.contains(id))
      slots.push_back(id);
  if (slots.empty()) return skip_without_slot(gpu, checks);
  Trial trial{.expected = {gpu, count_at(device, "slotMemoryMiB"), count_at(device, "slotSms")},
              .observed = text_at(map_at(map_at(node, "guard"), "memory"), resource) == "observe"};
  const Json& deaths = entry_at(node, "inForce", "promise", "a client's death hurts no neighbour");
  if (text_at(deaths, "state") == "no")
    trial.deaths_not_covered = "the node agent reports that deaths are not covered: " + text_at(deaths, "why");
  const auto socket = options.plugin_dir + "/" + text_at(entry_at(node, "resources", "name", resource), "endpoint");
  auto grant = take(places, socket, slots.front(), gpu);
  if (!grant) return checks.fail("deep", gpu, "no grant: " + to_string(grant.error()), "see the log of tranche node");
  trial.grant = *std::move(grant);
  if (slots.size() > 1)
    if (auto other = take(places, socket, slots[1], gpu)) trial.neighbour = *std::move(other);
  Findings trials;
  try_grant(probes, options, places, trial, trials);
  const auto held_now = held_slots(options);
  const bool taken = !held_now || std::ranges::any_of(slots | std::views::take(2),
                                                      [&](const auto& slot) { return held_now->contains(slot); });
  for (const auto& check : trials)
    if (taken && check.verdict == Verdict::kFail)
      checks.skip(check.id, check.about, "a pod got the slot in the meantime: " + check.what,
                  "kubectl cordon the node and try again");
    else
      checks.add(check);
}

}  // namespace

Status try_inside(const VerifyOptions& options, Findings& checks) {
  GrantHere grant{.endpoint = config::variable(options.environment, "CUDA_MPS_PIPE_DIRECTORY"), .env = {}};
  if (grant.endpoint.empty())
    return fail(Kind::kNotFound,
                "this container has no share of MPS (no CUDA_MPS_PIPE_DIRECTORY): ask for a resource that is shared by "
                "MPS or for a claim of a share, or run `tranche probe` for what the whole GPU is",
                "the environment");
  TRY(const auto loop, os::Loop::open());
  Probes probes{*loop, {options.environment.begin(), options.environment.end()}, ProbePlace::kContainer};
  TRY(const auto grants, grants_here(options, probes, grant));
  std::vector<std::string> gpus;
  for (const auto& expected : grants) gpus.push_back(expected.gpu);
  check_environment({options.environment.begin(), options.environment.end()}, gpus, checks);
  for (const auto& expected : grants) {
    GrantHere here = grant;
    if (expected.gpu.starts_with("GPU-")) here.env["CUDA_VISIBLE_DEVICES"] = expected.gpu;
    try_grant(probes, options, {}, {expected, here, {}, options.observed}, checks);
  }
  return {};
}

Status try_limits(const VerifyOptions& options, const VerifyPlaces& places, Findings& checks) {
  auto environment = mps::handed_on({options.environment.begin(), options.environment.end()});
  if (!environment.contains("LD_LIBRARY_PATH") && places.driver_root != "/" && !places.driver_root.empty()) {
    environment["LD_LIBRARY_PATH"] =
        join(gpu::kLibraryFolders, ":", [&](const char* folder) { return places.driver_root + folder; });
  }
  TRY(const auto loop, os::Loop::open());
  Probes probes{*loop, std::move(environment), ProbePlace::kOwnNamespace};
  // Below it each probe has its endpoint; where the agent has another run directory it may not be there. It stays: the
  // kernel detaches what other mount namespaces, such as those of another run's probes, have mounted at a directory
  // that is removed.
  ::mkdir(probe::kRunDirectory, 0755);
  TRY(const auto answer, os::ask(options.run_dir + "/node.sock", "status", kAgentAnswer));
  const Json node = json_of(answer);
  if (!node.is_object()) return fail(Kind::kInvalid, "the node agent's status is not a JSON document", options.run_dir);
  TRY(const auto held, held_slots(options));
  for (const Json& device : list_at(node, "devices")) try_device(probes, options, places, node, device, held, checks);
  if (!map_at(node, "dra").empty())
    checks.skip("deep", "claims", "a probe cannot take a claim: the scheduler grants them",
                "run `tranche verify --inside` in a pod with a claim");
  return {};
}

}  // namespace tranche::doctor
