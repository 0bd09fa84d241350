#pragma once
// Private to kube/client: the bearer token of a file that is replaced while the program runs (kubelet renews a pod's at
// least every hour). Checks the file before every request and reads it if it was replaced or changed. Never logged.
#include <sys/types.h>

#include <ctime>
#include <string>

#include "base/result.h"

namespace tranche::kube {

class Token {
 public:
  // `fixed` is used if `path` is empty.
  Token(std::string path, std::string fixed) : path_(std::move(path)), text_(std::move(fixed)) {}

  Result<std::string> get();        // "" if there is neither
  void doubt() { known_ = false; }  // it was refused: read the file again even if it looks unchanged

 private:
  std::string path_;
  std::string text_;
  bool known_ = false;
  ino_t inode_ = 0;
  dev_t device_ = 0;
  off_t size_ = 0;
  timespec changed_{};
};

}  // namespace tranche::kube
