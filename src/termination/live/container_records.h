#pragma once
// `<run-dir>/containers/<id>`: for each container that holds a grant, which endpoint it has, so that tranche-runtime
// can have it drained before it hands a kill on (docs/guide/stop-and-change.md). The files outlive this program, as the
// endpoints do. Loop thread.
#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "grants/allocate/grant.h"

namespace tranche::agent {

struct ContainerGrant {
  std::string id;  // as the runtime knows it; "containerd://…" as in a pod's status is understood
  std::string pool;
  std::string grant;
  friend auto operator<=>(const ContainerGrant&, const ContainerGrant&) = default;
};

class ContainerRecords {
 public:
  // `paths`: the MPS root as the node sees it, since the runtime runs there.
  ContainerRecords(const std::string& run_dir, allocate::Paths paths);

  // All that are known now: writes what is missing. What is not among them any more stays for a minute, since a pod
  // that is deleted by force is forgotten before its containers are killed; or until another container has its grant.
  // Files from before our start count as known until now. An id that is no file's name is left out.
  Status follow(std::vector<ContainerGrant> containers, MonoTime now);

  std::size_t count() const { return kept_.size(); }

 private:
  struct Kept {
    std::string pool;
    std::string grant;
    MonoTime known;  // for the last time
  };
  Status adopt(MonoTime now);
  Status write(const std::string& id, const Kept& record);
  bool over(const std::string& id, const Kept& record, const std::vector<ContainerGrant>& containers,
            MonoTime now) const;

  std::string dir_;
  allocate::Paths paths_;
  std::map<std::string, Kept> kept_;  // by container id: what lies in the folder
  bool adopted_ = false;
};

}  // namespace tranche::agent
