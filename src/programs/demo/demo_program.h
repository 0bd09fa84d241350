#pragma once
// `tranche demo`: a simulated node on any laptop. Starts the stand-ins and the real `tranche mps` and `tranche node` as
// processes in a scratch directory, lets a kubelet double admit pods of several sizes, and shows what happens. Nothing
// is simulated in here: this only starts programs, draws, and cleans up after itself.
#include <cstdint>
#include <string>

namespace tranche::agent {

struct DemoOptions {
  std::string profile = "H200";
  std::uint32_t gpus = 4;
  std::uint32_t slots = 10;
  std::string config_file;  // "" = MPS with `slots` slots a GPU
  std::string pods_file;    // "" = the built-in pods
  std::string standins;     // "" = ../standins beside the program, or ../libexec/tranche/standins
  bool once = false;        // one report when everything has settled, then leave
  bool json = false;
  bool keep = false;                  // leave the scratch directory for a look
  int width = 0;                      // of the terminal; 0 = standard output is none
  std::uint32_t settle_seconds = 30;  // give up waiting after this
};

// 0, or 1 when something did not come up in time: then the report says what.
int run_demo(const DemoOptions& options);

}  // namespace tranche::agent
