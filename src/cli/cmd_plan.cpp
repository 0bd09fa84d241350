#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <tuple>

#include "base/json_text.h"
#include "base/result.h"
#include "base/terminal_text.h"
#include "cli/commands.h"
#include "cli/setting_options.h"
#include "config/live/config_source.h"
#include "config/resolve.h"
#include "gpu/driver/driver.h"
#include "gpu/inventory/inventory.h"
#include "gpu/models/models.h"
#include "grants/change/change.h"
#include "kube/client/ask_once.h"
#include "kube/client/find_access.h"
#include "labels/label.h"
#include "os/files/files.h"
#include "plan/plan.h"
#include "plan/select.h"
#include "plan/table.h"
#include "programs/demo/demo_program.h"
#include "simulate/land.h"

namespace tranche::cli {
namespace {

constexpr int kUnusable = 2;
constexpr int kNotAsHoped = 3;  // a pod does not land or is not predicted, or the plans differ
constexpr int kPipedWidth = 100;
constexpr const char* kCluster = "cluster";

struct PlanOptions : config::Invocation {
  std::string inventory = "node";
  std::string pods;                   // from where: a file, "-" for the standard input, "cluster"
  kube::KubeconfigChoice kubeconfig;  // for "cluster"
  std::string node_name;              // for "cluster": include the pods of this node
  std::string against;
  bool json = false;
  std::uint32_t nodes = 1;
  bool inventory_only = false;
  bool explain = false;
  bool labels = false;

  bool strict() const { return unknown_keys == config::UnknownKeys::kRefused; }
};

// Pods of a cluster, in the order in which the node would get them: bound pods first, then by age.
Result<simulate::PodsRead> of_cluster(const PlanOptions& options) {
  simulate::PodsRead all;
  kube::PersonsAccess person(options.kubeconfig, options.environment);
  const auto found = person.get();
  all.problems = person.problems();
  if (!found) return std::unexpected(found.error());
  std::vector<std::string> selectors{"spec.nodeName="};  // pods that are not scheduled yet
  if (!options.node_name.empty()) selectors.insert(selectors.begin(), "spec.nodeName=" + options.node_name);
  TRY(const auto pages, kube::list_pods(*found, selectors));
  for (const auto& page : pages) {
    auto read = simulate::read_pod_page(page, found->server.url());
    std::ranges::move(read.pods, std::back_inserter(all.pods));
    std::ranges::move(read.problems, std::back_inserter(all.problems));
  }
  std::ranges::sort(all.pods, {}, [](const simulate::PodAsk& pod) {
    return std::tuple(pod.node_name.empty(), std::string_view(pod.created), std::string_view(pod.pod_namespace),
                      std::string_view(pod.name));
  });
  return all;
}

// An Error: nothing could be read. Invalid entries are among the result's problems.
Result<simulate::PodsRead> load_pods(const PlanOptions& options) {
  if (options.pods == kCluster) return of_cluster(options);
  TRY(const auto text, read_given(options.pods, simulate::kLargestPodsFile));
  return simulate::read_pods(text, options.pods == "-" ? "standard input" : options.pods);
}

Result<gpu::Inventory> load_inventory(const PlanOptions& options, const config::Config& config) {
  if (options.inventory == "node") {
    auto nvml = gpu::nvml::Driver::open(gpu::driver_settings(config.flags, ""));
    if (!nvml) return std::unexpected(within(std::move(nvml).error(), "cannot read this node's GPUs"));
    return (*nvml)->scan();
  }
  if (gpu::names_model(options.inventory)) return gpu::inventory_of_model(options.inventory);
  const auto text = os::read_file(options.inventory);
  if (text) return gpu::parse_inventory(*text, options.inventory);
  const bool is_path = options.inventory.find_first_of("/.") != std::string::npos;
  return is_path ? std::unexpected(text.error()) : gpu::inventory_of_model(options.inventory);
}

// The result of one configuration on the node.
struct Side {
  config::ConfigView config;
  gpu::Inventory inventory;  // with this configuration's filter applied
  plan::Plan plan;
  labels::Labels labels;
  std::vector<simulate::Simulation> nodes{};  // with --pods

