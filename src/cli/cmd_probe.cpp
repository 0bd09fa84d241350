#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "base/text.h"
#include "base/units.h"
#include "cli/commands.h"
#include "probe/main.h"

namespace tranche::cli {
namespace {

struct ProbeHeld {
  probe::ProbeCliOptions options;
  std::vector<std::string> allocate;
};

int probe(ProbeHeld& held) {
  for (const auto& text : held.allocate) {
    const auto size = parse_size(text);
    if (!size || size->value == 0) {
      fmt::print(stderr, "tranche probe: --allocate: not a size: {}; write for example 512M or 3G\n", in_quotes(text));
      return 2;
    }
    held.options.probe.allocate.push_back(*size);
  }
  return probe::probe_main(held.options, stdout, stderr);
}

}  // namespace

void add_probe(CLI::App& app, Process& process) {
  auto held = std::make_shared<ProbeHeld>();
  auto* command = app.add_subcommand(
      "probe", "a small GPU program: SMs, memory, right answers and speed, as a process gets them here");
  auto& o = held->options;
  const auto add_seconds = [command](const char* flag, auto& into, double least, const char* help) {
    const auto take = [&into](double seconds) {
      into = std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds));
    };
    return command->add_option_function<double>(flag, take, help)->check(CLI::Range(least, 86400.0));
  };
  command->add_option("--device", o.probe.device, "index or UUID; the first visible by default");
  command->add_option("--allocate", held->allocate, "try to allocate this much (512M, 3G); may be repeated");
  command->add_flag("--find-limit", o.probe.find_limit, "search for the largest single allocation");
  add_seconds("--seconds", o.probe.run_for, 0.0, "compute for this long; 0 for not at all")->default_str("0.25");
  command->add_option("--blocks", o.probe.blocks, "thread blocks a launch; 0 for one an SM")->capture_default_str();
  command->add_flag("--tensor-cores", o.probe.tensor_cores,
                    "compute with bf16 products in kernels of about 10 ms (compute capability 8.0 and newer)");
  command->add_option("--queue", o.probe.queue, "launches before each wait for them")
      ->check(CLI::Range(1U, 1000U))
      ->capture_default_str();
  command->add_flag("--hold", o.hold, "hold the context and allocations until SIGTERM");
  add_seconds("--hold-for", o.hold_for, 0.0, "hold them this many seconds");
  add_seconds("--deadline", o.deadline, 0.1, "seconds for each stage that should be quick")->default_str("30");
  command->add_option("--endpoint", o.container.endpoint,
                      "run as in the container of a grant, with this directory of the grant at /run/tranche/mps");
  command->add_option("--as-user", o.container.user, "run as this user and group id")
      ->check(CLI::Range(1U, 4294967294U));
  command->add_flag("--stages", o.stages, "print each stage on stderr as it begins");
  command->add_flag("--json", o.json, "the report as one line of JSON");
  command->footer("Example:\n  tranche probe --find-limit --seconds 0     how much memory a process gets here");
  command->callback([held, &process] { process.exit_code = probe(*held); });
}

}  // namespace tranche::cli
