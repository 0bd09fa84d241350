// The server's answers to its daemon, and terminate_client.
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "standins/mps/server.h"
#include "standins/mps/server_shared.h"

namespace tranche::sim {
namespace {

constexpr std::int64_t kDrainNs = 11'000'000;     // terminate_client: 11 to 13 ms (facts: section 3)
constexpr std::int64_t kStoppedDrainMs = 10'000;  // of a stopped client (docs/internals/evidence/stopping.md)
constexpr int kInvalidContext = 201, kTerminated = 810;

// The inode of a process's PID namespace, as ps prints it; 0 if it cannot be read.
std::uint64_t pid_namespace_of(pid_t pid) {
  char target[64] = {};
  const std::string link = "/proc/" + std::to_string(pid) + "/ns/pid";
  if (::readlink(link.c_str(), target, sizeof target - 1) <= 0) return 0;
  unsigned long long inode = 0;
  return std::sscanf(target, "pid:[%llu]", &inode) == 1 ? inode : 0;
}

std::string command_of(pid_t pid) {
  const std::string path = "/proc/" + std::to_string(pid) + "/comm";
  char text[64] = {};
  if (FILE* file = std::fopen(path.c_str(), "re")) {
    if (std::fgets(text, sizeof text, file) == nullptr) text[0] = '\0';
    std::fclose(file);
  }
  std::string name = text;
  while (!name.empty() && name.back() == '\n') name.pop_back();
  return name;
}

// The letter of its state in /proc; '\0' if it has exited.
char state_of(pid_t pid) {
  const std::string path = "/proc/" + std::to_string(pid) + "/stat";
  char text[512] = {};
  FILE* file = std::fopen(path.c_str(), "re");
  if (file == nullptr) return '\0';
  text[std::fread(text, 1, sizeof text - 1, file)] = '\0';
  std::fclose(file);
  const char* name_end = std::strrchr(text, ')');  // its name may contain any character
  return name_end != nullptr && std::strlen(name_end) > 2 ? name_end[2] : '\0';
}

// Measured, reason unknown: a stopped client takes 10 s. The daemon waits for the answer, and handles no other
// connection meanwhile.
std::int64_t drain_ns(pid_t pid) {
  if (state_of(pid) != 'T') return kDrainNs;
  const auto ms = environment("TRANCHE_SIM_STOPPED_TERMINATE_MS");
  return (ms ? std::strtoll(ms->c_str(), nullptr, 10) : kStoppedDrainMs) * 1'000'000;
}

}  // namespace

void MpsServer::terminate(std::int64_t ask, pid_t pid) {
  Client* client = find(pid);
  if (client == nullptr || client->contexts.empty()) {
    const bool exists = ::kill(pid, 0) == 0 || errno == EPERM;
    return answer(
        ask, exists ? std::to_string(kInvalidContext) + "\n" : "Invalid process " + std::to_string(pid) + "!\n1\n");
  }
  const std::int64_t now = monotonic_ns();
  Drain drain{.due_ns = now + drain_ns(pid), .ask = ask, .hurt = {}};
  for (auto& context : client->contexts) {
    log_.line("MPS server requesting client " + named(pid, context.id) + " to exit");
    if (!context.poisoned && termination_hurts_peers(context.work(now))) drain.hurt.push_back(context.ordinal);
    context.kernel_ns = context.until_ns = 0;
    node_->detach(pid, devices_[static_cast<std::size_t>(context.ordinal)].node_index);
  }
  client->terminated = true;
  send_message(client->fd.get(), {"error", {{"code", std::to_string(kTerminated)}}});
  drains_.push_back(std::move(drain));
}

void MpsServer::finish_drains(std::int64_t now_ns) {
  for (std::size_t i = drains_.size(); i-- > 0;) {
    if (drains_[i].due_ns > now_ns) continue;
    const Drain done = std::move(drains_[i]);
    drains_.erase(drains_.begin() + static_cast<std::ptrdiff_t>(i));
    log_.line("Client termination succeeded.");
    answer(done.ask, "0\n");
    // Reported as a success nevertheless: the neighbours die after the answer.
    for (const int ordinal : done.hurt) spread_fault(ordinal, nullptr, kIllegalAddress);
  }
}

std::string MpsServer::client_list() const {
  std::string text;
  for (const auto& slot : slots_) {
    if (is_a_process(slot)) text += std::to_string(slot->pid) + "\n";
  }
  return text;
}

std::string MpsServer::device_client_list() const {
  std::string text;
  for (std::size_t i = 0; active_contexts() > 0 && i < devices_.size(); ++i) {
    unsigned domain = 0, bus = 0;
    std::sscanf(devices_[i].properties.pci_bus_id.c_str(), "%x:%x", &domain, &bus);
    char pci[32];
    std::snprintf(pci, sizeof pci, "%02x:00.0",
                  bus);  // observed for 00000000:00:06.0: the device number is not printed
    text += "[" + std::to_string(i) + "] " + pci + ", " + devices_[i].properties.name + "\n";
    for (const auto& slot : slots_) {
      if (!slot) continue;
      for (const auto& context : slot->contexts) {
        if (context.ordinal == static_cast<int>(i)) {
          text += std::to_string(slot->pid) + "." + std::to_string(context.id) + "\n";
        }
      }
    }
  }
  return text;
}

std::vector<ClientRow> MpsServer::rows() const {
  std::vector<ClientRow> rows;
  for (const auto& slot : slots_) {
    if (!slot) continue;
    for (const auto& context : slot->contexts) {
      rows.push_back({.pid = slot->pid,
                      .id = slot->id,
                      .server = ::getpid(),
                      .uuid = devices_[static_cast<std::size_t>(context.ordinal)].properties.uuid,
                      .pid_namespace = pid_namespace_of(slot->pid),
                      .command = command_of(slot->pid)});
    }
  }
  return rows;
}

void MpsServer::answer(std::int64_t ask, const std::string& text) {
  send_message(channel_.get(), {"answer", {{"id", std::to_string(ask)}, {"text", text}}});
}

std::string MpsServer::set_limit(const Message& message) {
  const std::string what = message.text("what");
  if (what == "set_threads") {
    if (const auto value = parse_percentage(message.text("value"))) options_.threads = *value;
    return percentage_text(options_.threads) + "\n";
  }
  const std::string key = message.text("key");
  const std::uint64_t value = parse_daemon_memory(message.text("value"));
  char hex[32];
  std::snprintf(hex, sizeof hex, "0x%llx", static_cast<unsigned long long>(value));
  log_.line("Device pinned memory limit for device " + key + " set to " + hex + " bytes");
  // A server resolves both spellings: a value set by ordinal reads back by UUID and vice versa.
  for (std::size_t i = 0; i < devices_.size(); ++i) {
    if (key != std::to_string(i) && key != devices_[i].properties.uuid) continue;
    options_.memory.set(std::to_string(i), value);
    options_.memory.set(devices_[i].properties.uuid, value);
    return "";
  }
  options_.memory.set(key, value);
  return "";
}

void MpsServer::answer_question(const Message& message) {
  const std::int64_t ask = message.number("id");
  const std::string what = message.text("what");
  if (what == "status") return answer(ask, faulty() ? "FAULT\n" : "ACTIVE\n");
  if (what == "clients") return answer(ask, client_list());
  if (what == "devices") return answer(ask, device_client_list());
  if (what == "ps") {
    const auto clients = rows();
    return answer(ask, clients.empty() ? "" : ps_table(clients));  // without clients not even the heading
  }
  if (what == "threads") return answer(ask, percentage_text(options_.threads) + "\n");
  if (what == "terminate") return terminate(ask, static_cast<pid_t>(message.number("pid")));
  if (what == "set_threads" || what == "set_memory") return answer(ask, set_limit(message));
  if (what == "memory") {
    const std::string key = message.text("key");
    int ordinal = ordinal_of(key);
    for (std::size_t i = 0; i < devices_.size(); ++i) {
      if (key == std::to_string(i)) ordinal = static_cast<int>(i);
    }
    const auto limit =
        ordinal < 0 ? options_.memory.get(key)
                    : options_.memory.for_gpu(ordinal, devices_[static_cast<std::size_t>(ordinal)].properties.uuid);
    return answer(ask, limit ? memory_text(*limit) + "\n" : "");
  }
  answer(ask, "");
}

}  // namespace tranche::sim
