#pragma once
// Why a test cannot start programs of this build as another user; "" = it can.
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>

namespace tranche {

inline std::string why_no_other_user() {
  if (::geteuid() != 0) return "needs root to become another user";
  const std::filesystem::path build = std::getenv("TRANCHE_BUILD");
  for (auto folder = build; folder != folder.root_path(); folder = folder.parent_path()) {
    if ((std::filesystem::status(folder).permissions() & std::filesystem::perms::others_exec) ==
        std::filesystem::perms::none)
      return "no other user may enter " + folder.string();
  }
  return "";
}

}  // namespace tranche
