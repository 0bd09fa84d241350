#pragma once
// Answers kubelet's questions from the published snapshot, on gRPC's threads: a pure decision, then (for MPS) the one
// bit of file work that must be done before the answer leaves: the grant's door.
#include <functional>
#include <string>

#include "agent/node/snapshot.h"
#include "host/kubelet/plugin_host.h"

namespace tranche::agent {

class NodeAnswers final : public host::Answers {
 public:
  // on_grant and on_refusal run on the calling thread: post to the loop. `mps_root` is where the MPS directory is for
  // this process, which need not be the host's path that goes into grants.
  NodeAnswers(const SnapshotBox& box, std::string mps_root, std::function<void(const allocate::Grant&)> on_grant,
              std::function<void(const std::string& resource, const Error&)> on_refusal);

  Result<allocate::Grant> allocate(const std::string& resource, std::span<const std::string> ids) override;
  Result<std::vector<std::string>> prefer(const std::string& resource, std::span<const std::string> available,
                                          std::span<const std::string> must_include, std::uint32_t size) override;

 private:
  const SnapshotBox& box_;
  std::string mps_root_;
  std::function<void(const allocate::Grant&)> on_grant_;
  std::function<void(const std::string&, const Error&)> on_refusal_;
};

}  // namespace tranche::agent
