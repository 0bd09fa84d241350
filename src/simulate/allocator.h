#pragma once
// Private to src/simulate: the scheduler's allocator for claims, on one node (staging/src/k8s.io/
// dynamic-resource-allocation/structured). All claims of a pod at once, devices in the order of their publication,
// first fit with backtracking. Counters of a shared device are drawn by its first share. The search is bounded, as the
// scheduler's is by time. Values; one thread.
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "simulate/claims.h"
#include "simulate/published.h"

namespace tranche::simulate {

struct NeededClaim {
  const ClaimSpec* spec = nullptr;
  std::string name;    // for messages about it
  std::string holder;  // and for those about others that it keeps away
};

// One device, or one share of it, for one request.
struct Pick {
  std::size_t claim = 0;
  std::size_t request = 0;
  std::size_t either = 0;
  std::size_t device = 0;  // in Published::devices
  bool admin_access = false;
  std::map<std::string, std::uint64_t> consumed;
};

class Allocator {
 public:
  Allocator(const Published& published, const std::map<std::string, ClassSpec>& classes);

  struct Answer {
    bool found = false;
    bool given_up = false;  // neither found nor excluded
    std::vector<Pick> picks;
  };
  Answer allocate(const std::vector<NeededClaim>& claims);  // takes what it finds
  void release(const std::vector<Pick>& picks);

  // Why a request finds nothing as it is now; one sentence for each alternative. `short_of`: of each capacity that is
  // short, what is asked, and the most that one device has left.
  struct Short {
    std::uint64_t asked = 0, most_left = 0;
  };
  struct WhyNot {
    std::vector<std::string> sentences;
    std::map<std::string, Short> short_of;
  };
  WhyNot why_not(const NeededClaim& claim, const ClaimRequest& request) const;

  struct Use {
    std::uint32_t shares = 0;  // or 1: the device as a whole
    std::map<std::string, std::uint64_t> consumed;
    std::vector<std::string> holders;  // NeededClaim::holder of each share
  };
  const Use& use(std::size_t device) const { return uses_[device]; }

 private:
  enum class Reason { kFits, kNotSelected, kFails, kTaken, kCounters, kNotThere, kTooLarge, kShort };
  struct Fit {
    Reason reason = Reason::kFits;
    std::string capacity;  // kNotThere, kTooLarge, kShort
    std::uint64_t asked = 0, left = 0;
    std::map<std::string, std::uint64_t> consumed;
  };
  Match selected(const DeviceAsk& ask, const PublishedDevice& device) const;
  Fit fit(const DeviceAsk& ask, std::size_t device) const;
  bool has_counters(std::size_t device) const;
  bool keeps_constraints(const Pick& pick) const;
  void take(Pick pick);
  void take_back();
  bool next(std::size_t claim, std::size_t request);
  bool pick(Pick so_far, std::uint64_t still, std::size_t from);
  bool pick_all(const Pick& so_far);
  std::string text(const Fit& fit, std::size_t device) const;
  std::string holder_of_counters(std::size_t device) const;

  const Published& published_;
  const std::map<std::string, ClassSpec>& classes_;
  std::vector<Use> uses_;  // by device
  std::map<std::string, Counters> drawn_;
  // Of the search that runs.
  const std::vector<NeededClaim>* claims_ = nullptr;
  std::vector<Pick> picks_;
  std::uint64_t steps_ = 0;
};

// "6Gi of memory", "20 cores"
std::string amount_text(const std::string& capacity, std::uint64_t amount);

}  // namespace tranche::simulate
