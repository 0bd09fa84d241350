#include <algorithm>
#include <map>

#include "base/text.h"
#include "config/document/duration.h"
#include "config/document/scalar.h"
#include "config/keys.h"
#include "config/parse/parse_entry.h"
#include "config/parse/parse_shares.h"
#include "config/parse/sections.h"

namespace tranche::config {
namespace {

void warn_of_repeats(const std::vector<SharedResource>& resources, const Value& list) {
  std::map<std::string, const SharedResource*> last;
  for (const auto& resource : resources) {
    const SharedResource*& slot = last[resource.name];
    if (slot != nullptr)
      Value(&list.node(), list.path(), slot->place, list.findings())
          .warn("names " + resource.name + " here and again in line " + std::to_string(resource.place.line) +
                    ", and only the last one counts",
                "remove one of the two");
    slot = &resource;
  }
}

// With perDevice, entries divide the devices of a name among them; only one of them can have those that no other names.
void refuse_two_rests(const std::vector<SharedResource>& resources, const Value& section) {
  std::map<std::string, const SharedResource*> rest;
  for (const auto& resource : resources) {
    if (!std::holds_alternative<AllDevices>(resource.devices)) continue;
    const SharedResource*& first = rest[resource.name];
    if (first != nullptr)
      Value(&section.node(), section.path(), resource.place, section.findings())
          .error("shares all devices of " + resource.name + ", as the entry in line " +
                     std::to_string(first->place.line) + " does",
                 "write in one of the two which devices are meant: devices: [0, 1]");
    else
      first = &resource;
  }
}

// renameByDefault, failRequestsGreaterThanOne and resources of one section; fills in the rest of `rules`.
Sharing parse_section(const Value& section, const Fields& f, EntryRules rules, bool needs_resources) {
  Sharing sharing;
  sharing.strategy = rules.strategy;
  sharing.per_device = rules.per_device;
  sharing.fail_requests_greater_than_one = rules.strategy == SharingStrategy::kMps;
  f["renameByDefault"].read(sharing.rename_by_default);
  f["failRequestsGreaterThanOne"].read(sharing.fail_requests_greater_than_one);
  rules.rename_by_default = sharing.rename_by_default;
  if (!sharing.fail_requests_greater_than_one) rules.most_slots = kMostSlots;
  const Value list = f["resources"];
  const char* remedy = "write resources: [{name: nvidia.com/gpu, replicas: 4}]";
  const bool empty = !list.given() || (list.node().kind == Node::Kind::kSequence && list.node().items.empty());
  if (empty && needs_resources) {
    (list.absent() ? section : list).error("no resources specified", remedy);
  } else if (!empty && list.node().kind != Node::Kind::kSequence) {
    list.wrong_type("a list", remedy);
  } else if (!empty) {
    for (const Value& item : list.entries()) {
      if (section.findings().problems.over()) break;
      if (auto entry = parse_entry(item, rules)) sharing.resources.push_back(*std::move(entry));
    }
    if (!rules.per_device) warn_of_repeats(sharing.resources, list);
  }
  return sharing;
}

std::optional<Sharing> parse_time_slicing(const Value& section, bool per_device) {
  if (section.absent()) return std::nullopt;
  const char* remedy = "write resources: [{name: nvidia.com/gpu, replicas: 4}] below it, or remove it";
  if (section.null()) {
    section.error("has nothing below it, so that it shares nothing", remedy);
    return std::nullopt;
  }
  if (section.node().kind != Node::Kind::kMapping) {
    section.wrong_type("a mapping", remedy);
    return std::nullopt;
  }
  const Fields f(section);
  return parse_section(section, f, {.strategy = SharingStrategy::kTimeSlicing, .per_device = per_device}, true);
}

// A number of clients.
void read_clients(const Value& value, std::uint32_t& into, const char* remedy) {
  if (!value.given()) return;
  value.note_given();
  const auto count = value.integer();
  if (!count) return;
  if (*count < 1 || *count > kMostClients)
    return value.error("must be from 1 to " + std::to_string(kMostClients) + ", but is " + std::to_string(*count),
                       remedy);
  into = static_cast<std::uint32_t>(*count);
}

// 0 disables it; more often than every ten seconds, a pool would do little else.
void read_proof_every(const Value& value, Duration& into) {
  if (!value.given()) return;
  value.note_given();
  const char* remedy = "write for example 10m, or 0 for no proofs";
  if (value.node().kind != Node::Kind::kScalar) return value.wrong_type("a duration", remedy);
  const Scalar scalar = scalar_of(value.node());
  const auto* number = std::get_if<std::int64_t>(&scalar);
  const auto* text = std::get_if<std::string>(&scalar);
  if (number == nullptr && text == nullptr) return value.wrong_type("a duration", remedy);
  const auto duration = number != nullptr && *number == 0 ? std::optional<Duration>(Duration{})
                        : text != nullptr                 ? parse_duration(*text)
                                                          : std::nullopt;
  constexpr Duration kShortest = std::chrono::seconds(10);
  if (!duration || *duration == kInfinite || (*duration != Duration{} && *duration < kShortest)) {
    return value.error("must be 0 or a duration of at least 10s, but is " + in_quotes(value.node().text), remedy);
  }
  into = *duration;
}

// Unquoted "off" is the boolean false in YAML 1.1; here it can only mean the word.
void read_sm_rounding(const Value& value, SmRounding& into) {
  if (!value.given()) return;
  if (value.node().kind == Node::Kind::kScalar && scalar_of(value.node()) == Scalar{false}) {
    value.note_given();
    into = SmRounding::kOff;
  } else {
    value.read_word(into, kSmRoundings);
  }
}

// A fork's switch: without it, that fork sets no memory limit.
void read_enable_memory_limit(const Fields& f, MemoryPolicy& into) {
  const Value value = f["enableMemoryLimit"];
  if (!value.given()) return;
  const auto on = value.boolean();
  if (!on) return;
  if (f["memory"].given()) return value.ignored("has no effect beside memory", "remove it");
  if (*on) return;
  into = {.kind = MemoryPolicy::Kind::kOpen};
  value.warn("is a fork's word for memory: open, under which a container can take all of a GPU's memory",
             "write memory: open if that is meant, or remove it");
}

// Earlier builds had other tiers, which no hardware has run.
void check_tier(const Value& value) {
  if (!value.given()) return;
  const auto word = value.plain_text();
  if (word != "auto" && word != "v2")
    value.error("must be auto or v2, the only tier, but is " + in_quotes(value.node().text),
                "remove the key, or write auto or v2");
}

// Earlier builds could also change a GPU at once, under its containers.
void check_change(const Value& value) {
  if (!value.given() || value.plain_text() == "wait") return;
  value.error("must be wait, but is " + in_quotes(value.node().text) +
                  " (force, which took their shares from running containers, is gone)",
              "remove the key; to change a GPU at once, delete the pods that hold it: tranche status names them");
}

std::optional<Sharing> parse_mps(const Value& section, const Individual& individual, bool per_device) {
  if (!section.given()) return std::nullopt;
  if (section.node().kind != Node::Kind::kMapping) {
    section.wrong_type("a mapping", "write resources: [{name: nvidia.com/gpu, replicas: 4}] below it");
    return std::nullopt;
  }
  const Fields f(section);
  EntryRules rules{.strategy = SharingStrategy::kMps, .per_device = per_device};
  read_threads(f["threads"], rules.threads);
  read_memory(f["memory"], rules.memory);
  read_enable_memory_limit(f, rules.memory);
  read_split(f["split"], rules.split);
  std::uint32_t max_clients = 0;
  std::uint32_t processes_per_slot = 1;
  read_clients(f["maxClients"], max_clients, "write how many clients one MPS server serves, or remove it");
  read_clients(f["processesPerSlot"], processes_per_slot,
               "write how many CUDA processes a container with one slot starts, or remove it");
  if (!individual.enabled)
    rules.most_slots = (max_clients != 0 ? max_clients : kMostClientsOfDrivers) / processes_per_slot;
  Sharing sharing = parse_section(section, f, rules, !individual.enabled || individual.gpus.empty());
  sharing.max_clients = max_clients;
  sharing.processes_per_slot = processes_per_slot;
  sharing.threads = rules.threads;
  sharing.memory = rules.memory;
  read_reserve(f["reserve"], sharing.reserve);
  f["computeMode"].read_word(sharing.compute_mode, kComputeModePolicies);
  read_proof_every(f["proofEvery"], sharing.proof_every);
  f["endpoint"].read_word(sharing.endpoint, kEndpointPolicies);
  check_tier(f["tier"]);
  f["migDevices"].read(sharing.mig_devices);
  read_duration(f["stopPatience"], sharing.stop_patience, kStopPatienceLeast, kStopPatienceMost,
                "write for example 2s");
  f["frameworkEnvironment"].read(sharing.framework_environment);
  parse_guard(f["guard"], sharing.guard);
  read_sm_rounding(f["smRounding"], sharing.sm_rounding);
  if (individual.enabled) apply_individual(individual, f["failRequestsGreaterThanOne"], rules, sharing);
  return sharing;
}

// With perDevice both sections are in effect: the MPS entries first, then the others.
Sharing side_by_side(Sharing mps, Sharing time_slicing) {
  mps.one_time_slice = time_slicing.fail_requests_greater_than_one;
  for (SharedResource& entry : time_slicing.resources) mps.resources.push_back(std::move(entry));
  return mps;
}

}  // namespace

void parse_sharing(const Value& section, const Individual& individual, Sharing& sharing) {
  const Fields f(section);
  bool per_device = false;
  check_change(f["change"]);
  f["perDevice"].read(per_device);
  per_device = per_device || individual.enabled;
  auto time_slicing = parse_time_slicing(f["timeSlicing"], per_device);
  auto mps = parse_mps(f["mps"], individual, per_device);
  if (mps && time_slicing && !per_device)
    f["timeSlicing"].warn("is ignored, because sharing.mps is given as well and MPS wins", "remove one of the two");
  if (mps && time_slicing && per_device)
    sharing = side_by_side(*std::move(mps), *std::move(time_slicing));
  else if (mps)
    sharing = *std::move(mps);
  else if (time_slicing)
    sharing = *std::move(time_slicing);
  else if (f["timeSlicing"].absent() && !f["mps"].given() && !section.node().members.empty())
    section.error("has neither timeSlicing nor mps with a value, so that every GPU stays whole",
                  "write one of them with resources: below it, or sharing: {} if whole GPUs are meant");
  sharing.per_device = per_device;
  if (per_device) refuse_two_rests(sharing.resources, section);
}

}  // namespace tranche::config
