#pragma once
// The file in which `tranche mps` reads the devices that are held without it (mps/protocol/other_holders.h). Loop
// thread only.
#include <optional>
#include <set>
#include <string>
#include <utility>

namespace tranche::agent {

struct HeldWithoutMps {
  std::set<std::string> devices;  // held without MPS, or of no container and to be removed by the MIG manager
  bool known = false;             // that these are all
};

class OtherHoldersFile {
 public:
  // `mps_root` is where the MPS directory is for this process.
  explicit OtherHoldersFile(std::string mps_root) : mps_root_(std::move(mps_root)) {}

  void keep(const HeldWithoutMps& holders);

 private:
  std::string mps_root_;
  std::optional<std::set<std::string>> written_;
  std::string problem_;  // as it was logged
};

}  // namespace tranche::agent
