#pragma once
// How many grants are alive on each device, so that no more are given than its MPS server accepts clients: where slots
// are units of account, there are many more of them than clients. As reported by kubelet (PodResources), which is late
// by moments, and by what was given since. Pure.
#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/time.h"
#include "grants/allocate/grant.h"
#include "kubelet/pod_resources.h"

namespace tranche::agent {

class LiveGrants {
 public:
  // kubelet lists a grant a little after our answer; one that it does not list after that has come to nothing.
  static constexpr Duration kListedAfter = std::chrono::seconds(5);

  void given(const allocate::Grant& grant, MonoTime now);
  // By device, without those that have a slot that is asked for: kubelet hands out what no container holds. `listed`:
  // when kubelet reported `holdings`.
  struct Live {
    std::uint32_t grants = 0;
    std::uint32_t slots = 0;
    friend bool operator==(const Live&, const Live&) = default;
  };
  std::map<std::string, Live> count(const std::vector<host::PodHolding>& holdings, MonoTime listed,
                                    std::span<const std::string> asked_for);

 private:
  struct Given {
    std::vector<std::string> slots;
    MonoTime at;
  };
  std::map<std::string, Given> given_;  // by grant; until kubelet lists it, or does not
};

// The same into what allocate() goes by.
void count_into(allocate::Around& around, const std::map<std::string, LiveGrants::Live>& live);

}  // namespace tranche::agent
