#pragma once
// `tranche demo`: a simulated node on any computer. Starts the stand-ins and the real `tranche mps` and `tranche node`
// as processes in a scratch directory, lets a kubelet stand-in admit pods of several sizes, and shows the result. This
// program simulates nothing itself: it only starts programs, draws, and cleans up.
#include <cstdint>
#include <string>

namespace tranche::programs {

struct DemoOptions {
  std::string profile = "H200";
  std::uint32_t gpus = 4;
  std::uint32_t slots = 10;
  std::string config_file;  // "" = MPS with `slots` slots per GPU
  std::string pods_file;    // "" = the built-in pods
  std::string standins;     // "" = ../standins beside the program
  bool once = false;        // print one report once everything has settled, then exit
  bool json = false;
  bool keep = false;  // do not delete the scratch directory
};

// Returns 0, or 1 if something did not start in time; the report then names it.
int run_demo(const DemoOptions& options);

}  // namespace tranche::programs
