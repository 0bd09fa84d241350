#include "mps/relay/client_table.h"

#include <sys/epoll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "mps/relay/relay_packet.h"

namespace tranche::host {

ClientTable::~ClientTable() {
  for (const auto& [pid, client] : clients_) loop_.cancel(client.watch);
}

bool ClientTable::Client::alive() const {
  return !has_ended(pidfd);
}

bool ClientTable::remember(const std::string& grant, int pid) {
  return pid > 0 && remember(grant, pid, Fd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0))));
}

bool ClientTable::remember(const std::string& grant, int pid, Fd pidfd) {
  if (pid <= 0 || !pidfd || has_ended(pidfd)) return false;
  if (const auto known = clients_.find(pid); known != clients_.end()) {
    if (known->second.alive()) return false;
    forget(pid);  // a new process reuses its pid
  }
  const auto watch = loop_.watch(pidfd.get(), EPOLLIN, [this, pid](std::uint32_t) { forget(pid); });
  if (watch == 0) return false;
  clients_.emplace(pid, Client{grant, std::move(pidfd), watch});
  return true;
}

void ClientTable::disown(const std::string& grant) {
  for (auto& [pid, client] : clients_) {
    if (client.grant == grant) client.grant.clear();
  }
}

void ClientTable::forget(int pid) {
  const auto found = clients_.find(pid);
  if (found == clients_.end()) return;
  const Client client = std::move(found->second);
  clients_.erase(found);
  const auto on_gone = on_gone_;  // cancelling destroys the closure that runs, at its end
  loop_.cancel(client.watch);
  on_gone(client.grant, pid);
}

std::vector<int> ClientTable::of(const std::string& grant) const {
  std::vector<int> pids;
  for (const auto& [pid, client] : clients_) {
    if (client.grant == grant && client.alive()) pids.push_back(pid);
  }
  return pids;
}

const std::string* ClientTable::grant_of(int pid) const {
  const auto found = clients_.find(pid);
  return found == clients_.end() || !found->second.alive() ? nullptr : &found->second.grant;
}

}  // namespace tranche::host
