#pragma once
// Private to doctor/reset: what is to be taken away, found first and then removed one by one, so that a dry run lists
// exactly what a real one does.
#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "doctor/reset/reset_program.h"

namespace tranche::doctor {

// Something of ours that is there.
struct Trace {
  std::string what;                // "the CDI spec /var/run/cdi/…": reads on after "removed"
  std::function<Status()> remove;  // once
};
using Traces = std::vector<Trace>;

// Whether the path names something; a link counts, wherever it leads.
bool is_there(const std::string& path);

// `problems` gets what is not ours to remove or could not be looked at.
void find_files(const ResetOptions& options, const std::string& mps_root, Traces& traces,
                std::vector<std::string>& problems);
void find_on_node_object(const ResetOptions& options, Traces& traces, std::vector<std::string>& problems);

}  // namespace tranche::doctor
