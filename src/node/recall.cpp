#include "node/recall.h"

#include "os/files/files.h"
#include "os/files/kept.h"
#include "os/log/log.h"

namespace tranche::node {
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
  const auto dir = os::Dir::open(run_dir_);
  const Status written =
      dir ? os::write_kept(*dir, kFile, grants::render_shares(kept_), 0600) : std::unexpected(dir.error());
  if (!written) log::warning("grants.not_written", {{"why", written.error()}});
}

}  // namespace tranche::node
