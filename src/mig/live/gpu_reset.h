#pragma once
// Resets one GPU as an administrator does, with nvidia-smi of the driver's root: the driver library has no call for it.
// nvidia-smi refuses while a program uses the GPU. Loop thread only.
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "base/result.h"
#include "os/loop/loop.h"
#include "os/process/process.h"

namespace tranche::mig {

class GpuReset {
 public:
  // done: nothing on success, otherwise why not; in a callback of its own. Ends the program when it runs too long.
  GpuReset(os::Loop& loop, std::map<std::string, std::string> environment, std::function<void(Status)> done);
  // kNotFound: the driver root has no nvidia-smi.
  Status start(const std::string& driver_root, const std::string& gpu_uuid);

 private:
  os::Loop& loop_;
  std::map<std::string, std::string> environment_;
  std::function<void(Status)> done_;
  std::string last_;
  os::Timer patience_{loop_};
  std::unique_ptr<os::Process> process_;
};

}  // namespace tranche::mig
