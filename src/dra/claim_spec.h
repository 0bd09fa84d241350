#pragma once
// A prepared claim → the CDI specification that its containers get it by: one device for each allocation result, all
// devices of a part alike, because a container that names the request gets all of them. Every edit can be applied twice
// to one container, as kubelets before 1.36.4 have it done. Pure.
#include <string>
#include <vector>

#include "allocate/grant.h"
#include "cdi/spec.h"
#include "dra/prepare.h"

namespace tranche::dra {

// grants: one for each part of the claim, in their order (allocate::ClaimPart).
cdi::Spec claim_spec(const std::string& driver, const PreparedClaim& claim, const std::vector<allocate::Grant>& grants);
std::string claim_spec_prefix(const std::string& driver);                        // of the files of all claims
std::string claim_spec_file(const std::string& driver, const std::string& uid);  // "gpu.tranche.io-claim_<uid>.json"
// "gpu.tranche.io/claim=<cdi_device_name()>"
std::string claim_cdi_id(const std::string& driver, const std::string& device_name);

}  // namespace tranche::dra
