#pragma once
// Which agent of the node has the claims. During a rolling update an older and a newer agent run at a time, and each
// keeps the prepared claims in memory: two that write `claims.txt`, CDI specifications and MPS endpoints would undo
// what the other did. The one that has the lock `<run_dir>/claims.lock` has them:
//
//   older  has the lock ──► sees claims.next ──► ends what is under way ──► frees the lock and removes claims.next ──►
//          waits; takes the lock again when the newer one has ended
//   newer  cannot take the lock ──► kubelet has registered it ──► writes claims.next ──► claims.next is removed, or the
//          older one has ended ──► takes the lock and reads claims.txt
//
// One that was asked never asks in turn. The kernel frees the lock of a process that is killed. An agent that hangs
// keeps it: its liveness probe ends it. Not here: what having the claims means (node/dra/claims.h). Loop thread only.
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "os/files/file_lock.h"
#include "os/files/watch.h"
#include "os/loop/loop.h"
#include "os/loop/timer.h"

namespace tranche::node {

class ClaimsLock {
 public:
  struct Callbacks {
    std::function<void()> taken;   // after open() returned false, or after give_up()
    std::function<void()> wanted;  // by a newer agent: give_up() as soon as nothing is under way
  };
  ClaimsLock(os::Loop& loop, std::string run_dir, Callbacks callbacks);

  // True: the claims are this agent's from now on. Also where there is no run directory, so no file to protect.
  bool open();
  void want();  // asks the agent that has them, once and again until it answers
  void give_up();

 private:
  void look(const std::string& name);
  void take();
  bool exists(const char* name) const;
  void remove(const char* name) const;

  os::Loop& loop_;
  const std::string run_dir_;
  const Callbacks callbacks_;
  std::optional<os::FileLock> lock_;
  std::unique_ptr<os::DirWatch> watch_;
  bool had_ = false;       // once
  bool asked_of_ = false;  // `wanted` was called and give_up() was not
  os::Timer ask_again_;
  os::Timer take_back_;
};

}  // namespace tranche::node
