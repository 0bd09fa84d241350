#include "standins/mps/server.h"

#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <map>
#include <sstream>
#include <utility>

#include "standins/mps/handshake.h"
#include "standins/mps/server_shared.h"

namespace tranche::sim {
namespace {

constexpr int kOutOfMemory = 2, kNoDevice = 100, kNotReady = 807, kMaxClients = 808;

}  // namespace

MpsServer::MpsServer(std::unique_ptr<Node> node, ServerOptions options, Fd channel, MpsLog log)
    : node_(std::move(node)), options_(std::move(options)), channel_(std::move(channel)), log_(std::move(log)) {
  const auto all = all_gpus(*node_);
  for (const auto& uuid : options_.uuids) {
    const auto found = std::ranges::find(all, uuid, [](const VisibleGpu& gpu) { return gpu.properties.uuid; });
    if (found != all.end()) devices_.push_back(*found);
  }
  device_open_.assign(devices_.size(), false);
}

bool MpsServer::start() {
  log_.line("Startup");
  log_.line("Initializing server process");
  if (!node_->driver_present() || devices_.empty()) return false;
  for (std::size_t i = 0; i < devices_.size(); ++i) {
    const int gpu = devices_[i].node_index;
    const int mode = compute_mode_of(*node_, devices_[i]);
    // EXCLUSIVE_PROCESS: one process per GPU, and the server counts as one.
    const bool taken = std::ranges::any_of(node_->processes(gpu), [](const ProcessRow& row) {
      return row.kind == ProcessKind::kCompute || row.kind == ProcessKind::kMpsServer;
    });
    if (mode == 2 || (mode == 3 && taken)) return false;
  }
  log_.set_role("Server");
  for (std::size_t i = 0; i < devices_.size(); ++i) {
    const auto& gpu = devices_[i];
    log_.line("Creating server context on device " + std::to_string(i) + " (" + gpu.properties.name + ")");
    if (!attach_to(*node_, gpu, ::getpid(), ProcessKind::kMpsServer, 0) ||
        !node_->charge(::getpid(), gpu.node_index, static_cast<std::int64_t>(kServerBytes))) {
      return false;
    }
    device_open_[i] = true;
  }
  if (!share_memory()) return false;
  log_.line("CUDA MPS Server for Linux/Unix. Binary version: " + std::to_string(node_->cuda_version()));
  const std::string driver = node_->driver_version();
  log_.line("Display Driver version: " + driver.substr(0, driver.find('.')));
  log_.line("Active Threads Percentage set to " + percentage_text(options_.threads));
  for (const auto& [key, bytes] : options_.memory.entries()) {
    char hex[32];
    std::snprintf(hex, sizeof hex, "0x%llx", static_cast<unsigned long long>(bytes));
    log_.line("Device pinned memory limit for device " + key + " set to " + hex + " bytes");
  }
  log_.line("Server Priority set to " + std::to_string(options_.priority));
  log_.line("Server has started");
  return send_message(channel_.get(), {"ready", {}});
}

// A page that the server's clients would share: anonymous, like r580's (docs/internals/evidence/mps-handshake.md), or a
// file in /dev/shm, as reported of older drivers. Unlinked immediately, so that no file remains; it is visible in the
// maps nevertheless.
bool MpsServer::share_memory() {
  const std::string pid = std::to_string(::getpid()), uid = std::to_string(options_.uid);
  const auto folder = environment("TRANCHE_SIM_SHARED_MEMORY");
  const std::string path = folder.value_or("") + "/cuda.shm." + uid + "." + pid + ".1";
  const Fd fd(folder ? ::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600)
                     : ::memfd_create(("mps.shm." + uid + "." + pid).c_str(), MFD_CLOEXEC));
  if (folder) ::unlink(path.c_str());
  constexpr std::size_t kPage = 4096;
  if (!fd.valid() || ::ftruncate(fd.get(), kPage) != 0) return false;
  if (::mmap(nullptr, kPage, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0) == MAP_FAILED) return false;
  if (!folder) log_.line("Created anonymous shared memory region mps.shm." + uid + "." + pid);
  return true;
}

