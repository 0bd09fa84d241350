#pragma once
// Private to src/simulate: the objects of resource.k8s.io and what pods say of claims. Unlike other objects, these are
// read strictly: an unknown key is an error, as it is to kubectl, for a claim with a misspelt key asks for something
// that was not meant.
#include <cstddef>
#include <string_view>
#include <utility>
#include <vector>

#include "config/document/fields.h"
#include "simulate/claims.h"
#include "simulate/pods.h"

namespace tranche::simulate {

// kind: ResourceClaim, ResourceClaimTemplate or DeviceClass; others are left to the caller.
bool is_claim_object(std::string_view kind);

class ClaimReader {
 public:
  void read(std::string_view kind, const config::Value& object);
  ClaimObjects take() { return std::move(objects_); }

 private:
  std::vector<Selector> read_selectors(const config::Value& mapping);
  DeviceAsk read_ask(const config::Value& value, bool one_of_several);
  void read_request(const config::Value& item, ClaimSpec& spec);
  std::vector<OpaqueAsk> read_configs(const config::Value& mapping, bool from_class);
  ClaimSpec read_spec(const config::Value& object, const config::Value& spec);
  bool has_room(std::size_t bytes, const config::Value& at);

  ClaimObjects objects_;
  // A text that refers to itself can be read into far more than its size.
  std::size_t room_ = std::size_t{64} << 20;
  bool full_ = false;
};

std::vector<PodClaim> read_pod_claims(const config::Value& pod_spec);
std::vector<ClaimUse> read_claim_uses(const config::Value& container, const std::vector<PodClaim>& claims);

}  // namespace tranche::simulate
