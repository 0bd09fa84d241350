#pragma once
// The files about the grants of a pool: `<mps-root>/pools/<pool>/limits/<grant>` with the limits, an empty file
// `<grant>.any-pod` for an endpoint of several pods, or `<grant>.pod` with the UID of the only pod; beside the
// endpoints and not in them, so that no container ever sees them. Limits are written before the endpoint listens and go
// after it, so that there is never an endpoint whose limits were forgotten. Loop thread only.
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "grants/allocate/grant.h"
#include "mps/protocol/grant_limits.h"

namespace tranche::mps {

class GrantFiles {
 public:
  GrantFiles(const allocate::Paths& paths, const std::string& pool) : folder_(paths.pool(pool) + "/limits") {}

  // nullopt: the grant has no limits of its own. kInvalid: the file does not have the format that we write.
  Result<std::optional<GrantLimits>> limits(const std::string& grant) const;
  Status write_limits(const std::string& grant, const GrantLimits& limits) const;
  bool any_pod(const std::string& grant) const;     // clients of several pods may use the endpoint
  std::string pod(const std::string& grant) const;  // UID of the only pod that may use it; "": not known
  Status set_pods(const std::string& grant, bool any_pod, const std::string& pod) const;
  Status remove(const std::string& grant) const;  // all of them
  // Removes files of grants without an endpoint, which an interrupted start leaves. Tries all; returns the first error.
  Status sweep(const std::vector<std::string>& endpoints) const;

 private:
  Result<std::string> read(const std::string& name) const;
  Status write(const std::string& name, const std::string& text) const;
  Status remove_file(const std::string& name) const;  // also without the folder

  std::string folder_;
};

}  // namespace tranche::mps
