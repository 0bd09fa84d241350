#include "grants/live/grants_file.h"

#include "os/files/files.h"
#include "os/files/kept.h"
#include "os/log/log.h"
#include "programs/node/recall.h"

namespace tranche::agent {
namespace {

constexpr const char* kFile = "grants.txt";
constexpr const char* kTakenBefore = "taken-shares.txt";
constexpr const char* kTakenLost = "pods from which a forced change took GPUs before are not shown as such";

}  // namespace

grants::Kept GrantsFile::read() {
  const auto text = recall(run_dir_, kFile,
                           std::string("what these grants are limited to is asked of tranche mps, or taken from the "
                                       "plan; ") +
                               kTakenLost);
  kept_ = grants::parse_kept(text);
  log_if_partial(run_dir_, kFile, grants::render_kept(kept_) == text);
  grants::Kept kept = kept_;
  adopt_taken(kept);
  return kept;
}

// It goes once what it says is written down: a later start must not report it again.
void GrantsFile::adopt_taken(grants::Kept& kept) {
  const auto dir = host::Dir::open(run_dir_);
  if (!dir || !dir->exists(kTakenBefore)) return;
  const auto text = recall(run_dir_, kTakenBefore, kTakenLost);
  auto taken = grants::parse_taken(text);
  log_if_partial(run_dir_, kTakenBefore, grants::render_taken(taken) == text);
  kept.taken.merge(taken);
  kept_ = kept;
  if (!write()) return;
  if (const auto removed = dir->remove(kTakenBefore); !removed)
    log::warning("grants.not_written", {{"why", removed.error()}});
}

void GrantsFile::keep(const grants::Kept& kept) {
  if (kept_ == kept) return;
  kept_ = kept;
  write();
}

bool GrantsFile::write() {
  const auto dir = host::Dir::open(run_dir_);
  const Status written =
      dir ? host::write_kept(*dir, kFile, grants::render_kept(kept_), 0600) : std::unexpected(dir.error());
  if (!written) log::warning("grants.not_written", {{"why", written.error()}});
  return written.has_value();
}

}  // namespace tranche::agent
