#include "node/recall.h"

#include "mps/protocol/requests.h"
#include "os/files/files.h"
#include "os/log/log.h"

namespace tranche::node {
namespace {

constexpr const char* kFile = "grants.txt";

}  // namespace

std::string recall(const std::string& run_dir, const std::string& name, const std::string& effect) {
  const auto dir = os::Dir::open(run_dir);
  if (!dir) return {};  // the directory's first use reports why
  auto file = os::read_kept(*dir, name);
  if (!file.lost.empty()) log::warning("state.lost", {{"what", file.lost}, {"effect", effect}});
  return std::move(file.text).value_or(std::string());
}

void log_if_partial(const std::string& run_dir, const std::string& name, bool all) {
  if (!all)
    log::warning("state.lost", {{"what", "lines of " + run_dir + "/" + name + " that are not understood"},
                                {"effect", "they are left out at the next write"}});
}

grants::Shares GrantsFile::read() {
  const auto text =
      recall(run_dir_, kFile, "what these grants are limited to is asked of tranche mps, or taken from the plan");
  kept_ = grants::parse_shares(text);
  log_if_partial(run_dir_, kFile, grants::render_shares(kept_) == text);
  return kept_;
}

void GrantsFile::keep(const grants::Shares& kept) {
  if (kept_ == kept) return;
  kept_ = kept;
  const auto dir = os::Dir::open(run_dir_);
  const Status written =
      dir ? os::write_kept(*dir, kFile, grants::render_shares(kept_), 0600) : std::unexpected(dir.error());
  if (!written) log::warning("grants.not_written", {{"why", written.error()}});
}

void OtherHoldersFile::keep(const HeldWithoutMps& holders) {
  const auto& devices = holders.devices;
  if (devices == written_) return;
  const auto dir = os::Dir::open(mps_root_);
  if (dir && !written_) written_ = mps::parse_other_holders(dir->read(mps::kOtherHoldersFile).value_or(""));
  // While nothing is known, what was written before is still the best to go by.
  if (devices == written_ || (devices.empty() && !holders.known)) return;
  const Status written = dir ? os::write_kept(*dir, mps::kOtherHoldersFile, mps::render_other_holders(devices), 0644)
                             : std::unexpected(dir.error());
  const std::string problem = written ? "" : to_string(written.error());
  // Without an MPS directory there is no `tranche mps` to notify.
  if (!written && problem != problem_ && written.error().kind != Kind::kNotFound)
    log::warning("other_holders.not_written", {{"why", problem}});
  problem_ = problem;
  if (written) written_ = devices;
}

}  // namespace tranche::node
