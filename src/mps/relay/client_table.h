#pragma once
// Private to mps: the grant of each living client process, recorded when the client connects through the grant's
// endpoint. A process is removed when it exits (pidfd). A process that has exited is not reported even before its exit
// is noticed, so that an action on its pid in the same callback cannot reach a process that reuses the number. Loop
// thread only.
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "os/loop/fd.h"
#include "os/loop/loop.h"

namespace tranche::host {

class ClientTable {
 public:
  ClientTable(Loop& loop, std::function<void(const std::string& grant, int pid)> on_gone)
      : loop_(loop), on_gone_(std::move(on_gone)) {}
  ~ClientTable();
  ClientTable(const ClientTable&) = delete;
  ClientTable& operator=(const ClientTable&) = delete;

  // true: a new client. false: already known, or it has exited, or it is not visible (pid 0).
  bool remember(const std::string& grant, int pid, Fd pidfd);
  bool remember(const std::string& grant, int pid);     // the process that has the pid now
  void disown(const std::string& grant);                // its clients are of the grant "" from now on
  std::vector<int> of(const std::string& grant) const;  // sorted
  std::size_t size() const { return clients_.size(); }
  const std::string* grant_of(int pid) const;

 private:
  struct Client {
    std::string grant;
    Fd pidfd;
    Loop::Id watch = 0;
    bool alive() const;
  };
  void forget(int pid);

  Loop& loop_;
  std::function<void(const std::string&, int)> on_gone_;
  std::map<int, Client> clients_;
};

}  // namespace tranche::host
