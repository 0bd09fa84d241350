#pragma once
// Containers that hold slots of several MPS pools. Each answer to kubelet names one door, kubelet merges the answers of
// a container, and a CUDA process talks to one daemon: what the other pools hold for it lies idle. No single answer can
// tell, so it is noticed once kubelet has named the container (the plan warns of it before that). Pure.
#include <set>
#include <span>
#include <string>
#include <vector>

#include "termination/live/container_stops.h"

namespace tranche::agent {

struct SplitContainer {
  HeldDoor one;                    // of its doors
  std::vector<std::string> pools;  // two at least, sorted
  std::string words;               // for its pod
};

class SplitContainers {
 public:
  // Those that were not told yet, of all doors that are held now; one that is gone is forgotten.
  std::vector<SplitContainer> look(std::span<const HeldDoor> doors);

 private:
  std::set<std::string> told_;
};

}  // namespace tranche::agent
