#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "base/json_text.h"
#include "base/version.h"
#include "cli/commands.h"

namespace tranche::cli {

// Of the sources, from cmake/revision.cmake; "": not known.
extern const char *const kRevision, *const kRevisionDate;

std::string version_text() {
  std::string text = std::string("tranche ") + kVersion;
  if (*kRevision != '\0') text += std::string(" commit ") + kRevision;
  if (*kRevisionDate != '\0') text += std::string(" of ") + kRevisionDate;
  return text;
}

void add_version(CLI::App& app, Process&) {
  auto json = std::make_shared<bool>(false);
  auto* command = app.add_subcommand("version", "version, commit and date of this program");
  command->add_flag("--json", *json, "the same as JSON");
  command->callback([json] {
    const nlohmann::ordered_json all{{"version", kVersion}, {"commit", kRevision}, {"date", kRevisionDate}};
    fmt::print("{}\n", *json ? json_text(all, 2) : version_text());
  });
}

}  // namespace tranche::cli
