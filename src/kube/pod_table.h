#pragma once
// The pods of this node as the API server tells them, and what each piece of news changed. A pod that comes back under
// its name with another uid is another pod. Pure: `now` is passed in. One thread.
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
    kChanged,   // something of it that we look at
    kDeleting,  // its deletion was seen for the first time
    kEnded,     // its phase became Succeeded or Failed
    kGone,      // not there any more; `pod` is what was known last
  };
  What what = What::kNew;
  PodSeen pod;
  friend bool operator==(const PodChange&, const PodChange&) = default;
};
// In order of weight for whoever looks at one only: a new pod that is being deleted already is told as kDeleting.
using PodChanges = std::vector<PodChange>;

class PodTable {
 public:
  PodChanges replace(std::vector<PodSeen> pods, MonoTime now);  // after a whole list
  PodChanges apply(Change change, PodSeen pod, MonoTime now);   // kAdded, kModified, kDeleted

  std::vector<PodSeen> pods() const;
  const PodSeen* find(const std::string& pod_namespace, const std::string& name) const;
  std::size_t size() const { return pods_.size(); }

 private:
  using Key = std::pair<std::string, std::string>;  // namespace, name
  void put(PodSeen pod, MonoTime now, PodChanges& changes);

  std::map<Key, PodSeen> pods_;
};

}  // namespace tranche::kube
