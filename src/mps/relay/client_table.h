#pragma once
// Private to mps: which grant each living client process belongs to, as the kernel told it when the client came
// through the grant's endpoint. A process is forgotten when it ends (pidfd), and one that has ended is not reported
// even before that is noticed: what is done to a number in the same callback reaches no process that was given it
// since. Loop thread only.
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

  // true: it is new. false: known already, or it has ended, or cannot be seen (pid 0).
  bool remember(const std::string& grant, int pid, Fd pidfd);
  bool remember(const std::string& grant, int pid);     // the process that has the number now
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
