#pragma once
// Answers kubelet's questions from the published snapshot, on gRPC's threads: a pure decision, then (for MPS) the one
// bit of file work that must be done before the answer leaves: the grant's endpoint.
#include <functional>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/time.h"
#include "grants/allocate/grant.h"
#include "kubelet/plugin_host.h"
#include "node/snapshot.h"

namespace tranche::node {

// How many grants are alive on each device, so that no more are given than its MPS server accepts clients: where slots
// are units of account, there are many more of them than clients. As reported by kubelet (PodResources), which is late
// by moments, and by what was given since. Pure.
class LiveGrants {
 public:
  void given(const grants::Grant& grant, MonoTime now);
  // Of each device in `around`, without those that have a slot that is asked for: kubelet hands out what no container
  // holds. `listed`: when kubelet reported `holdings`.
  void count_into(grants::Around& around, const std::vector<grants::Held>& holdings, MonoTime listed,
                  std::span<const std::string> asked_for);

 private:
  struct Given {
    std::vector<std::string> slots;
    MonoTime at;
  };
  std::map<std::string, Given> given_;  // by grant; until kubelet lists it, or does not
};

// What was answered since it was last asked for, in order: for the log, and for the caller that asks kubelet what
// became of it.
struct Answered {
  std::vector<grants::Grant> given;
  MonoTime last_given{};
  std::vector<std::pair<std::string, Error>> refused;  // resource, why
};

class NodeAnswers final : public kubelet::Answers {
 public:
  // on_answered: on the calling thread, after something was added to what take_answered() gives. `mps_root` is where
  // the MPS directory is for this process, which need not be the host's path that goes into grants.
  NodeAnswers(const SnapshotBox& box, std::string mps_root, std::function<void()> on_answered);

  Result<grants::Grant> allocate(const std::string& resource, std::span<const std::string> ids) override;
  Result<std::vector<std::string>> prefer(const std::string& resource, std::span<const std::string_view> available,
                                          std::span<const std::string_view> must_include, std::uint32_t size) override;

  Answered take_answered();  // any thread

 private:
  Result<grants::Grant> decide(const std::string& resource, std::span<const std::string> ids);
  grants::Around around(const Snapshot& snapshot, const plan::PlannedResource& resource,
                        std::span<const std::string> ids);

  const SnapshotBox& box_;
  std::string mps_root_;
  std::function<void()> on_answered_;
  std::mutex mutex_;
  Answered answered_;
  LiveGrants live_;
};

}  // namespace tranche::node
