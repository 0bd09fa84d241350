#include "node/other_holders_file.h"

#include "mps/protocol/other_holders.h"
#include "os/files/kept.h"
#include "os/log/log.h"

namespace tranche::agent {

void OtherHoldersFile::keep(const HeldWithoutMps& holders) {
  const auto& devices = holders.devices;
  if (devices == written_) return;
  const bool first_and_none = devices.empty() && !written_;
  if (first_and_none && !holders.known) return;  // what an agent before this one wrote is still the best to go by
  const auto dir = host::Dir::open(mps_root_);
  const bool none_is_written = first_and_none && dir && dir->read(mps::kOtherHoldersFile).value_or("").empty();
  Status written = dir ? Status{} : std::unexpected(dir.error());
  if (written && !none_is_written)
    written = host::write_kept(*dir, mps::kOtherHoldersFile, mps::render_other_holders(devices), 0644);
  const std::string problem = written ? "" : to_string(written.error());
  // Without an MPS directory there is no `tranche mps` to notify.
  if (!written && problem != problem_ && written.error().kind != Kind::kNotFound)
    log::warning("other_holders.not_written", {{"why", problem}});
  problem_ = problem;
  if (written) written_ = devices;
}

}  // namespace tranche::agent
