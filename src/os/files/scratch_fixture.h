#pragma once
// For tests of host/*: a directory of the test's own, removed with the object. Its path is short, because socket paths
// are limited to 107 bytes.
#include <stdlib.h>

#include <string>

#include "os/files/files.h"

namespace tranche::os {

class Scratch {
 public:
  Scratch() {
    char pattern[] = "/tmp/tr-XXXXXX";
    CHECK_THAT(::mkdtemp(pattern) != nullptr, "cannot make a directory for a test");
    path_ = pattern;
  }
  ~Scratch() {
    if (const auto tmp = Dir::open("/tmp")) (void)tmp->remove_tree(path_.substr(5));
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  const std::string& path() const { return path_; }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

}  // namespace tranche::os
