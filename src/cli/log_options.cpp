#include <unistd.h>

#include <CLI/CLI.hpp>

#include "cli/commands.h"
#include "cli/setting_options.h"
#include "os/log/log.h"

namespace tranche::cli {

void add_log_options(CLI::App& command, LogOptions& options) {
  add_own_option(command, "--log-format", options.format, "auto (text on a terminal, else json), text or json")
      .check(CLI::IsMember({"auto", "text", "json"}));
  add_own_option(command, "--log-level", options.level, "debug, info, warning or error")
      .check(CLI::IsMember({"debug", "info", "warning", "error"}));
}

void apply(const LogOptions& options) {
  const bool text = options.format == "text" || (options.format == "auto" && ::isatty(STDERR_FILENO) != 0);
  const auto level = options.level == "debug"     ? log::Level::kDebug
                     : options.level == "warning" ? log::Level::kWarning
                     : options.level == "error"   ? log::Level::kError
                                                  : log::Level::kInfo;
  log::configure(text ? log::Format::kText : log::Format::kJson, level);
}

}  // namespace tranche::cli
