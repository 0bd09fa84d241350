#pragma once
// Private to doctor/reset: finds everything that is to be removed before it removes the first, so that a dry run lists
// exactly what a real run removes.
#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "doctor/reset/reset_program.h"

namespace tranche::doctor {

// A file, label or setting of Tranche.
struct Trace {
  std::string what;                // "the CDI spec /var/run/cdi/…": follows "removed" in a sentence
  std::function<Status()> remove;  // may be called once
};
using Traces = std::vector<Trace>;

// Whether the path exists; a link counts, whatever its target.
bool is_there(const std::string& path);

// `problems` gets what belongs to others or could not be read.
void find_files(const ResetOptions& options, const std::string& mps_root, Traces& traces,
                std::vector<std::string>& problems);
void find_on_node_object(const ResetOptions& options, Traces& traces, std::vector<std::string>& problems);

}  // namespace tranche::doctor
