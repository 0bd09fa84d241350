#pragma once
// Which names of NVIDIA's DCGM exporter /metrics/dcgm has: those before its release 4.9, or those since. Never both, so
// that no sum counts a GPU twice. Pure constants.
namespace tranche::agent {

enum class DcgmNames { kOff, kOld, kNew };

}  // namespace tranche::agent
