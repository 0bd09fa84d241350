#include "cli/label_output_option.h"

#include <CLI/CLI.hpp>

#include "base/text.h"
#include "cli/setting_options.h"

namespace tranche::cli {

void add_label_output(CLI::App& command, std::string& value, const std::vector<std::string>& words) {
  add_own_option(command, "--label-output", value, "where node labels are written: " + join(words, ", "))
      .check(CLI::IsMember(words));
}

agent::LabelOutput label_output_of(const std::string& word) {
  using agent::LabelOutput;
  for (const auto output : {LabelOutput::kStdout, LabelOutput::kFile, LabelOutput::kNodeFeature, LabelOutput::kNode})
    if (to_string(output) == word) return output;
  return LabelOutput::kNone;
}

}  // namespace tranche::cli
