#pragma once
// The groups of checks of `tranche verify`. Each reads documents as they were received (status documents of
// docs/reference/status.md, objects of the API server, an inventory), or the reports of probes that ran inside a grant
// (docs/reference/probe.md), and appends its findings. Does not trust documents, pods, logs and the output of probes;
// fuzzed. Pure.
#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "doctor/finding.h"
#include "gpu/inventory/inventory.h"

namespace tranche::doctor {

// The status of the node agent, and of `tranche mps` (null = it did not answer).
void check_agent(const nlohmann::json& node_status, const nlohmann::json& mps_status, Findings& checks);

// Claims that the node agent has prepared. Adds no finding if the agent does not serve claims.
void check_claims(const nlohmann::json& node_status, Findings& checks);
// In a container: whether its variables show the GPUs that its limits belong to.
void check_environment(const std::map<std::string, std::string>& environment, const std::vector<std::string>& gpus,
                       Findings& checks);

// A Node object of the API server.
void check_node(const nlohmann::json& node, Findings& checks);
// A pod with Tranche's labels; `doubt`: why the check does not trust the pod, "" = it does.
void check_pod(const nlohmann::json& pod, const std::string& doubt, Findings& checks);

// Compares the Node object with the agent's status: configuration, resources, labels.
void check_node_against_agent(const nlohmann::json& node, const nlohmann::json& node_status, Findings& checks);

// Compares the driver's GPUs with the agent's status.
void check_hardware(const gpu::Inventory& hardware, const nlohmann::json& node_status, Findings& checks);

// Probes that ran inside a grant, judged by its limits.

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

// Probes as pods, for a check of a node from outside: decides by the node agent's status which pods to create, and
// judges their logs.

inline constexpr const char* kRunLabel = "tranche.io/verify";  // on every probe pod, with the name of the run
inline constexpr const char* kProbeContainer = "probe";
inline constexpr std::uint32_t kNeighbourUser = 65534;  // without rights; a trial runs as the image's user

struct ProbePod {
  std::string resource;
  std::string sms;         // of a slot, by GPU: "GPU-a=12,GPU-b=12"
  bool observed = false;   // the guard reports and does not end processes
  bool neighbour = false;  // it computes beside a trial
};

struct ProbePods {
  std::vector<ProbePod> pods;     // neighbours, then a trial for each GPU, if slots are free
  std::vector<std::string> gpus;  // UUIDs that the pods must reach
  Findings checks;                // about GPUs without a probe pod
};
ProbePods plan_probe_pods(const nlohmann::json& node_status);

std::string namespace_of(const nlohmann::json& pod);

struct ProbePodPlace {
  std::string node;
  std::string name;
  std::string run;
  const nlohmann::json& overrides;  // merged into the pod, its first container into each container; null: none
};
// With the image, pull secrets, runtime class and namespace of the pod `like`. kInvalid: that pod has no container.
Result<nlohmann::json> make_probe_pod(const nlohmann::json& like, const ProbePod& pod, const ProbePodPlace& place);

// Without the output, which is in the pod's log. Absent: it is under way; not started: kubelet refused the pod, or
// cannot pull its image.
std::optional<ProbeRun> run_of_pod(const nlohmann::json& pod);

// The JSON report in the log of a trial, which may hold other lines.
Result<Findings> checks_of_log(std::string_view log);

// "deep.other-user" and "deep.neighbour" for each of `gpus`, skipped for GPUs without a neighbour.
void judge_neighbours(const std::vector<ProbeRun>& runs, const std::vector<std::string>& gpus, Findings& checks);

}  // namespace tranche::doctor