int MpsServer::run() {
  for (;;) {
    // A wedged server only notices that its daemon has exited.
    std::vector<pollfd> fds{{channel_.get(), static_cast<short>(wedged_ ? 0 : POLLIN), 0}};
    std::vector<std::size_t> owner;
    for (std::size_t i = 0; i < slots_.size(); ++i) {
      if (!slots_[i] || wedged_) continue;
      fds.push_back({slots_[i]->joined() ? slots_[i]->fd.get() : slots_[i]->exchange.get(), POLLIN, 0});
      owner.push_back(i);
    }
    for (const auto& leaving : leaving_) {
      fds.push_back({leaving.client->uvm.get(), 0, 0});
      fds.push_back({leaving.held ? -1 : leaving.process.get(), POLLIN, 0});
    }
    int wait_ms = -1;
    for (const auto& drain : drains_) {
      const auto left = std::max<std::int64_t>(0, (drain.due_ns - monotonic_ns() + 999'999) / 1'000'000);
      wait_ms = wait_ms < 0 ? static_cast<int>(left) : std::min(wait_ms, static_cast<int>(left));
    }
    if (::poll(fds.data(), fds.size(), wait_ms) < 0 && errno != EINTR) return 1;
    const std::int64_t now = monotonic_ns();
    for (std::size_t i = 0; i < owner.size(); ++i) {
      const auto& client = slots_[owner[i]];
      if (fds[i + 1].revents == 0 || !client) continue;
      if (!(client->joined() ? hear_client(*client) : hear_newcomer(*client))) lose(owner[i], now);
    }
    watch_leaving(now);
    finish_drains(now);
    if (fds[0].revents != 0 && (wedged_ || !hear_daemon())) return 0;
  }
}

bool MpsServer::hear_daemon() {
  Message message;
  Fd connection;
  if (receive_message(channel_.get(), &message, &connection) != Received::kMessage) return false;
  if (message.verb == "client") {
    waiting_.emplace_back(message, std::move(connection));
    admit_waiting();
  } else if (message.verb == "ask") {
    answer_question(message);
  } else if (message.verb == "shutdown") {
    log_.line("Server has been notified to shutdown");
    if (connected() == 0) {
      log_.line("Waiting for current clients to finish");
      log_.line("Exiting");
      return false;
    }
    log_.line("Server was unable to shutdown due to " + std::to_string(2 * connected()) + " active clients");
    send_message(channel_.get(), {"busy", {{"count", std::to_string(2 * connected())}}});
  }
  return true;
}

void MpsServer::admit_waiting() {
  while (newcomer_ == nullptr && !stuck_ && !wedged_ && !waiting_.empty()) {
    auto [message, connection] = std::move(waiting_.front());
    waiting_.erase(waiting_.begin());
    admit(message, std::move(connection));
  }
}

void MpsServer::admit(const Message& message, Fd connection) {
  auto client = std::make_unique<Client>();
  client->pid = static_cast<pid_t>(message.number("pid"));
  client->uid = static_cast<uid_t>(message.number("uid"));
  client->exchange = std::move(connection);
  if (message.number("dead") != 0) {
    // Observed once: a client that died while another user's server was running is handed over nevertheless; the new
    // server then never answers, and the daemon waits for it indefinitely (transcripts/lives.txt).
    wedged_ = true;
    slots_.push_back(std::move(client));
    return;
  }
  log_.line("Received new client request for " + named(client->pid, 0));
  if (faulty()) {
    // Observed on driver 580: while victims live, new clients get 807 from cuInit.
    log_.line("Server teardown in progress. Refusing to accept new client " + named(client->pid, 0));
    log_.line("Failed to accept client " + named(client->pid, 0) + " with status 807");
    send_message(client->exchange.get(), {"refused", {{"code", std::to_string(kNotReady)}}});
    return;
  }
  client->threads = options_.threads;
  client->memory = options_.memory;
  auto [ours, theirs] = socket_pair();
  client->fd = std::move(ours);
  accept_identities(client->exchange.get());
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return;
  client->pipe = Fd(ends[1]);
  const Fd pipe(ends[0]);
  // A client that has gone is noticed when it is heard.
  greet_client(client->exchange.get(), theirs.get(), pipe.get());
  newcomer_ = client.get();
  const auto free_slot = std::ranges::find_if(slots_, [](const auto& slot) { return slot == nullptr; });
  if (free_slot != slots_.end()) {
    *free_slot = std::move(client);
  } else {
    slots_.push_back(std::move(client));
  }
  report_count();
}

bool MpsServer::hear_newcomer(Client& client) {
  // A client that closed with messages of ours unread: what it sent before is lost, as with the real server.
  int error = 0;
  socklen_t size = sizeof error;
  ::getsockopt(client.exchange.get(), SOL_SOCKET, SO_ERROR, &error, &size);
  Packet packet;
  if (error != 0 || receive_packet(client.exchange.get(), &packet) != Arrived::kPacket) return false;
  if (client.said == 0) {
    if (!packet.sender) return false;
    client.pid = packet.sender->pid;
    client.uid = packet.sender->uid;
  }
  if (client.said == 1) client.number = type_of(packet.bytes).value_or(0);
  if (++client.said == 3) {
    join(client);
    send_packet(client.exchange.get(), kServerAnswer);
    client.exchange = Fd();
  }
  return true;
}

void MpsServer::join(Client& client) {
  log_.line("Client " + named(client.pid, static_cast<int>(client.number)) + " connected");
  log_.line("Creating worker thread for client " + named(client.pid, static_cast<int>(client.number)));
  newcomer_ = nullptr;
  admit_waiting();
}

bool MpsServer::hear_client(Client& client) {
  Message message;
  switch (receive_message(client.fd.get(), &message)) {
    case Received::kMessage:
      break;
    case Received::kNothing:
      return true;
    default:
      return false;
  }
  if (message.verb == "init") {
    greet(client);
    return true;
  }
  if (message.verb == "context") {
    open_context(client, message);
  } else if (message.verb == "work") {
    note_work(client, message);
  } else if (message.verb == "release") {
    const auto id = static_cast<int>(message.number("id"));  // 0 = all on this GPU
    for (std::size_t i = client.contexts.size(); i-- > 0;) {
      const Context& context = client.contexts[i];
      if (context.ordinal == ordinal_of(message.text("gpu")) && (id == 0 || context.id == id)) close_context(client, i);
    }
    report_count();
  } else if (message.verb == "fault") {
    spread_fault(ordinal_of(message.text("gpu")), &client, kIllegalAddress);
  }
  return true;
}

void MpsServer::greet(Client& client) {
  std::string uuids;
  for (const auto& device : devices_) uuids += (uuids.empty() ? "" : ",") + device.properties.uuid;
  client.uvm = Fd(::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC));
  Fd device;
  if (client.uvm.valid() && ::unlockpt(client.uvm.get()) == 0)
    device = Fd(::ioctl(client.uvm.get(), TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC));
  send_message(client.fd.get(), {"ready", {{"devices", uuids}, {"threads", std::to_string(client.threads)}}},
               device.get());
}

void MpsServer::open_context(Client& client, const Message& message) {
  const auto refuse = [&](int code) {
    log_.line("Failed to accept client " + named(client.pid, 1) + " with status " + std::to_string(code));
    send_message(client.fd.get(), {"refused", {{"code", std::to_string(code)}}});
  };
  const int ordinal = ordinal_of(message.text("gpu"));
  if (ordinal < 0) return refuse(kNoDevice);
  if (faulty()) return refuse(kNotReady);
  const auto id_of = message.number("id");
  // Each context has a connection of its own (measured).
  const auto connections = std::ranges::count_if(slots_, [&](const auto& slot) {
    return slot && slot->joined() && slot->pid == client.pid && slot->number == id_of && slot->number != 0;
  });
  if (connections <= std::ranges::count(client.contexts, id_of, &Context::id)) return refuse(kNotReady);
  const auto& device = devices_[static_cast<std::size_t>(ordinal)];
  const auto connection = std::ranges::find_if(slots_, [&](const auto& slot) {
    return slot && slot->joined() && slot->pid == client.pid && slot->number == id_of && slot->used_on < 0;
  });
  const int holders = places_taken(ordinal) - (connection == slots_.end() ? 1 : 0);
  // 64 clients on one GPU: 48 run (section 3). The driver API returns 808; the runtime reports "busy or unavailable".
  const int most = device.properties.cc_major >= 7 ? kClientsPerGpu : kClientsPerGpuBeforeVolta;
  if (holders >= most) {
    log_.line("Failed to accept new client. Maximum number of clients (" + std::to_string(most) + ") reached.");
    send_message(client.fd.get(), {"refused", {{"code", std::to_string(kMaxClients)}}});
    return;
  }
  if (!device_open_[static_cast<std::size_t>(ordinal)]) {
    log_.line("Creating server context on device " + std::to_string(ordinal) + " (" + device.properties.name + ")");
    device_open_[static_cast<std::size_t>(ordinal)] = true;
  }
  const std::optional<std::string> threads =
      message.fields.contains("threads") ? std::optional(message.text("threads")) : std::nullopt;
  const std::uint32_t sms = sms_for(effective_percentage(threads, client.threads), device.properties.sm_count);
  ClientMemory own;
  own.lifted = message.number("lifted") != 0;
  if (message.fields.contains("memory")) {
    const auto bytes = static_cast<std::uint64_t>(message.number("memory"));
    if (bytes != 0) own.by_uuid[device.properties.uuid] = bytes;
  }
  // Measured: the limit is that of the server's device which has the number that the client's device has for the
  // client.
  const std::size_t counted = message.fields.contains("ordinal") ? static_cast<std::size_t>(message.number("ordinal"))
                                                                 : static_cast<std::size_t>(ordinal);
  const auto ceiling = counted < devices_.size()
                           ? client.memory.for_gpu(static_cast<int>(counted), devices_[counted].properties.uuid)
                           : std::nullopt;
  const auto limit = effective_memory(own, device.properties.uuid, ceiling);
  const std::uint64_t own_bytes = context_bytes(sms);
  if ((limit && own_bytes > *limit) || !attach_to(*node_, device, client.pid, ProcessKind::kMpsClient, sms)) {
    return refuse(kOutOfMemory);
  }
  if (!node_->charge(client.pid, device.node_index, static_cast<std::int64_t>(own_bytes))) {
    node_->detach(client.pid, device.node_index);
    return refuse(kOutOfMemory);
  }
  const int id = static_cast<int>(message.number("id"));
  if (client.id == 0) client.id = next_id_++;
  client.contexts.push_back({.ordinal = ordinal, .id = id});
  if (connection != slots_.end()) (*connection)->used_on = ordinal;
  log_.line("Device " + device.properties.name + " (uuid " + device.properties.uuid + ") is associated");
  log_.line("Status of client " + named(client.pid, id) + " is ACTIVE");
  send_message(client.fd.get(), {"context",
                                 {{"id", std::to_string(id)},
                                  {"pid", std::to_string(client.pid)},
                                  {"sms", std::to_string(sms)},
                                  {"limit", limit ? std::to_string(*limit) : ""},
                                  {"charged", std::to_string(own_bytes)},
                                  {"server", std::to_string(::getpid())}}});
}

// A connection keeps its place when its context has ended, for as long as a process has a copy of its channels
// (docs/internals/evidence/mps-handshake.md).
int MpsServer::places_taken(int ordinal) const {
  std::map<std::pair<pid_t, int>, std::array<int, 2>> by_number;  // contexts, connections
  for (const auto& slot : slots_) {
    if (!slot) continue;
    for (const auto& context : slot->contexts)
      if (context.ordinal == ordinal) ++by_number[{slot->pid, context.id}][0];
    if (slot->used_on == ordinal) ++by_number[{slot->pid, static_cast<int>(slot->number)}][1];
  }
  int taken = 0;
  for (const auto& [number, counts] : by_number) taken += std::max(counts[0], counts[1]);
  return taken;
}

void MpsServer::note_work(Client& client, const Message& message) {
  const int ordinal = ordinal_of(message.text("gpu"));
  for (auto& context : client.contexts) {
    if (context.ordinal != ordinal || client.terminated) continue;
    context.tensor = message.number("tensor") != 0;
    context.kernel_ns = message.number("kernel_ns");
    context.until_ns = message.number("until_ns");
  }
}

void MpsServer::close_context(Client& client, std::size_t at, bool keeps_memory) {
  const Context context = client.contexts[at];
  client.contexts.erase(client.contexts.begin() + static_cast<std::ptrdiff_t>(at));
  if (!keeps_memory && std::ranges::count(client.contexts, context.ordinal, &Context::ordinal) == 0)
    node_->detach(client.pid, devices_[static_cast<std::size_t>(context.ordinal)].node_index);
  // Also where the client destroyed the context and runs on (transcripts/destroys.txt).
  log_.line("Server failed to recevie command with status 806, assuming client " + named(client.pid, context.id) +
            " exit");
  log_.line("Client " + named(client.pid, context.id) + " exiting. Number of active client contexts is " +
            std::to_string(active_contexts()) + ".");
}

void MpsServer::lose(std::size_t slot, std::int64_t now_ns) {
  // Removed first: a death must not be spread to the dead client.
  auto client = std::move(slots_[slot]);
  slots_[slot] = nullptr;
  if (!client->joined() && client->said == 0) {
    log_.line("User did not send valid credentials");
    stuck_ = true;
    newcomer_ = nullptr;
    return report_count();
  }
  if (!client->joined()) join(*client);
  if (client->number != 0) return report_count();
  if (!client->uvm.valid()) return forget(*client, now_ns, false);
  Fd process(static_cast<int>(::syscall(SYS_pidfd_open, client->pid, 0)));
  leaving_.push_back({std::move(client), std::move(process)});
}

// A process that exits closes its connection first and its terminal a moment later. If the terminal is still open when
// it has exited, another process holds it: then the death is harmless, and what the driver tears down has to wait for
// the last close (docs/internals/evidence/deaths.md).
void MpsServer::watch_leaving(std::int64_t now_ns) {
  const auto is_ready = [](int fd, short events) {
    pollfd one{fd, events, 0};
    return fd >= 0 && ::poll(&one, 1, 0) > 0;
  };
  for (auto& [client, process, held] : leaving_) {
    const bool exited = !held && (!process.valid() || is_ready(process.get(), POLLIN));
    if (is_ready(client->uvm.get(), 0)) {
      if (held) {
        tear_down(*client, now_ns);
      } else {
        forget(*client, now_ns, false);
      }
      client = nullptr;
    } else if (exited) {
      held = true;
      forget(*client, now_ns, true);
    }
  }
  std::erase_if(leaving_, [](const auto& each) { return each.client == nullptr; });
}

void MpsServer::forget(Client& client, std::int64_t now_ns, bool held) {
  const auto contexts = client.contexts;
  const auto end_own_connection = [&] {
    log_.line("Server failed to recevie command with status 806, assuming client " + named(client.pid, 0) + " exit");
    log_.line("Client process " + std::to_string(client.pid) + " disconnected");
  };
  // The threads of its connections end in any order (transcripts/late-context.txt).
  const bool own_first = std::erase(sticky_, client.pid) != 0;
  if (own_first) end_own_connection();
  for (std::size_t i = client.contexts.size(); i-- > 0;) {
    close_context(client, i, held);
  }
  for (const auto& context : contexts) {
    if (!held && !client.terminated && !context.poisoned && death_hurts_peers(context.work(now_ns))) {
      spread_fault(context.ordinal, nullptr, kIllegalAddress);
    }
  }
  if (!own_first) end_own_connection();
  client.contexts = contexts;
  client.pipe = Fd();
  leave_fault_if_clean();
  report_count();
}

void MpsServer::tear_down(const Client& client, std::int64_t now_ns) {
  for (const auto& context : client.contexts) {
    node_->detach(client.pid, devices_[static_cast<std::size_t>(context.ordinal)].node_index);
    if (!client.terminated && !context.poisoned && held_death_hurts_peers(context.work(now_ns))) {
      spread_fault(context.ordinal, nullptr, kIllegalAddress);
    }
  }
}

int MpsServer::ordinal_of(const std::string& uuid) const {
  for (std::size_t i = 0; i < devices_.size(); ++i) {
    if (devices_[i].properties.uuid == uuid) return static_cast<int>(i);
  }
  return -1;
}

MpsServer::Client* MpsServer::find(pid_t pid) {
  for (const auto& slot : slots_) {
    if (is_a_process(slot) && slot->pid == pid) return slot.get();
  }
  return nullptr;
}

int MpsServer::connected() const {
  return static_cast<int>(std::ranges::count_if(slots_, [this](const auto& slot) { return is_a_process(slot); }));
}

int MpsServer::active_contexts() const {
  int count = 0;
  for (const auto& slot : slots_) count += slot ? static_cast<int>(slot->contexts.size()) : 0;
  return count;
}

void MpsServer::report_count() {
  send_message(channel_.get(), {"clients", {{"count", std::to_string(connected())}}});
}

}  // namespace tranche::sim
