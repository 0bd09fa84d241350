#pragma once
// The prepared claims of a node as its status document has them (docs/reference/status.md, `dra`), with who holds each
// and whether its limits are enforced: for the programs that show or check a node. The document comes from a different
// process and is not trusted. Pure.
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

namespace tranche::dra {

// What one request of a claim has of one GPU.
struct ShownPart {
  std::string claim;  // "team/train"
  std::string uid;
  std::string holder;  // "team/one", the pod it was made for; "" = several pods may use it
  std::string request;
  std::string device;  // "gpu-0-shared"
  std::string gpu;     // its UUID
  std::string kind;    // "shared", "gpu", "monitor", "mig"
  std::string grant;   // the endpoint
  // For people: "6144 MiB, 30 SMs (20 cores)", "all of it", "nothing of it"; and those of each process.
  std::string limits;
  std::uint64_t limit_mib = 0;  // 0: not limited
  std::uint64_t cores = 0;
  std::optional<std::uint64_t> used_mib;
  // "yes"; "partly": each process is limited, and their sum is not; "no"; "": there is no limit.
  std::string enforced;
  std::string why;  // not
};
std::vector<ShownPart> claims_shown(const nlohmann::json& status);

// What is wrong with the serving of claims, one sentence each with its remedy; none where all is well or claims are
// not configured.
struct ServingFault {
  std::string what;
  std::string remedy;
};
std::vector<ServingFault> serving_faults(const nlohmann::json& status);

}  // namespace tranche::dra
