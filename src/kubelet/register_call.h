#pragma once
// One asynchronous Register call to kubelet. Never made from a thread that has to answer kubelet: before Register
// returns, kubelet dials our endpoint and asks GetDevicePluginOptions (docs/internals/kubelet-contract.md).
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "base/result.h"
#include "base/time.h"

namespace tranche::host {

class RegisterCall {
 public:
  // on_done: on a gRPC thread, once, after which outcome() has a value.
  static std::unique_ptr<RegisterCall> start(const std::string& kubelet_socket, const std::string& resource,
                                             const std::string& endpoint, Duration deadline,
                                             std::function<void()> on_done);
  ~RegisterCall();  // cancels, and waits the moment until on_done has returned
  RegisterCall(const RegisterCall&) = delete;
  RegisterCall& operator=(const RegisterCall&) = delete;

  std::optional<Status> outcome() const;  // nothing while under way; any thread

 private:
  struct Call;
  explicit RegisterCall(std::unique_ptr<Call> call);
  std::unique_ptr<Call> call_;
};

}  // namespace tranche::host
