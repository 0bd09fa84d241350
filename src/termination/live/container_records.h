#pragma once
// `<run-dir>/containers/<id>`: for each container with a grant, its endpoint, so that tranche-runtime can have the
// endpoint drained before it forwards a kill (docs/guide/stop-and-change.md). Like the endpoints, the files outlive
// this program. Loop thread.
#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "grants/allocate/grant.h"

namespace tranche::agent {

struct ContainerGrant {
  std::string id;  // the runtime's id; "containerd://…" from a pod's status is accepted too
  std::string pool;
  std::string grant;
  friend auto operator<=>(const ContainerGrant&, const ContainerGrant&) = default;
};

class ContainerRecords {
 public:
  // `paths`: the MPS root in the node's file system, where the runtime runs.
  ContainerRecords(const std::string& run_dir, allocate::Paths paths);

  // All present containers: writes missing files. The file of a container that is no longer listed stays for a minute,
  // because a force-deleted pod disappears before its containers are killed; or until another container has its grant.
  // Files from before this program's start count as present now. An id that is not a valid file name is skipped.
  Status follow(std::vector<ContainerGrant> containers, MonoTime now);

  std::size_t count() const { return kept_.size(); }

 private:
  struct Kept {
    std::string pool;
    std::string grant;
    MonoTime known;  // last time
  };
  Status adopt(MonoTime now);
  Status write(const std::string& id, const Kept& record);
  bool over(const std::string& id, const Kept& record, const std::vector<ContainerGrant>& containers,
            MonoTime now) const;

  std::string dir_;
  allocate::Paths paths_;
  std::map<std::string, Kept> kept_;  // by container id: the files in the folder
  bool adopted_ = false;
};

}  // namespace tranche::agent
