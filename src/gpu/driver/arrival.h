#pragma once
// Notices that the driver's module was loaded: its control device appears under /dev. Only a hint that ends a wait
// early; without inotify the back-off finds the driver too. One thread.
#include <string>

#include "os/loop/fd.h"

namespace tranche::host::nvml {

class Arrival {
 public:
  explicit Arrival(const std::string& system_root);
  int fd() const { return inotify_.get(); }  // readable when something appeared; -1 when it cannot be watched
  bool seen();                               // nvidiactl was among it

 private:
  Fd inotify_;
};

}  // namespace tranche::host::nvml
