#pragma once
// Pods that kubelet does not list though they run. For seconds after its own start, kubelet answers and has not read
// the API server's pods yet: it lists no pod. What such a pod holds stays as it was, so that names, figures, and the
// stop of its clients before a deletion do not wait for kubelet. Pure; one thread.
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "kube/pod_table.h"
#include "kubelet/pod_resources.h"

namespace tranche::agent {

class LatePods {
 public:
  // Adds to kubelet's answer what it had listed before for pods that are not in it, that the API server reports as
  // running still, and whose slots no other container holds now. True when there is one: kubelet will list it.
  // `pods` must be current: with what the API server reported long ago, a pod that is gone would hold its slots.
  bool complete(std::vector<host::PodHolding>& listed, const std::vector<host::PodHolding>& before,
                const kube::PodTable& pods);

 private:
  using Key = std::pair<std::string, std::string>;  // namespace, name
  std::map<Key, std::string> uids_;  // of the pods that were listed: one of the same name may be another pod
};

}  // namespace tranche::agent
