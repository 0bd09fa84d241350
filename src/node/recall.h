#pragma once
// State that the node agent stored for its next start (docs/reference/paths.md, "State across restarts"). Loop thread.
#include <string>

namespace tranche::agent {

// The text of `<run_dir>/<name>`; "" if there is none. An unusable file is renamed and logged, together with the effect
// of the loss.
std::string recall(const std::string& run_dir, const std::string& name, const std::string& effect);
// Logs that some lines of it could not be parsed, unless all could.
void log_if_partial(const std::string& run_dir, const std::string& name, bool all);

}  // namespace tranche::agent