  std::string name() const { return config.path.empty() ? "the defaults" : config.path; }
};

// False: the errors were printed. `strict`: warnings are errors.
bool make_plan(Side& side, const gpu::Inventory& inventory, bool strict) {
  side.inventory = plan::keep_gpus(side.config.config.devices, inventory);
  auto made = plan::make_plan(side.config.config, side.inventory);
  if (made && strict && !made->warnings.empty()) {
    for (Problem& warning : made->warnings) warning.severity = Severity::kError;
    made = std::unexpected(std::move(made->warnings));
  }
  if (!made) {
    print_problems(made.error());
    return false;
  }
  side.plan = *std::move(made);
  side.labels = labels::labels_for(side.config.config, side.inventory, side.plan, {});
  for (auto& note : labels::notes_for(side.inventory)) side.plan.notes.push_back(std::move(note));
  return true;
}

// The same flags and variables with another file. Absent: the error was printed.
std::optional<Side> other_side(const PlanOptions& options, const gpu::Inventory& inventory) {
  config::Invocation invocation = options;
  invocation.flags["config-file"] = {options.against};
  Side side;
  side.config = config::load_config(invocation);
  for (auto& problem : side.config.problems)  // the file named by this flag
    if (problem.place.source == options.against && problem.place.line == 0)
      problem.remedy = "name a readable file with --against";
  if (print_problems(side.config.problems) || !make_plan(side, inventory, options.strict())) return std::nullopt;
  return side;
}

// The unexpected value is the exit status: the errors were printed.
std::expected<simulate::PodsRead, int> pods_of(const PlanOptions& options) {
  auto read = load_pods(options);
  if (!read)
    return std::unexpected(failed("plan", "cannot read the pods (--pods): " + to_string(read.error()),
                                  options.pods == kCluster ? 1 : kUnusable));
  if (print_problems(read->problems)) return std::unexpected(kUnusable);
  return *std::move(read);
}

std::vector<simulate::Difference> differences_of(const Side& before, const Side& after) {
  auto differences = simulate::compare({before.plan, before.labels}, {after.plan, after.labels});
  if (!before.nodes.empty())
    std::ranges::move(simulate::compare(before.nodes.front(), after.nodes.front()), std::back_inserter(differences));
  return differences;
}

struct Answer {
  Side side;
  std::optional<Side> against;
  std::optional<std::vector<simulate::UnknownObject>> unknown;  // with --pods
  std::vector<simulate::Difference> differences;
  std::vector<grants::Step> steps;  // the steps of a running node
};

nlohmann::ordered_json steps_json(const std::vector<grants::Step>& steps) {
  auto list = nlohmann::ordered_json::array();
  for (const auto& step : steps)
    list.push_back({{"what", std::string(grants::to_string(step.what))},
                    {"resource", step.resource},
                    {"devices", step.devices},
                    {"text", grants::to_string(step)}});
  return list;
}

void print_json(const PlanOptions& options, const Answer& answer) {
  nlohmann::ordered_json document = answer.side.plan;
  document["labels"] = answer.side.labels;
  const auto& config = answer.side.config;
  if (options.explain) document["configuration"] = config::report_json(config.path, config.problems, &config.explained);
  if (options.nodes > 1 && !answer.side.nodes.empty()) document["nodes"] = answer.side.nodes;
  if (options.nodes == 1 && !answer.side.nodes.empty()) document["simulation"] = answer.side.nodes.front();
  if (answer.unknown) document["unknownObjects"] = *answer.unknown;
  if (answer.against) {
    document["against"] = {{"file", answer.against->config.path},
                           {"differences", answer.differences},
                           {"steps", steps_json(answer.steps)}};
    if (!answer.against->nodes.empty()) document["against"]["simulation"] = answer.against->nodes.front();
  }
  fmt::print("{}\n", json_text(document, 2));
}

void print_text(const PlanOptions& options, const Answer& answer, const Process& process) {
  const plan::TableOptions look{.colour = process.terminal, .width = process.width > 0 ? process.width : kPipedWidth};
  const auto print = [&](const std::string& text) { fmt::print("{}", fitted(text, process.width)); };
  if (options.explain) print(config::explained_text(answer.side.config.explained) + "\n");
  const auto& nodes = answer.side.nodes;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const std::string table = simulate::render_table(nodes[i], look);
    print(nodes.size() == 1 ? table : fmt::format("Node {} of {}\n{}\n", i + 1, nodes.size(), table));
  }
  if (nodes.size() > 1) fmt::print("{}\n", simulate::needed_text(nodes));
  if (!nodes.empty() && answer.against) fmt::print("\n");
  if (answer.against)
    print(simulate::render_table(answer.differences, answer.against->name(), answer.side.name(), look));
  if (!answer.steps.empty()) {
    fmt::print("\nOn a running node\n");
    for (const auto& step : answer.steps) print("  " + grants::to_string(step) + "\n");
  }
  if (nodes.empty() && !answer.against)
    print(plan::render_table(answer.side.plan, answer.side.inventory,
                             options.labels ? answer.side.labels : labels::Labels{}, look));
}

int plan(const PlanOptions& options, const Process& process) {
  Answer answer;
  answer.side.config = config::load_config(options);
  if (print_problems(answer.side.config.problems)) return kUnusable;

  const auto inventory = load_inventory(options, answer.side.config.config);
  if (!inventory)
    return failed("plan",
                  to_string(inventory.error()) +
                      "\n  without a GPU, name a model, `--inventory 8xH100-SXM5-80GB`, or a file that `tranche "
                      "plan --inventory-only` wrote on a node");
  if (options.inventory_only) {
    fmt::print("{}\n", json_text(gpu::to_json(*inventory), 2));
    return 0;
  }
  if (!make_plan(answer.side, *inventory, options.strict())) return kUnusable;
  if (!options.against.empty()) {
    answer.against = other_side(options, *inventory);
    if (!answer.against) return kUnusable;
  }
  if (!options.pods.empty()) {
    auto pods = pods_of(options);
    if (!pods) return pods.error();
    for (Side* side : {&answer.side, answer.against ? &*answer.against : nullptr})
      if (side != nullptr)
        side->nodes = simulate::land_on_nodes(options.nodes, side->plan, side->inventory, side->config.config,
                                              pods->pods, options.node_name);
    answer.unknown = std::move(pods->unknown);
  }
  if (answer.against) {
    answer.differences = differences_of(*answer.against, answer.side);
    answer.steps = grants::steps(answer.against->plan, answer.side.plan);
  }
  options.json ? print_json(options, answer) : print_text(options, answer, process);
  const bool all_land = answer.unknown.value_or(std::vector<simulate::UnknownObject>{}).empty() &&
                        std::ranges::all_of(answer.side.nodes, &simulate::Simulation::all_land);
  const bool offers = !answer.side.plan.resources.empty() || answer.side.inventory.gpus.empty() ||
                      answer.side.config.config.dra.devices != config::DraDevices::kNone;
  return all_land && offers && answer.differences.empty() ? 0 : kNotAsHoped;
}

}  // namespace

