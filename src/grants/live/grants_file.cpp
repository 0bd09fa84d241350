#include "grants/live/grants_file.h"

#include "os/files/files.h"
#include "os/files/kept.h"
#include "os/log/log.h"
#include "programs/node/recall.h"

namespace tranche::agent {
namespace {

constexpr const char* kFile = "grants.txt";

}  // namespace

grants::Kept GrantsFile::read() {
  const auto text = recall(run_dir_, kFile,
                           "what these grants are limited to is asked of tranche mps, or taken from the plan; pods "
                           "from which a forced change took GPUs before are not shown as such");
  kept_ = grants::parse_kept(text);
  log_if_partial(run_dir_, kFile, grants::render_kept(kept_) == text);
  return kept_;
}

void GrantsFile::keep(const grants::Kept& kept) {
  if (kept_ == kept) return;
  kept_ = kept;
  const auto dir = host::Dir::open(run_dir_);
  const Status written =
      dir ? host::write_kept(*dir, kFile, grants::render_kept(kept_), 0600) : std::unexpected(dir.error());
  if (!written) log::warning("grants.not_written", {{"why", written.error()}});
}

}  // namespace tranche::agent
