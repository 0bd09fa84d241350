#pragma once
// Finds nvidia-cuda-mps-control and learns what it can: its version, and whether one server may serve all users (-M).
// Loop thread.
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "host/loop/loop.h"
#include "host/mps/control_client.h"

namespace tranche::host {

struct ControlBinary {
  std::string path;
  std::map<std::string, std::string> env;  // LD_LIBRARY_PATH and PATH, if they are set for us
  int version = 0;                         // 13000; 0 = it would not say
  bool offers_multiuser = false;
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

// What every MPS program gets of our environment: LD_LIBRARY_PATH and PATH, where set.
std::map<std::string, std::string> inherited_environment();

// Runs it with -h and -v and tells; the returned handle withdraws the question.
std::unique_ptr<Question> describe_control_binary(Loop& loop, std::string path,
                                                  std::function<void(Result<ControlBinary>)> done);

}  // namespace tranche::host
