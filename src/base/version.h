#pragma once
// The version of this build, from CMakeLists.txt.
namespace tranche {

inline constexpr const char* kVersion = TRANCHE_VERSION;

}  // namespace tranche
