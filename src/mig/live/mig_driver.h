#pragma once
// The driver's side of the MIG manager: reads the GPUs and carries changes out on a thread of its own. A driver call
// that does not return is noticed: its GPU is named and passed over from then on, the others are served by a new
// thread, and once the call returns the GPU is served again. Decides nothing. Loop thread only.
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/time.h"
#include "gpu/mig/state.h"
#include "mig/driver/apply.h"
#include "os/loop/loop.h"
#include "os/worker/worker.h"

namespace tranche::mig {

// Who uses which device of this node, as kubelet and the node agent's own answers have it. Values.
struct MigUse {
  std::string unknown;                               // why it is not known; "" = it is
  std::map<std::string, std::vector<Holder>> users;  // by the UUID of a MIG device or GPU
  MonoTime asked{};                                  // when kubelet was asked whose answer this is
  friend bool operator==(const MigUse&, const MigUse&) = default;
};

// As holders of a device, by its UUID. While it is not known who uses what, every device is held.
std::vector<Holder> holders_in(const MigUse& use, const std::string& uuid);

class MigDriver {
 public:
  struct Reading {
    std::string problem;  // nothing could be read
    std::vector<GpuState> gpus{};
    std::vector<std::string> silent{};  // GPUs that do not answer, one sentence each: which, and which call
  };
  struct Work {
    GpuState target;                             // the GPU with its layout
    std::optional<MigPartition> partition = {};  // in place of the layout
  };
  struct Done {
    Work work;
    MigOutcome outcome;
    MigPartitionOutcome partition = {};  // of work with one, if outcome is kDone
  };
  MigDriver(os::Loop& loop, std::function<void()> answers_again);  // a call has returned that had not
  ~MigDriver();
  MigDriver(const MigDriver&) = delete;
  MigDriver& operator=(const MigDriver&) = delete;

  void use_is(const MigUse& use);  // who holds what; asked before each step that destroys something
  // One after the other; `done` comes as a callback of its own. A call that takes longer than driver.silence hangs.
  void read(const gpu::NvmlSettings& driver, std::function<void(Reading)> done);
  void apply(const gpu::NvmlSettings& driver, std::vector<Work> work, std::function<void(std::vector<Done>)> done);

 private:
  using UseBox = os::SharedBox<MigUse>;  // shared with every thread
  struct Job;                            // with the thread that works on it
  struct Request {
    gpu::NvmlSettings driver;
    std::vector<Work> work;  // none: the GPUs are read
    std::function<void(Reading, std::vector<Done>)> done;
    std::vector<Done> finished{};  // of work, by earlier threads
  };
  struct Stuck {
    std::shared_ptr<Job> job;
    std::unique_ptr<os::Worker> worker;
    std::optional<std::uint32_t> index;  // of the GPU; none: the driver as a whole
    std::string why;
  };
  void add(Request request);
  void start();
  void watch(std::uint64_t seen);
  void give_up();
  void on_finished(const Job* job);
  void answer(const Job* job, const std::string& why);

  os::Loop& loop_;
  std::function<void()> answers_again_;
  std::shared_ptr<UseBox> use_ = std::make_shared<UseBox>();
  os::Timer timer_{loop_};
  std::deque<Request> requests_;  // the first is under way
  std::shared_ptr<Job> job_;      // nullptr: idle
  std::vector<Stuck> stuck_;
  std::unique_ptr<os::Worker> worker_;
};

}  // namespace tranche::mig
