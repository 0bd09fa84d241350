#pragma once
// The terminations of clients (client_ending.h) that are in progress, for all pools of one `tranche mps`. A termination
// continues even if its pool is removed. Each process is recorded in `<mps-root>/ending.txt` before it is stopped, so
// that no process stays stopped if this program is killed: the next start finishes the terminations. Loop thread only.
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>

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

  // `done` runs once, in a callback of its own; it never runs after this object is destroyed.
  void begin(ClientEnding::Settings settings, const EndedProcesses& processes, ClientEnding::Done done);

  // Finishes the terminations that the last run began. Processes that are not stopped any more are left alone. `done`
  // as above, also if there are none.
  void finish_left(ClientEnding::Settings settings, ClientEnding::Done done);
  const std::string& lost() const { return lost_; }  // why the file could not be read; "" = it was read

 private:
  void keep();

  Loop& loop_;
  std::optional<Dir> root_;
  std::string lost_;
  mps::EndingProcesses left_;
  mps::EndingProcesses written_;
  std::uint64_t last_ = 0;
  std::map<std::uint64_t, mps::EndingProcesses> stopped_;
  std::map<std::uint64_t, std::unique_ptr<ClientEnding>> endings_;
};

}  // namespace tranche::host
