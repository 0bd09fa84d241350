#pragma once
// mig-parted's hooks file: commands that run around a change of `nvidia-mig-parted apply`. Pure.
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/problem.h"

namespace tranche::mig {

struct Hook {
  std::string command;
  std::vector<std::string> args;
  std::map<std::string, std::string> envs;
  std::string workdir;
  friend bool operator==(const Hook&, const Hook&) = default;
};

// By stage: "apply-start"; "pre-apply-mode": before the mode of a GPU changes; "pre-apply-config": before instances
// change; "apply-exit": always.
using Hooks = std::map<std::string, std::vector<Hook>>;

struct ParsedHooks {
  Hooks hooks;  // of use only without errors among the problems
  std::vector<Problem> problems;
};
ParsedHooks parse_hooks_file(std::string_view text, std::string_view source);

}  // namespace tranche::mig
