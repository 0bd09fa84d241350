#include "node/recall.h"

#include "os/files/kept.h"
#include "os/log/log.h"

namespace tranche::agent {

std::string recall(const std::string& run_dir, const std::string& name, const std::string& effect) {
  const auto dir = host::Dir::open(run_dir);
  if (!dir) return {};  // the directory's first use reports why
  auto file = host::read_kept(*dir, name);
  if (!file.lost.empty()) log::warning("state.lost", {{"what", file.lost}, {"effect", effect}});
  return std::move(file.text).value_or(std::string());
}

void log_if_partial(const std::string& run_dir, const std::string& name, bool all) {
  if (!all)
    log::warning("state.lost", {{"what", "lines of " + run_dir + "/" + name + " that are not understood"},
                                {"effect", "they are left out at the next write"}});
}

}  // namespace tranche::agent
