#pragma once
// Another program with a socket where ours should be: it listens, and accepts nothing. With `listening` false it is
// what a crash leaves behind: a socket file that refuses.
#include <string>

#include "os/loop/fd.h"

namespace tranche::contract {

class ForeignPlugin {
 public:
  ForeignPlugin(const std::string& path, bool listening);  // replaces what is there, as careless plugins do
  void leave_without_cleaning_up() { fd_.reset(); }

 private:
  os::Fd fd_;
};

}  // namespace tranche::contract
