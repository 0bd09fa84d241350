#include "standins/cuda/cuda_process.h"

#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>

#include "standins/mps/handshake.h"
#include "standins/mps/limits.h"

namespace tranche::sim {
namespace {

// A listener that is not a daemon: continue without MPS (facts: section 3). Long enough for a slow machine's daemon.
int welcome_ms() {
  const char* given = std::getenv("TRANCHE_SIM_WELCOME_MS");
  return given == nullptr ? 60000 : std::atoi(given);
}

std::int64_t monotonic_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

CudaError refusal_code(const Message& message) {
  return static_cast<CudaError>(message.number("code", static_cast<int>(CudaError::kUnknown)));
}

}  // namespace

CudaEnvironment read_cuda_environment() {
  CudaEnvironment out;
  out.pipe_directory = environment("CUDA_MPS_PIPE_DIRECTORY").value_or(out.pipe_directory);
  out.cuda_visible = environment("CUDA_VISIBLE_DEVICES");
  out.nvidia_visible = environment("NVIDIA_VISIBLE_DEVICES");
  out.memory_limit = environment("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT");
  out.thread_percentage = environment("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE");
  out.per_context_partitioning = environment("CUDA_MPS_ENABLE_PER_CTX_DEVICE_MULTIPROCESSOR_PARTITIONING") == "1";
  return out;
}

std::unique_ptr<CudaProcess> CudaProcess::start(const CudaEnvironment& environment, CudaError* error) {
  *error = CudaError::kNoDevice;
  auto node = Node::open();
  if (!node || !(*node)->driver_present()) return nullptr;
  std::unique_ptr<CudaProcess> process(new CudaProcess(*std::move(node)));
  process->environment_ = environment;
  process->error_event_.reset(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  process->devices_ = injected(all_gpus(*process->node_), environment.nvidia_visible);
  *error = process->join_mps(environment);
  if (*error != CudaError::kSuccess) return nullptr;
  process->devices_ = selected(process->devices_, environment.cuda_visible);
  process->contexts_.resize(process->devices_.size());
  if (process->devices_.empty()) {
    *error = CudaError::kNoDevice;
    return nullptr;
  }
  return process;
}

CudaError CudaProcess::connect_to_server(std::uint32_t number, Fd* server) {
  const auto not_connected = [number](const char* step) {
    const int error = errno;
    std::fprintf(stderr, "sim-cuda: connection %u failed %s (errno %d)\n", number, step, error);
    return CudaError::kMpsConnectionFailed;
  };
  errno = 0;
  const Fd daemon = connect_to(environment_.pipe_directory + "/control");
  if (!daemon.valid()) return not_connected("to reach the daemon");
  if (!await_hello(daemon.get(), -1)) return not_connected("before the daemon's greeting");
  if (!introduce(daemon.get(), ConnectionType::kClient)) return not_connected("while it introduced itself");
  // May block indefinitely: another user's client may hold the only server (facts: section 4).
  Packet packet;
  if (receive_packet(daemon.get(), &packet) != Arrived::kPacket) return not_connected("before the server's socket");
  if (packet.bytes != kDescriptor || !packet.descriptor.valid()) {
    return refusal_code(parse_message(packet.bytes).value_or(Message{}));
  }
  auto [channel, refusal] = join_server(packet.descriptor.get(), number);
  send_packet(daemon.get(), kAcknowledged);
  if (!refusal.empty()) return refusal_code(parse_message(refusal).value_or(Message{}));
  *server = std::move(channel);
  return server->valid() ? CudaError::kSuccess : not_connected("in the exchange with the server");
}

CudaError CudaProcess::join_mps(const CudaEnvironment& environment) {
  const std::string control = environment.pipe_directory + "/control";
  // The first connection only checks whether a daemon greets; the second one is for the client, as in the real library.
  if (const Fd look = connect_to(control); !look.valid() || !await_hello(look.get(), welcome_ms())) {
    return CudaError::kSuccess;  // no daemon: the process silently runs without MPS
  }
  Fd server;
  if (const CudaError error = connect_to_server(0, &server); error != CudaError::kSuccess) return error;
  Message message;
  if (!send_message(server.get(), {"init", {}}) ||
      receive_message(server.get(), &message, &uvm_) != Received::kMessage) {
    return CudaError::kMpsConnectionFailed;
  }
  if (message.verb != "ready") return refusal_code(message);
  percentage_ = parse_percentage(message.text("threads")).value_or(100.0);
  // Devices in the server's order: the daemon's own filter has renumbered them.
  std::vector<VisibleGpu> shared;
  std::string uuids = message.text("devices") + ",";
  for (std::size_t at = 0, comma; (comma = uuids.find(',', at)) != std::string::npos; at = comma + 1) {
    const auto uuid = uuids.substr(at, comma - at);
    const auto found = std::ranges::find(devices_, uuid, [](const VisibleGpu& one) { return one.properties.uuid; });
    if (found != devices_.end()) shared.push_back(*found);
  }
  devices_ = std::move(shared);
  server_ = std::move(server);
  reader_ = std::jthread([this](const std::stop_token& stop) { read_server(stop); });
  return CudaError::kSuccess;
}

CudaProcess::~CudaProcess() {
  if (server_.valid()) {
    reader_.request_stop();
    ::shutdown(server_.get(), SHUT_RDWR);
    reader_ = {};
  }
  for (std::size_t i = 0; i < contexts_.size(); ++i) {
    if (!under_mps() && contexts_[i].opens > 0) node_->detach(::getpid(), devices_[i].node_index);
  }
}

void CudaProcess::read_server(const std::stop_token& stop) {
  for (;;) {
    Message message;
    if (receive_message(server_.get(), &message) != Received::kMessage) break;
    if (message.verb == "error") {
      set_sticky(refusal_code(message));
      continue;
    }
    const std::lock_guard lock(mutex_);
    answer_ = std::move(message);
    changed_.notify_all();
  }
  if (!stop.stop_requested()) set_sticky(CudaError::kMpsRpcFailure);  // server killed (facts: section 3)
  const std::lock_guard lock(mutex_);
  server_gone_ = true;
  changed_.notify_all();
}

void CudaProcess::set_sticky(CudaError error) {
  const std::lock_guard lock(mutex_);
  if (sticky_ == CudaError::kSuccess) sticky_ = error;
  for (auto& context : contexts_) context.busy_until = 0;
  const std::uint64_t one = 1;
  if (::write(error_event_.get(), &one, sizeof one) < 0) {
    // The write can fail only if the counter is full, which is readable too.
  }
  changed_.notify_all();
}

CudaError CudaProcess::sticky() const {
  const std::lock_guard lock(mutex_);
  return sticky_;
}

std::optional<Message> CudaProcess::ask_server(const Message& message) {
  const std::lock_guard one_at_a_time(asking_);
  std::unique_lock lock(mutex_);
  answer_.reset();
  if (server_gone_ || !send_message(server_.get(), message)) return std::nullopt;
  changed_.wait(lock, [&] { return answer_.has_value() || server_gone_; });
  return std::move(answer_);
}

CudaError CudaProcess::open_beside_mps(int device, Context* context) {
  const int at = gpu(device).node_index;
  const int mode = compute_mode_of(*node_, gpu(device));
  const auto rows = node_->processes(at);
  // EXCLUSIVE_PROCESS admits one process, and an MPS server counts as one. DEFAULT admits this process with others.
  const bool taken = std::ranges::any_of(
      rows, [](const ProcessRow& row) { return row.pid != ::getpid() && row.kind != ProcessKind::kGraphics; });
  if (mode == 2 || (mode == 3 && taken)) return CudaError::kDeviceUnavailable;
  context->pid = ::getpid();
  context->sms = gpu(device).properties.sm_count;
  context->bytes = context_bytes(context->sms);
  if (!attach_to(*node_, gpu(device), context->pid, ProcessKind::kCompute, 0)) return CudaError::kOutOfMemory;
  if (node_->charge(context->pid, at, static_cast<std::int64_t>(context->bytes))) return CudaError::kSuccess;
  node_->detach(context->pid, at);
  return CudaError::kOutOfMemory;
}

CudaError CudaProcess::open_through_mps(int device, Context* context) {
  std::vector<std::string> uuids;
  for (const auto& one : devices_) uuids.push_back(one.properties.uuid);
  const auto memory = read_client_memory(environment_.memory_limit, uuids);
  const std::string& uuid = gpu(device).properties.uuid;
  const std::uint32_t number = ++last_context_;
  Fd connection;
  if (const CudaError error = connect_to_server(number, &connection); error != CudaError::kSuccess) return error;
  Message question{"context",
                   {{"gpu", uuid},
                    {"ordinal", std::to_string(device)},
                    {"id", std::to_string(number)},
                    {"lifted", memory.lifted ? "1" : "0"}}};
  if (environment_.thread_percentage) question.fields["threads"] = *environment_.thread_percentage;
  const auto own = memory.by_uuid.find(uuid);
  if (own != memory.by_uuid.end() && own->second < static_cast<std::uint64_t>(INT64_MAX)) {
    question.fields["memory"] = std::to_string(own->second);
  }
  const auto answer = ask_server(question);
  if (!answer) return CudaError::kMpsRpcFailure;
  if (answer->verb != "context") return refusal_code(*answer);
  context->connections.emplace_back(number, std::move(connection));
  context->pid = static_cast<pid_t>(answer->number("pid"));
  context->sms = static_cast<std::uint32_t>(answer->number("sms"));
  context->bytes = static_cast<std::uint64_t>(answer->number("charged"));
  if (!answer->text("limit").empty()) context->limit = static_cast<std::uint64_t>(answer->number("limit"));
  return CudaError::kSuccess;
}

CudaError CudaProcess::open_context(int device) {
  if (device < 0 || device >= static_cast<int>(devices_.size())) return CudaError::kInvalidDevice;
  auto& slot = contexts_[static_cast<std::size_t>(device)];
  {
    const std::lock_guard lock(mutex_);
    if (sticky_ != CudaError::kSuccess) return sticky_;
    if (slot.opens > 0 && !under_mps()) {
      ++slot.opens;
      return CudaError::kSuccess;
    }
  }
  Context context;
  context.opens = 1;
  const CudaError error = under_mps() ? open_through_mps(device, &context) : open_beside_mps(device, &context);
  if (error != CudaError::kSuccess) return error;
  const std::lock_guard lock(mutex_);
  if (slot.opens == 0) {
    slot = std::move(context);
  } else {
    ++slot.opens;
    slot.bytes += context.bytes;
    slot.connections.push_back(std::move(context.connections.front()));
  }
  return CudaError::kSuccess;
}

CudaError CudaProcess::close_context(int device) {
  const std::lock_guard lock(mutex_);
  auto& context = contexts_[static_cast<std::size_t>(device)];
  if (context.opens == 0) return CudaError::kInvalidContext;
  --context.opens;
  if (!context.connections.empty()) {
    if (!server_gone_)
      send_message(server_.get(),
                   {"release",
                    {{"gpu", gpu(device).properties.uuid}, {"id", std::to_string(context.connections.back().first)}}});
    context.connections.pop_back();
  }
  if (context.opens > 0) return CudaError::kSuccess;
  if (!under_mps()) node_->detach(context.pid, gpu(device).node_index);
  context = {};
  return CudaError::kSuccess;
}

std::uint32_t CudaProcess::sms(int device) const {
  const std::lock_guard lock(mutex_);
  const auto& context = contexts_[static_cast<std::size_t>(device)];
  if (context.opens > 0) return context.sms;
  const std::uint32_t all = gpu(device).properties.sm_count;
  return under_mps() ? sms_for(effective_percentage(environment_.thread_percentage, percentage_), all) : all;
}

std::uint32_t CudaProcess::attribute_sms(int device) const {
  return environment_.per_context_partitioning ? gpu(device).properties.sm_count : sms(device);
}

std::optional<std::uint64_t> CudaProcess::memory_limit(int device) const {
  const std::lock_guard lock(mutex_);
  return contexts_[static_cast<std::size_t>(device)].limit;
}

std::uint64_t CudaProcess::own_bytes(int device) const {
  const std::lock_guard lock(mutex_);
  return contexts_[static_cast<std::size_t>(device)].bytes;
}

CudaError CudaProcess::memory_info(int device, MemoryInfo* info) const {
  const std::lock_guard lock(mutex_);
  // The query does not need the server: it works after the server's death too (transcripts/ends.txt).
  if (sticky_ != CudaError::kSuccess && sticky_ != CudaError::kMpsRpcFailure) return sticky_;
  const auto& context = contexts_[static_cast<std::size_t>(device)];
  const auto& properties = gpu(device).properties;
  info->total =
      properties.memory_total - properties.memory_reserved;  // the whole GPU: a limit shows in `free` only (section 1)
  const std::uint64_t used = used_on(*node_, gpu(device));
  info->free = used < properties.memory_total ? properties.memory_total - used : 0;
  if (context.limit) {
    info->free = std::min(info->free, *context.limit > context.bytes ? *context.limit - context.bytes : 0);
  }
  return CudaError::kSuccess;
}

CudaError CudaProcess::allocate(int device, std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  if (sticky_ != CudaError::kSuccess) return sticky_;
  auto& context = contexts_[static_cast<std::size_t>(device)];
  if (context.opens == 0) return CudaError::kInvalidContext;
  // The limit is per process (section 1): another process of the container has its own.
  if (context.limit && (bytes > *context.limit || context.bytes > *context.limit - bytes)) {
    return CudaError::kOutOfMemory;
  }
  if (bytes > static_cast<std::uint64_t>(INT64_MAX) ||
      !node_->charge(context.pid, gpu(device).node_index, static_cast<std::int64_t>(bytes))) {
    return CudaError::kOutOfMemory;
  }
  context.bytes += bytes;
  return CudaError::kSuccess;
}

void CudaProcess::release(int device, std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  auto& context = contexts_[static_cast<std::size_t>(device)];
  bytes = std::min(bytes, context.bytes);
  context.bytes -= bytes;
  if (sticky_ == CudaError::kSuccess) {
    node_->charge(context.pid, gpu(device).node_index, -static_cast<std::int64_t>(bytes));
  }
}

CudaError CudaProcess::launch(int device, std::int64_t kernel_ns, std::int64_t count, std::int64_t* done_ns,
                              bool tensor) {
  const std::lock_guard lock(mutex_);
  if (sticky_ != CudaError::kSuccess) return sticky_;
  auto& context = contexts_[static_cast<std::size_t>(device)];
  if (context.opens == 0) return CudaError::kInvalidContext;
  context.busy_until = std::max(context.busy_until, monotonic_ns()) + kernel_ns * count;
  if (done_ns != nullptr) *done_ns = context.busy_until;
  if (under_mps() && !send_message(server_.get(), {"work",
                                                   {{"gpu", gpu(device).properties.uuid},
                                                    {"kernel_ns", std::to_string(kernel_ns)},
                                                    {"tensor", tensor ? "1" : "0"},
                                                    {"until_ns", std::to_string(context.busy_until)}}})) {
    return CudaError::kMpsRpcFailure;
  }
  return CudaError::kSuccess;
}

CudaError CudaProcess::wait_until(std::int64_t done_ns) {
  std::unique_lock lock(mutex_);
  const std::chrono::steady_clock::time_point due{std::chrono::nanoseconds(done_ns)};
  changed_.wait_until(lock, due, [&] { return sticky_ != CudaError::kSuccess || monotonic_ns() >= done_ns; });
  return sticky_;
}

CudaError CudaProcess::synchronize(int device) {
  std::int64_t done = 0;
  {
    const std::lock_guard lock(mutex_);
    done = contexts_[static_cast<std::size_t>(device)].busy_until;
  }
  return wait_until(done);
}

CudaError CudaProcess::fault(int device) {
  {
    const std::lock_guard lock(mutex_);
    if (sticky_ != CudaError::kSuccess) return sticky_;
  }
  // XID 31 is the MMU fault that the kernel driver reports in this case.
  node_->raise({.sequence = 0, .gpu = gpu(device).node_index, .kind = EventKind::kXid, .data = 31});
  if (!under_mps()) {
    set_sticky(CudaError::kIllegalAddress);
    return CudaError::kIllegalAddress;
  }
  if (!send_message(server_.get(), {"fault", {{"gpu", gpu(device).properties.uuid}}})) return CudaError::kMpsRpcFailure;
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return sticky_ != CudaError::kSuccess; });
  return sticky_;
}

}  // namespace tranche::sim
