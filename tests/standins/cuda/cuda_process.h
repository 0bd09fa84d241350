#pragma once
// The driver library's work for a CUDA process on a simulated node: finds its GPUs from its environment, joins MPS or
// (silently, like the real one) runs without it, charges memory against limit and GPU, keeps work in flight on a
// timeline and converts messages of the MPS server to sticky errors. Used by sim-cuda and the libcuda.so.1 stand-in.
//
// Thread-safe. One reader thread per MPS connection, joined by the destructor. Bytes, SMs, nanoseconds of simulated GPU
// time (which is real time). Behaviours: README-mps.md.
#include <sys/types.h>

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "standins/cuda/cuda_error.h"
#include "standins/mps/visible.h"
#include "standins/mps/wire.h"
#include "standins/node/sim_node.h"

namespace tranche::sim {

// The relevant variables, read once at start as the driver does in cuInit.
struct CudaEnvironment {
  std::string pipe_directory = "/tmp/nvidia-mps";
  std::optional<std::string> cuda_visible;
  std::optional<std::string> nvidia_visible;
  std::optional<std::string> memory_limit;       // CUDA_MPS_PINNED_DEVICE_MEM_LIMIT
  std::optional<std::string> thread_percentage;  // CUDA_MPS_ACTIVE_THREAD_PERCENTAGE
  bool per_context_partitioning = false;         // CUDA_MPS_ENABLE_PER_CTX_DEVICE_MULTIPROCESSOR_PARTITIONING=1
};
CudaEnvironment read_cuda_environment();

struct MemoryInfo {
  std::uint64_t free = 0;
  std::uint64_t total = 0;
};

class CudaProcess {
 public:
  // cuInit. On failure the result is empty and *error has the reason.
  static std::unique_ptr<CudaProcess> start(const CudaEnvironment& environment, CudaError* error);
  ~CudaProcess();
  CudaProcess(const CudaProcess&) = delete;
  CudaProcess& operator=(const CudaProcess&) = delete;

  bool under_mps() const { return server_.valid(); }
  const std::vector<VisibleGpu>& devices() const { return devices_; }
  const Node& node() const { return *node_; }

  // A context on a device. Several share the device's memory, limit and timeline; the last close releases the memory.
  // Under MPS each has a connection and a place of the server of its own.
  CudaError open_context(int device);
  CudaError close_context(int device);

  std::uint32_t sms(int device) const;  // what kernels run on
  // CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT: the same, or the whole GPU if the per-context variable is set, which does
  // not remove the limit (facts: section 1).
  std::uint32_t attribute_sms(int device) const;
  std::optional<std::uint64_t> memory_limit(int device) const;
  std::uint64_t own_bytes(int device) const;  // context included
  CudaError memory_info(int device, MemoryInfo* info) const;
  CudaError allocate(int device, std::uint64_t bytes);  // accounting only
  void release(int device, std::uint64_t bytes);

  // Queues `count` kernels of `kernel_ns` each on the device's timeline; done_ns (monotonic) is the end of the last
  // one. `tensor`: they use tensor cores, whose work in flight `terminate_client` does not end cleanly.
  CudaError launch(int device, std::int64_t kernel_ns, std::int64_t count, std::int64_t* done_ns = nullptr,
                   bool tensor = false);
  CudaError wait_until(std::int64_t done_ns);  // or until a sticky error
  CudaError synchronize(int device);
  CudaError fault(int device);  // an illegal address in this process

  CudaError sticky() const;  // the result of every later call; kSuccess if there is no error
  // Readable once a sticky error is set: for poll loops. Owned by this object.
  int error_descriptor() const { return error_event_.get(); }

 private:
  struct Context {
    int opens = 0;
    std::vector<std::pair<std::uint32_t, Fd>> connections;  // one for each, with its number
    pid_t pid = 0;                                          // this process's id in the node's table
    std::uint32_t sms = 0;
    std::optional<std::uint64_t> limit;
    std::uint64_t bytes = 0;
    std::int64_t busy_until = 0;
  };

  explicit CudaProcess(std::unique_ptr<Node> node) : node_(std::move(node)) {}
  CudaError join_mps(const CudaEnvironment& environment);
  CudaError open_beside_mps(int device, Context* context);
  // The connection of the process itself (0) or of a context.
  CudaError connect_to_server(std::uint32_t number, Fd* server);
  CudaError open_through_mps(int device, Context* context);
  // Sends and waits for the server's answer; holds no lock while it waits. nullopt: the server has exited.
  std::optional<Message> ask_server(const Message& message);
  void read_server(const std::stop_token& stop);
  void set_sticky(CudaError error);
  const VisibleGpu& gpu(int device) const { return devices_[static_cast<std::size_t>(device)]; }

  std::unique_ptr<Node> node_;
  CudaEnvironment environment_;
  std::vector<VisibleGpu> devices_;
  double percentage_ = 100.0;  // of the server, as received in cuInit
  Fd server_;
  Fd uvm_;  // in place of the descriptor of the nvidia-uvm device that the real library opens
  std::uint32_t last_context_ = 0;
  Fd error_event_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::mutex asking_;  // one request at a time
  std::vector<Context> contexts_;
  std::optional<Message> answer_;
  bool server_gone_ = false;
  CudaError sticky_ = CudaError::kSuccess;
  std::jthread reader_;
};

}  // namespace tranche::sim
