#pragma once
// The pods of this node as the API server reports them, and what each report changed. A pod that reappears under the
// same name with another uid is a different pod. Pure. One thread.
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "kube/pod.h"
#include "kube/watch_event.h"

namespace tranche::kube {

struct PodChange {
  enum class What {
    kNew,       // not known before
    kChanged,   // one of the fields that are read changed
    kDeleting,  // its deletion was seen for the first time
    kEnded,     // its phase became Succeeded or Failed
    kGone,      // no longer exists; `pod` is its last known state
  };
  What what = What::kNew;
  PodSeen pod;
  friend bool operator==(const PodChange&, const PodChange&) = default;
};
// The most important change, for callers that look at one only: a new pod that is already being deleted is kDeleting.
using PodChanges = std::vector<PodChange>;

class PodTable {
 public:
  PodChanges replace(std::vector<PodSeen> pods);  // after a complete list
  PodChanges apply(Change change, PodSeen pod);   // kAdded, kModified, kDeleted

  std::vector<PodSeen> pods() const;
  const PodSeen* find(const std::string& pod_namespace, const std::string& name) const;
  std::size_t size() const { return pods_.size(); }

 private:
  using Key = std::pair<std::string, std::string>;  // namespace, name
  void put(PodSeen pod, PodChanges& changes);

  std::map<Key, PodSeen> pods_;
};

}  // namespace tranche::kube
