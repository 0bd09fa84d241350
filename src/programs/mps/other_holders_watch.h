#pragma once
// Watches the file in which the node agent lists the devices that containers hold without MPS
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
  // on_change: runs on the loop after devices() has changed. The file may appear later, or never.
  OtherHolders(host::Loop& loop, std::string mps_root, std::function<void()> on_change);

  // Reads the file now. Required after reading a configuration: the holders were written before it, but the
  // notification may come after that of the configuration. on_change runs inside this call.
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
