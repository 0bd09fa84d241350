#include "node/grants/grants_file.h"

#include "node/recall.h"
#include "os/files/files.h"
#include "os/files/kept.h"
#include "os/log/log.h"

namespace tranche::agent {
namespace {

constexpr const char* kFile = "grants.txt";

}  // namespace

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
  const auto dir = host::Dir::open(run_dir_);
  const Status written =
      dir ? host::write_kept(*dir, kFile, grants::render_shares(kept_), 0600) : std::unexpected(dir.error());
  if (!written) log::warning("grants.not_written", {{"why", written.error()}});
}

}  // namespace tranche::agent
