#pragma once
// What the node agent kept for itself before it was started anew (docs/reference/paths.md, "State across restarts").
// Loop thread.
#include <string>

namespace tranche::agent {

// The text of `<run_dir>/<name>`; "" when there is none. A file that cannot be used is put aside and logged, with what
// follows from the loss.
std::string recall(const std::string& run_dir, const std::string& name, const std::string& effect);
// Logs that some lines of it were not understood, unless all were.
void tell_if_partly(const std::string& run_dir, const std::string& name, bool all);

}  // namespace tranche::agent
