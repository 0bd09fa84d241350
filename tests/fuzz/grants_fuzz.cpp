// What a grant, a claim or a client says of itself, and what the guard reads.
#include <nlohmann/json.hpp>

#include "base/json_text.h"
#include "base/text.h"
#include "dra/claim_spec.h"
#include "dra/prepare.h"
#include "dra/prepared_fixture.h"
#include "fuzz/target.h"
#include "grants/grant_shares.h"
#include "guard/judge.h"
#include "mps/protocol/requests.h"

using namespace tranche;

// parse ∘ render is the identity on every id that is one, and device_of agrees with parse.
FUZZ(slot_id) {
  using namespace tranche::plan;
  const auto id = parse_slot_id(text);
  if (device_of(text).size() > text.size()) std::abort();
  if (!id) return;
  if (render(*id) != text || id->uuid != device_of(text)) std::abort();
}

// Any text as the agent's record of grants: what is read is written and read back the same.
FUZZ(grants_file) {
  const auto shares = tranche::grants::parse_shares(text);
  if (tranche::grants::parse_shares(tranche::grants::render_shares(shares)) != shares) std::abort();
}

// Any text as the file of stopped processes: what is read is written and read back the same.
FUZZ(stopped_file) {
  const auto stopped = tranche::guard::parse_stopped(text);
  if (tranche::guard::parse_stopped(tranche::guard::render_stopped(stopped)) != stopped) std::abort();
}

// Any text as a reply or a report of `tranche mps`: understood or refused, never more clients than were written.
FUZZ(mps_wire) {
  if (const auto reply = tranche::mps::read_reply(text)) {
    if (reply->size() > text.size()) std::abort();
    for (const auto& client : *reply)
      if (client.pid <= 0) std::abort();
  }
  if (const auto reports = tranche::mps::parse_pool_reports(text)) {
    for (const auto& [id, pool] : tranche::guard::pool_processes(*reports))
      if (pool.own.contains(0) || pool.grant_of.contains(0)) std::abort();
  }
}

// Any text as the API server's answer about a claim: what is read can be prepared or refused.
FUZZ(dra_claim) {
  namespace dra = tranche::dra;
  const auto read = dra::read_claim(text, {"team", "train", "u-1"}, "gpu.tranche.io");
  if (!read) {
    if (!tranche::fuzz::is_harmless(to_string(read.error()))) std::abort();
    return;
  }
  if (read->devices.empty()) std::abort();
  dra::Offered offered;
  dra::Device shared;
  shared.name = "gpu-0-shared";
  shared.kind = dra::Kind::kShared;
  shared.gpu_uuid = "GPU-1";
  shared.memory = tranche::gib(80);
  shared.sms = 132;
  offered.devices = {shared};
  offered.mps_pools = {{"GPU-1", "gpu-1"}};
  const auto made = dra::prepare(*read, offered, {});
  if (!made) {
    if (!fuzz::is_harmless(to_string(made.error()))) std::abort();
    return;
  }
  for (const auto& part : made->parts)
    if (part.limits.memory > shared.memory || part.cores > dra::kCoresAll) std::abort();
}

// Any text as an opaque configuration: what is read is within bounds, and a refusal can be shown.
FUZZ(dra_config) {
  namespace dra = tranche::dra;
  const auto read = dra::read_device_config(json_of(text), "config[0].opaque.parameters");
  if (!read) {
    if (!tranche::fuzz::is_harmless(to_string(read.error()))) std::abort();
    return;
  }
  if (read->threads > 100) std::abort();
  const bool mps = read->strategy == dra::DeviceConfig::Strategy::kMps;
  if (!mps && (read->threads != 0 || read->memory.value != 0 || !read->memory_on.empty())) std::abort();
  if (read->memory.value % tranche::mib(1).value != 0) std::abort();
  for (const auto& [device, limit] : read->memory_on)
    if (limit.value == 0 || limit.value % tranche::mib(1).value != 0) std::abort();
}

// Any text as the file of prepared claims: what is read is written and read back the same. A line of JSON alone is
// given the hash that it needs, so that the reader of records is reached. And any text as the specification of a claim.
FUZZ(dra_prepared) {
  namespace dra = tranche::dra;
  for (const auto& input : {std::string(text), tranche::hex16(tranche::stable_hash(text)) + " " + std::string(text)}) {
    const auto read = dra::parse_prepared(input);
    const auto again = dra::parse_prepared(dra::render_prepared(read.claims));
    if (again.claims != read.claims || !again.lost.empty()) std::abort();
  }
  (void)dra::read_claim_spec("gpu.tranche.io-claim_a.json", text);
}
