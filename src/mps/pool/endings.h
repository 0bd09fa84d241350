#pragma once
// The ends of clients (client_ending.h) that are under way, of all pools of one `tranche mps`. An end is carried out
// although its pool goes meanwhile. What is stopped stands in `<mps-root>/ending.txt` before it is stopped, so that no
// process stays stopped because this program was killed: the next start finishes the ends. Loop thread only.
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
  // `root`: where the file lies. Absent: nothing is written, and what is under way is lost with this.
  explicit Endings(Loop& loop, std::optional<Dir> root = std::nullopt);
  Endings(const Endings&) = delete;
  Endings& operator=(const Endings&) = delete;

  // done comes once, as a callback of its own, and never after this was dropped.
  void begin(ClientEnding::Settings settings, const EndedProcesses& processes, ClientEnding::Done done);

  // Those that the last run of the program has begun. Processes that are not stopped any more are left alone. done as
  // above, also when there are none.
  void finish_left(ClientEnding::Settings settings, ClientEnding::Done done);
  const std::string& lost() const { return lost_; }  // why the file's word is not known; "" = it is

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
