#pragma once
// A prepared claim → the CDI specification that its containers get it by: one device for each allocation result, all
// devices of a part alike, because a container that names the request gets all of them. Every edit can be applied twice
// to one container, as kubelets before 1.36.4 have it done. One device more, which no answer names and no container
// asks for, has the claim's record as its environment: annotations need a version of the specification that older
// runtimes refuse. Pure.
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cdi/spec.h"
#include "dra/prepare.h"
#include "grants/allocate/grant.h"

namespace tranche::dra {

// grants: one for each part of the claim, in their order (grants::ClaimPart).
cdi::Spec claim_spec(const PreparedClaim& claim, const std::vector<grants::Grant>& grants);
// The contents of such a file.
struct ReadClaimSpec {
  std::string driver;                                          // under whose name
  std::optional<PreparedClaim> claim;                          // absent: the record is damaged
  std::vector<std::pair<std::string, std::string>> endpoints;  // of its containers: MPS pool and grant
};
// nullopt: it is not the specification of a claim, or not under its name. Fuzzed.
std::optional<ReadClaimSpec> read_claim_spec(std::string_view file, std::string_view text);
bool is_claim_spec_file(std::string_view file);  // of any driver
bool is_claim_spec_file(std::string_view file, std::string_view uid);
std::string claim_spec_prefix(const std::string& driver);                        // of the files of all claims
std::string claim_spec_file(const std::string& driver, const std::string& uid);  // "gpu.tranche.io-claim_<uid>.json"
// "gpu.tranche.io/claim=<cdi_device_name()>"
std::string claim_cdi_id(const std::string& driver, const std::string& device_name);

}  // namespace tranche::dra
