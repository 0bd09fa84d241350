#pragma once
// Finds nvidia-cuda-mps-control and learns what it can: its version, and whether one server may serve all users (-M).
// Loop thread.
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "mps/control/control_client.h"
#include "mps/daemon/tier.h"
#include "os/loop/loop.h"

namespace tranche::host {

using ProcessEnvironment = std::map<std::string, std::string>;

struct ControlBinary {
  std::string path;
  ProcessEnvironment env;  // what it gets of ours
  int version = 0;         // 13000; 0 = it would not say
  bool offers_multiuser = false;
  mps::Abilities abilities = {};  // which tiers it knows
};

struct BinarySearch {
  std::string given;              // --mps-control: this one and no other
  std::string driver_root = "/";  // container path of the driver root
  std::string path;               // $PATH
};
// The paths to try, in order.
std::vector<std::string> candidates(const BinarySearch& search);
// kNotFound names every place that was looked at.
Result<std::string> find_control_binary(const BinarySearch& search);

// What MPS programs get of our environment: where libraries and programs are, and what is named for this project
// (TRANCHE_*). Nothing else: a CUDA variable of ours would become a setting of theirs. Pure.
ProcessEnvironment handed_on(const ProcessEnvironment& ours);

// Runs it with -h and -v and tells; the returned handle withdraws the question.
std::unique_ptr<Question> describe_control_binary(Loop& loop, std::string path, ProcessEnvironment env,
                                                  std::function<void(Result<ControlBinary>)> done);

}  // namespace tranche::host
