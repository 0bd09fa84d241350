#pragma once
// --label-output, shared by `tranche labels` and `tranche node`.
#include <string>
#include <vector>

#include "labels/live/label_output.h"

namespace CLI {
class App;
}

namespace tranche::cli {

// `words`: the values that this command accepts; `value` holds its default.
void add_label_output(CLI::App& command, std::string& value, const std::vector<std::string>& words);
agent::LabelOutput label_output_of(const std::string& word);  // one of them

}  // namespace tranche::cli
