#pragma once
// Our side of kubelet's contract for Dynamic Resource Allocation: a gRPC server in kubelet's plugins_registry
// directory, for registration, NodePrepareResources and NodeUnprepareResources (v1), and the health of devices (v1 and
// v1alpha1). docs/internals/kubelet-contract.md lists the facts relied on.
//
// kubelet finds the socket by itself, also after its own restart, so nothing is registered from here. When it was
// deleted, the server is gone: its owner makes another one. With an instance, the socket has a name of its own: during
// a rolling update kubelet has two connections, calls the one that it registered last, and the older one again when
// that is gone. Without one, or where the path would be too long, the name is fixed: the newest instance takes it over.
//
// Threads: constructed, used and destroyed on the loop's thread. gRPC's threads only translate: DraAnswers is called on
// the loop's thread, as many calls at a time as kubelet makes.
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "dra/prepare.h"
#include "os/loop/loop.h"

namespace tranche::kubelet {

// One device of a prepared claim, as kubelet is answered.
struct DraDevice {
  std::string request;  // without subrequest
  dra::PreparedDevice allocated;
  std::vector<std::string> cdi_ids;  // "vendor/class=name"
};

class DraAnswers {
 public:
  using Prepared = std::function<void(Result<std::vector<DraDevice>>)>;
  using Unprepared = std::function<void(Status)>;
  virtual ~DraAnswers() = default;
  // `done` is called once, at once or in a later turn; not called, the call ends with the server. kubelet waits 45 s.
  virtual void prepare(const dra::ClaimName& claim, Prepared done) = 0;
  virtual void unprepare(const dra::ClaimName& claim, Unprepared done) = 0;
};

struct DraServerState {
  bool serving = false;
  bool registered = false;   // kubelet said so
  bool gone = false;         // its socket was deleted; it stays gone
  std::string problem = {};  // "" or why it is not serving or not registered: one sentence
  friend bool operator==(const DraServerState&, const DraServerState&) = default;
};

class DraServer {
 public:
  // kubelet_dir: "/var/lib/kubelet"; instance: the UID of this pod, "" = a fixed name. on_change: as a turn of its own,
  // after what state() gives has changed. `answers` must outlive the server. Serves at once; kubelet may ask before
  // this returns to the loop.
  static Result<std::unique_ptr<DraServer>> open(os::Loop& loop, const std::string& driver,
                                                 const std::string& kubelet_dir, const std::string& instance,
                                                 DraAnswers& answers, std::function<void()> on_change);
  virtual ~DraServer() = default;  // calls under way end with UNAVAILABLE: kubelet asks again

  virtual DraServerState state() const = 0;
  // What kubelet shows in the status of pods: which of all devices of the pool have a fault. Sent when they differ from
  // the last ones, and again and again while the loop turns: a loop that hangs turns every device Unknown.
  virtual void health(const std::string& pool, const std::vector<dra::Device>& devices) = 0;
};

}  // namespace tranche::kubelet
