// Clients that are killed with work in flight, beside neighbours that compute. A death does its harm when the client's
// descriptors are closed for the last time (docs/internals/evidence/deaths.md), which with tranche-keeper is seconds
// later: the status of `tranche mps` shows when.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/json_read.h"
#include "base/json_text.h"
#include "doctor/verify/live/probes.h"
#include "os/socket/status_socket.h"

namespace tranche::verify {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kNeighbours = 2;

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

}  // namespace

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

}  // namespace tranche::verify
