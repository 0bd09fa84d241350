#pragma once
// Containers that hold slots of several MPS pools. Each answer to kubelet names one endpoint, kubelet merges the
// answers of a container, and a CUDA process connects to one daemon: its slots of the other pools are idle. A single
// answer does not show it, so it is found once kubelet has named the container (the plan warns before that). Pure.
#include <set>
#include <span>
#include <string>
#include <vector>

namespace tranche::agent {

// The container that holds an endpoint, as reported by kubelet.
struct HeldEndpoint {
  std::string pod_namespace = {};
  std::string pod = {};  // "": any pod that uses the claim
  std::string container = {};
  std::string pool = {};
  std::string grant = {};
  std::string claim = {};  // of the holding; `container` is then the claim's request
};

struct SplitContainer {
  HeldEndpoint one;                // of its endpoints
  std::vector<std::string> pools;  // two at least, sorted
  std::string message;             // for its pod
};

class SplitContainers {
 public:
  // The containers that were not reported yet, of all endpoints that are held now. One that is gone is forgotten.
  std::vector<SplitContainer> look(std::span<const HeldEndpoint> endpoints);

 private:
  std::set<std::string> reported_;
};

}  // namespace tranche::agent