void add_plan(CLI::App& app, Process& process) {
  auto options = std::make_shared<PlanOptions>();
  auto* command = app.add_subcommand(
      "plan",
      "what a node would advertise, limit and label under a configuration, and what it would leave out and why");
  add_settings(*command, config::Program::kDevicePlugin, options->flags);
  command->add_option(
      "--inventory", options->inventory,
      "\"node\" for the GPUs of this machine, a number of equal GPUs such as 8xH100-SXM5-80GB, or a file with "
      "a recorded inventory. " +
          gpu::known_models(""));
  add_config_alias(*command, options->flags);
  add_strict(*command, options->unknown_keys);
  command->add_flag("--explain", options->explain, "first the value of every setting and where it comes from");
  command->add_flag("--labels", options->labels, "also the labels that the node would get");
  command->add_flag("--inventory-only", options->inventory_only,
                    "print the inventory instead of a plan: a recording for --inventory");
  command
      ->add_option("--pods", options->pods,
                   "where these pods would land: a file of Pods and workloads (YAML or JSON), \"-\" for the standard "
                   "input, or \"cluster\" for those of --node-name and those that wait for a node")
      ->type_name("FILE");
  auto* nodes = command
                    ->add_option("--nodes", options->nodes,
                                 "with --pods FILE: over how many nodes like this one; a pod goes to the first with "
                                 "enough free slots")
                    ->check(CLI::Range(1, 100));
  auto* against =
      command->add_option("--against", options->against,
                          "a second configuration file: what the first changes, with --pods also where pods land");
  against->type_name("FILE")->excludes(nodes);
  add_kubeconfig(*command, options->kubeconfig, "with --pods cluster: ");
  add_variable_option(*command, "--node-name", options->node_name,
                      "with --pods: what the cluster calls the node; pods of other nodes are left out");
  command->add_flag("--json", options->json, "the plan, simulation and differences as JSON (docs/reference/plan.md)");
  command->footer(
      "Examples:\n"
      "  tranche plan --config new.yaml                        this node\n"
      "  tranche plan --config new.yaml --inventory 8xH200     without a GPU\n"
      "  tranche plan --config new.yaml --against old.yaml     what a change does\n"
      "Exit status: 0 the plan can be made, every pod lands and nothing differs; 1 the node or cluster cannot be read; "
      "2 a configuration or the pods cannot be used; 3 no resource is offered although there are GPUs, a pod does not "
      "land or is not predicted, or the configurations differ.");
  command->callback([options, &process] {
    options->environment = process.environment;
    process.exit_code = plan(*options, process);
  });
}

void add_demo(CLI::App& app, Process& process) {
  auto options = std::make_shared<programs::DemoOptions>();
  auto* command = app.add_subcommand(
      "demo", "a simulated node with pods sharing its GPUs, in this terminal; needs no GPU and no root");
  command->add_option("--profile", options->profile, "GPU model. " + gpu::known_models(""));
  command->add_option("--gpus", options->gpus, "how many GPUs the node has")->check(CLI::Range(1, 16));
  command->add_option("--slots", options->slots, "slots a GPU is cut into")->check(CLI::Range(2, 48));
  command->add_option("--config-file", options->config_file, "a configuration of your own instead of MPS with --slots")
      ->check(CLI::ExistingFile);
  command
      ->add_option(
          "--pods", options->pods_file,
          "Kubernetes YAML with pods of your own (Pod, Deployment, Job). The demo runs them: unlike `tranche plan "
          "--pods`, each container needs a command that the simulation has, such as [sim-cuda, --allocate, "
          "2GiB, --hold]")
      ->check(CLI::ExistingFile);
  command->add_option("--standins", options->standins, "folder of the simulated driver and kubelet");
  command->add_flag("--once", options->once, "print one report once the simulation is stable, then exit");
  command->add_flag("--json", options->json, "the report as JSON");
  command->add_flag("--keep", options->keep, "keep the temporary directory with its files");
  command->footer("Example:\n  tranche demo --gpus 2 --slots 4");
  command->callback([options, &process] { process.exit_code = programs::run_demo(*options); });
}

}  // namespace tranche::cli
