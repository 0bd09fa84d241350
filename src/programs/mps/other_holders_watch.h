#pragma once
// Follows the file in which the node agent says which devices containers hold without MPS
// (mps/protocol/other_holders.h). Loop thread only.
#include <functional>
#include <memory>
#include <set>
#include <string>

#include "os/files/watch.h"
#include "os/loop/loop.h"

namespace tranche::agent {

class OtherHolders {
 public:
  // on_change: a turn of the loop, after devices() changed. The file may come later, or never.
  OtherHolders(host::Loop& loop, std::string mps_root, std::function<void()> on_change);

  // Reads it now, as whoever has read a configuration must: the holders were written before it, and word of them may
  // come after word of it. on_change comes within this call.
  void look();

  const std::set<std::string>& devices() const { return devices_; }

 private:
  void read();

  std::string mps_root_;
  std::function<void()> on_change_;
  std::set<std::string> devices_;
  std::unique_ptr<host::DirWatch> watch_;
};

}  // namespace tranche::agent
