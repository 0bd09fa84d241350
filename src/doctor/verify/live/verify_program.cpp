#include "doctor/verify/live/verify_program.h"

#include <fmt/format.h>

#include <cstdio>

#include "config/live/config_source.h"
#include "doctor/finding.h"
#include "doctor/verify/live/looks.h"
#include "os/files/files.h"

namespace tranche::doctor {
namespace {

constexpr int kUsage = 2;

VerifyPlaces places_of(const VerifyOptions& options, const config::Flags& flags) {
  VerifyPlaces places;
  places.mps_root = flags.mps_root.empty() ? std::string(config::kDefaultMpsRoot) : flags.mps_root;
  places.mps_root_here = options.mps_root_here.empty() ? places.mps_root : options.mps_root_here;
  places.driver_root = flags.plugin.container_driver_root;
  return places;
}

Status write_file(const std::string& path, const std::string& content) {
  const auto [directory, name] = os::parts_of(path);
  TRY(const auto dir, os::Dir::open(directory));
  return dir.write_atomically(name, content, 0644);
}

int complain(const std::string& what) {
  fmt::print(stderr, "tranche verify: {}\n", what);
  return kUsage;
}

}  // namespace

int run_verify(const VerifyOptions& options) {
  const int subjects =
      static_cast<int>(options.local) + static_cast<int>(options.inside) + static_cast<int>(!options.node.empty());
  if (subjects != 1)
    return complain(subjects == 0 ? "nothing to verify: give NODE, --local or --inside"
                                  : "more than one thing to verify: give one of NODE, --local and --inside");

  doctor::Report report{options.inside ? "this container" : options.local ? "this node" : "node " + options.node, {}};
  auto& checks = report.findings;
  if (!options.json)
    checks.on_add = [&options](const Finding& check) {
      fmt::print("{}", doctor::line_of(check, options.terminal));
      std::fflush(stdout);
    };

  Status looked;
  if (options.inside) {
    looked = try_inside(options, checks);
  } else if (!options.local) {
    const auto cluster = look_at_cluster(options, checks);
    if (!cluster)
      looked = std::unexpected(cluster.error());
    else if (options.deep)
      looked = try_from_outside(options, *cluster, checks);
  } else {
    const auto config = config::load_config(options.flags, options.environment, options.unknown_keys);
    const auto places = places_of(options, config.config.flags);
    look_here(options, config.config, places, checks);
    if (options.deep) looked = try_limits(options, places, checks);
  }
  if (!looked) fmt::print(stderr, "tranche verify: {}\n", to_string(looked.error()));

  const bool began = looked.has_value() || !checks.empty();
  if (options.json || began) fmt::print("{}", options.json ? doctor::to_json(report) : doctor::summary_of(report));
  if (!options.junit.empty()) {
    if (const auto written = write_file(options.junit, doctor::to_junit(report)); !written)
      return complain("the JUnit file cannot be written: " + to_string(written.error()));
  }
  return looked ? doctor::exit_status(checks) : kUsage;
}

}  // namespace tranche::doctor
