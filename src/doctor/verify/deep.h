#pragma once
// What probes that ran inside a grant (docs/reference/probe.md) mean for what the grant promises. Pure; what probes
// print is not trusted.
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "base/result.h"
#include "doctor/finding.h"

namespace tranche::verify {

struct DeepGrant {
  std::string gpu;             // UUID
  std::uint64_t memory_mib{};  // 0 = not limited
  std::uint64_t sms{};         // 0 = not limited, or not known
};

// One `tranche probe --json`.
struct ProbeRun {
  std::string not_started = {};  // why it could not be run, or ""
  bool timed_out = false;        // it was killed
  int status = 0;                // exit status, or 128 + signal
  std::string output = {};
};
nlohmann::json report_of(const ProbeRun& run);  // null: it printed none
inline constexpr int kNoContainer = 4;          // exit status of a probe that could not be like a container

// Of a GPU of which pods hold every slot.
void skip_without_slot(const std::string& gpu, Findings& checks);

// 95 % and 105 % of the grant. A context uses memory of the grant as well, so a small grant has less left.
std::uint64_t within_mib(std::uint64_t memory_mib);
std::uint64_t beyond_mib(std::uint64_t memory_mib);

// Whether the probe's GPU runs `tranche probe --tensor-cores`.
bool has_tensor_cores(const ProbeRun& run);
// The probe allocated within_mib() and computed: memory, SMs and answers.
void judge_grant(const DeepGrant& grant, const ProbeRun& run, Findings& checks);
// The probe tried to have beyond_mib(), by itself ("deep.memory.beyond") or with `means` ("a malformed
// CUDA_MPS_…=zz").
void judge_beyond(const std::string& id, const DeepGrant& grant, const std::string& means, const ProbeRun& run,
                  Findings& checks);
// The probe said that it may use every SM.
void judge_all_sms(const DeepGrant& grant, const ProbeRun& run, Findings& checks);
// Two processes of one container that together want a fifth more than the grant. `observed`: the policy says that such
// is only reported.
void judge_second(const DeepGrant& grant, const ProbeRun& first, const ProbeRun& second, bool observed,
                  Findings& checks);
void judge_user(const DeepGrant& grant, std::uint32_t user, const ProbeRun& run, Findings& checks);
// What came back when the endpoint was asked for get_server_list, which changes nothing and is no tenant's to know:
// with a server there, its pid where commands pass.
void judge_control(const DeepGrant& grant, const Result<std::string>& answer, Findings& checks);
// Clients that were killed with work in flight, one after the other.
inline constexpr int kDeaths = 3;
struct DeathTries {
  std::string skipped = {};   // why none was to be killed
  std::string not_made = {};  // why a further one was not killed
  std::string not_held = {};  // why tranche-keeper did not hold one
  int deaths = 0;
  ProbeRun victim = {};                   // that could not be killed at work
  std::vector<ProbeRun> neighbours = {};  // which computed all the while, until they were stopped
};
void judge_deaths(const DeepGrant& grant, const DeathTries& tries, Findings& checks);
// A probe in a different grant that computed all the while, until it was stopped.
void judge_neighbour(const DeepGrant& grant, const ProbeRun& run, Findings& checks);

}  // namespace tranche::verify
