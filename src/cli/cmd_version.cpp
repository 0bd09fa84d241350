#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "base/version.h"
#include "cli/commands.h"

namespace tranche::cli {

void add_version(CLI::App& app, Process&) {
  app.add_subcommand("version", "the version of this program")->callback([] { fmt::print("tranche {}\n", kVersion); });
}

}  // namespace tranche::cli
