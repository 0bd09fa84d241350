#pragma once
// Judges the reports of probes that ran inside a grant (docs/reference/probe.md) by the grant's limits. Pure; does not
// trust the output of probes.
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "base/result.h"
#include "doctor/finding.h"

namespace tranche::doctor {

struct DeepGrant {
  std::string gpu;             // UUID
  std::uint64_t memory_mib{};  // 0 = not limited
  std::uint64_t sms{};         // 0 = not limited, or not known
};

// One run of `tranche probe --json`.
struct ProbeRun {
  std::string not_started = {};  // why the probe could not start; "" = it started
  bool timed_out = false;        // the caller killed it
  int status = 0;                // exit status, or 128 + signal
  std::string output = {};
};
nlohmann::json report_of(const ProbeRun& run);  // null: the probe printed no report
inline constexpr int kNoContainer = 4;          // exit status of a probe that could not create its namespaces

// For a GPU whose slots are all held by pods.
void skip_without_slot(const std::string& gpu, Findings& checks);

// 95 % and 105 % of the grant. A context uses memory of the grant as well, so a small grant has less left.
std::uint64_t within_mib(std::uint64_t memory_mib);
std::uint64_t beyond_mib(std::uint64_t memory_mib);

// Whether the GPU of the probe can run `tranche probe --tensor-cores`.
bool has_tensor_cores(const ProbeRun& run);
// The probe allocated within_mib() and computed: memory, SMs and answers.
void judge_grant(const DeepGrant& grant, const ProbeRun& run, Findings& checks);
// The probe tried to allocate beyond_mib(), by itself ("deep.memory.beyond") or with `means` ("a malformed
// CUDA_MPS_…=zz").
void judge_beyond(const std::string& id, const DeepGrant& grant, const std::string& means, const ProbeRun& run,
                  Findings& checks);
// The probe reported that it can use every SM.
void judge_all_sms(const DeepGrant& grant, const ProbeRun& run, Findings& checks);
// Two processes of one container that together allocate a fifth more than the grant. `observed`: the guard's policy is
// to report this and not to end a process.
void judge_second(const DeepGrant& grant, const ProbeRun& first, const ProbeRun& second, bool observed,
                  Findings& checks);
void judge_user(const DeepGrant& grant, std::uint32_t user, const ProbeRun& run, Findings& checks);
// The reply of the endpoint to get_server_list, a command that changes nothing and that a tenant must not send. If the
// endpoint lets commands pass and a server runs, the reply holds the pid of the server.
void judge_control(const DeepGrant& grant, const Result<std::string>& answer, Findings& checks);
// Clients that were killed one after the other, with work in flight.
inline constexpr int kDeaths = 3;
struct DeathTries {
  std::string skipped = {};   // why no client was killed
  std::string not_made = {};  // why the next client was not killed
  std::string not_held = {};  // why tranche-keeper did not hold a client
  int deaths = 0;
  ProbeRun victim = {};                   // the client that could not be killed at work
  std::vector<ProbeRun> neighbours = {};  // computed until they were stopped
};
void judge_deaths(const DeepGrant& grant, const DeathTries& tries, Findings& checks);
// A probe in a different grant, which computed until it was stopped.
void judge_neighbour(const DeepGrant& grant, const ProbeRun& run, Findings& checks);

}  // namespace tranche::doctor
