#include "cdi/live/cdi_specs.h"

#include <algorithm>

#include "base/text.h"
#include "os/files/files.h"
#include "os/log/log.h"

namespace tranche::cdi {
namespace {

using namespace std::chrono_literals;

constexpr Duration kRetryAfter = 30s;  // driver files that are missing, or a directory that is not writable
constexpr Duration kSettle = 200ms;    // device nodes appear one after another when a module is loaded

bool uses_cdi(const config::Config& config) {
  return std::ranges::any_of(config.flags.plugin.device_list_strategy, [](config::ListStrategy strategy) {
    return strategy == config::ListStrategy::kCdiAnnotations || strategy == config::ListStrategy::kCdiCri;
  });
}

bool matters(const std::string& name) {  // of an entry of /dev; "" = check everything again
  return name.empty() || name.starts_with("nvidia") || name == "gdrdrv" || name == "dxg" || name == "dri" ||
         name == "infiniband";
}

}  // namespace

struct CdiSpecs::Input {
  config::Config config;
  gpu::Inventory inventory;
  CdiOptions options;
};

struct CdiSpecs::Outcome {
  std::set<std::string> classes;
  std::vector<std::string> notes;
  WrittenSpecs files;
};

CdiSpecs::CdiSpecs(os::Loop& loop, os::Worker& worker, CdiOptions options, std::function<void()> changed)
    : loop_(loop), worker_(worker), options_(std::move(options)), changed_(std::move(changed)) {}

CdiSpecs::~CdiSpecs() = default;

void CdiSpecs::follow(const config::ConfigView& config, const std::optional<gpu::Inventory>& inventory) {
  if (!uses_cdi(config.config)) {
    wanted_.reset();
    retry_.stop();
    watch_.reset();
    watched_.clear();
    return say({}, "");
  }
  if (!inventory) return;
  Input input{config.config, *inventory, options_};
  if (input.options.driver_root_here.empty())
    input.options.driver_root_here = config.config.flags.plugin.container_driver_root;
  wanted_ = std::make_shared<const Input>(std::move(input));
  auto classes = classes_;
  classes.insert("gpu");
  say(std::move(classes), problem_);
  run();
}

// Pure except for the two calls into cdi/live; runs on the worker's thread.
Result<CdiSpecs::Outcome> CdiSpecs::make_and_write(const Input& input) {
  const auto& [config, inventory, options] = input;
  TRY(const auto files, find_driver_files(config, options.driver_root_here, options.system_root, inventory));
  auto made = make_specs(inventory, config, files);

  Outcome outcome;
  TRY(outcome.files, write_specs(options.cdi_root, made.specs));
  for (const auto& spec : made.specs) outcome.classes.insert(spec.cls);
  for (const auto& problem : files.problems) outcome.notes.push_back(to_string(problem));
  outcome.notes.insert(outcome.notes.end(), made.notes.begin(), made.notes.end());
  return outcome;
}

void CdiSpecs::run() {
  retry_.stop();
  worker_.run(loop_, [this, input = wanted_] {
    return [this, outcome = make_and_write(*input)] {
      if (wanted_) take(outcome);
    };
  });
}

void CdiSpecs::take(const Result<Outcome>& outcome) {
  auto classes = classes_;
  std::string problem;
  if (outcome) {
    for (const auto& name : outcome->files.written) log::info("cdi.written", {{"file", name}});
    for (const auto& name : outcome->files.removed) log::info("cdi.removed", {{"file", name}});
    classes = outcome->classes;
    classes.insert("gpu");
    problem = join(outcome->notes, "; ");
  } else {
    problem = to_string(within(outcome.error(), "CDI specs could not be written, those from before stay"));
    retry_.start(kRetryAfter, [this] { run(); });
  }
  if (!problem.empty() && problem != problem_) log::warning("cdi.problem", {{"what", problem}});
  watch_devices();
  say(std::move(classes), std::move(problem));
}

// A node that appears later (nvidia-uvm is loaded at first use) must be added to the specs.
void CdiSpecs::watch_devices() {
  const std::string& root = wanted_->options.driver_root_here;
  std::string directory = os::under_root(root, "/dev");
  auto dir = os::Dir::open(directory);
  if (!dir) dir = os::Dir::open(directory = "/dev");
  if (!dir) return;
  if (directory != watched_) {
    auto watch = os::DirWatch::open(loop_, directory, [this](const std::string& name) { device_changed(name); });
    watched_ = directory;
    if (watch) {
      watch_ = *std::move(watch);
    } else {
      log::warning("cdi.unwatched", {{"why", watch.error()}});
    }
  }
  // After the watch, so that each later change causes an event.
  const auto names = dir->list().value_or(std::vector<std::string>{});
  nodes_ = {names.begin(), names.end()};
}

void CdiSpecs::device_changed(const std::string& name) {
  if (!wanted_ || !matters(name)) return;
  if (name.empty()) {
    watched_.clear();  // the directory may have been replaced
  } else {
    // Programs that close a node cause events too; only added and removed nodes count.
    const auto dir = os::Dir::open(watched_);
    if (dir && dir->exists(name) == nodes_.contains(name)) return;
  }
  retry_.start(kSettle, [this] { run(); });
}

void CdiSpecs::say(std::set<std::string> classes, std::string problem) {
  if (classes == classes_ && problem == problem_) return;
  classes_ = std::move(classes);
  problem_ = std::move(problem);
  changed_();
}

}  // namespace tranche::cdi
