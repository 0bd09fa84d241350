#pragma once
// Finds nvidia-cuda-mps-control and reads its version and whether one server can serve all users (-M). Loop thread.
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "mps/control/control_client.h"
#include "os/loop/loop.h"

namespace tranche::mps {

using ProcessEnvironment = std::map<std::string, std::string>;

struct ControlBinary {
  std::string path;
  ProcessEnvironment env;  // the part of our environment that it gets
  int version = 0;         // 13000; 0 = not reported
  bool offers_multiuser = false;
};

struct BinarySearch {
  std::string given;              // --mps-control: only this path
  std::string driver_root = "/";  // container path of the driver root
  std::string path;               // $PATH
};
// The paths to try, in order.
std::vector<std::string> candidates(const BinarySearch& search);
// kNotFound lists every path that was tried.
Result<std::string> find_control_binary(const BinarySearch& search);

// The part of our environment that MPS programs get: the paths of libraries and programs, and variables of this project
// (TRANCHE_*). Nothing else, because a CUDA variable of ours would become a setting of theirs. Pure.
ProcessEnvironment handed_on(const ProcessEnvironment& ours);

// Runs the program with -h and -v. Dropping the handle cancels the question.
std::unique_ptr<Question> describe_control_binary(os::Loop& loop, std::string path, ProcessEnvironment env,
                                                  std::function<void(Result<ControlBinary>)> done);

}  // namespace tranche::mps
