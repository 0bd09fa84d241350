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

struct Hooks {
  std::vector<Hook> apply_start;
  std::vector<Hook> pre_apply_mode;    // before the mode of a GPU changes
  std::vector<Hook> pre_apply_config;  // before instances change
  std::vector<Hook> apply_exit;        // always
  friend bool operator==(const Hooks&, const Hooks&) = default;
};

struct ParsedHooks {
  Hooks hooks;  // of use only without errors among the problems
  std::vector<Problem> problems;
};
ParsedHooks parse_hooks_file(std::string_view text, std::string_view source);

}  // namespace tranche::mig
