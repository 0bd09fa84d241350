#pragma once
// Answers kubelet's questions from the published snapshot, on gRPC's threads: a pure decision, then (for MPS) the one
// bit of file work that must be done before the answer leaves: the grant's endpoint.
#include <functional>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "kubelet/plugin_host.h"
#include "node/grants/live_grants.h"
#include "node/snapshot.h"

namespace tranche::agent {

// What was answered since it was last asked for, in order: for the log, and for the caller that asks kubelet what
// became of it.
struct Answered {
  std::vector<allocate::Grant> given;
  MonoTime last_given{};
  std::vector<std::pair<std::string, Error>> refused;  // resource, why
};

class NodeAnswers final : public host::Answers {
 public:
  // on_answered: on the calling thread, after something was added to what take_answered() gives. `mps_root` is where
  // the MPS directory is for this process, which need not be the host's path that goes into grants.
  NodeAnswers(const SnapshotBox& box, std::string mps_root, std::function<void()> on_answered);

  Result<allocate::Grant> allocate(const std::string& resource, std::span<const std::string> ids) override;
  Result<std::vector<std::string>> prefer(const std::string& resource, std::span<const std::string_view> available,
                                          std::span<const std::string_view> must_include, std::uint32_t size) override;

  Answered take_answered();  // any thread

 private:
  Result<allocate::Grant> decide(const std::string& resource, std::span<const std::string> ids);
  allocate::Around around(const Snapshot& snapshot, const plan::PlannedResource& resource,
                          std::span<const std::string> ids);

  const SnapshotBox& box_;
  std::string mps_root_;
  std::function<void()> on_answered_;
  std::mutex mutex_;
  Answered answered_;
  LiveGrants live_;
};

}  // namespace tranche::agent
