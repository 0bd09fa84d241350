#pragma once
// Private to kube/client: the bearer token of a file that is replaced while we run (kubelet renews a pod's every hour
// at least). Looked at before every request, read when it is another file or changed. Never logged.
#include <sys/types.h>

#include <ctime>
#include <string>

#include "base/result.h"

namespace tranche::host {

class Token {
 public:
  // `fixed` counts when there is no path.
  Token(std::string path, std::string fixed) : path_(std::move(path)), text_(std::move(fixed)) {}

  Result<std::string> get();        // "" when there is neither
  void doubt() { known_ = false; }  // it was refused: read it again whatever the file looks like

 private:
  std::string path_;
  std::string text_;
  bool known_ = false;
  ino_t inode_ = 0;
  dev_t device_ = 0;
  off_t size_ = 0;
  timespec changed_{};
};

}  // namespace tranche::host
