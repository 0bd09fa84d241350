#pragma once
// The terminations of clients (client_ending.h) that are in progress, for all pools of one `tranche mps`. They continue
// even if the pool is removed. Each process is recorded in `<mps-root>/ending.txt` before it is stopped, so that no
// process stays stopped if this program is killed: the next start finishes the terminations. Loop thread only.
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "mps/pool/client_ending.h"
#include "mps/pool/ending_file.h"
#include "os/files/files.h"
#include "os/loop/loop.h"

namespace tranche::host {

class Endings {
 public:
  // `root`: the file's directory. Absent: no file is written, and destroying this object loses what is in progress.
  explicit Endings(Loop& loop, std::optional<Dir> root = std::nullopt);
  Endings(const Endings&) = delete;
  Endings& operator=(const Endings&) = delete;

  // `done` runs once, in a callback of its own; it never runs after this object is destroyed. If a termination in
  // progress already has all of the clients, this one joins it, with the outcomes of all of that one's clients: a
  // request that is repeated costs no descriptors.
  void begin(ClientEnding::Settings settings, const std::vector<ProcessRef>& clients, ClientEnding::Done done);

  // Takes up the terminations that the last run began, also of processes that were continued meanwhile: they are
  // stopped again, with the clients that the kernel kills with them. A later process with a reused pid is left alone.
  // `done` as above, also if there are none.
  void finish_left(ClientEnding::Settings settings, ClientEnding::Done done);
  const std::string& lost() const { return lost_; }  // why the file could not be read; "" = it was read

 private:
  void keep();
  KilledWith recorded(std::uint64_t id, KilledWith killed_with);

  Loop& loop_;
  std::optional<Dir> root_;
  std::string lost_;
  mps::EndingProcesses left_;
  mps::EndingProcesses written_;
  std::uint64_t last_ = 0;
  std::map<std::uint64_t, mps::EndingProcesses> stopped_;
  struct Ending {
    std::vector<ProcessRef> clients;
    std::vector<ClientEnding::Done> done;
    std::unique_ptr<ClientEnding> ending = {};
  };
  std::map<std::uint64_t, Ending> endings_;
};

}  // namespace tranche::host
