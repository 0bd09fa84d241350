// Inputs of the stand-ins.
#include <algorithm>
#include <sstream>
#include <vector>

#include "fuzz/target.h"
#include "gpu_profile.h"
#include "node_spec.h"
#include "sim_node.h"
#include "standins/cuda/sim_cuda_options.h"
#include "standins/mps/commands.h"
#include "standins/mps/limits.h"
#include "standins/mps/wire.h"
#include "yaml_tree.h"

using namespace tranche;

namespace {

void require_sane(bool condition) {
  if (!condition) std::abort();
}

// Quotes every text, so that what was read reads the same again.
std::string rendered(const tranche::sim::YamlItem& item) {
  using Shape = tranche::sim::YamlItem::Shape;
  const auto quoted = [](std::string_view text) {
    std::string out = "\"";
    for (const char c : text) {
      if (c == '\n') {
        out += "\\n";
      } else {
        if (c == '"' || c == '\\') out += '\\';
        out += c;
      }
    }
    return out + "\"";
  };
  if (item.shape == Shape::kNothing) return "~";
  if (item.shape == Shape::kText) return quoted(item.text);
  const bool map = item.shape == Shape::kMap;
  std::string out = map ? "{" : "[";
  for (const auto& [name, child] : item.entries) {
    if (out.size() > 1) out += ", ";
    if (map) out += quoted(name) + ": ";
    out += rendered(child);
  }
  return out + (map ? "}" : "]");
}

}  // namespace

// node.yaml and GPU profiles of the simulated node: whatever is in the file, it is read or refused with a place.
FUZZ(sim_node_yaml) {
  std::vector<Problem> problems;
  const sim::NodeSpec spec = sim::parse_node_spec(text, "node.yaml", problems);
  require_sane(spec.gpus.size() <= sim::kMaxGpus);
  for (const auto& problem : problems) {
    require_sane(!problem.what.empty() && !problem.remedy.empty());
    require_sane(problem.place.line >= 0 && static_cast<std::size_t>(problem.place.line) <= text.size() + 1);
  }
  problems.clear();
  const sim::GpuProfile profile = sim::parse_profile(text, "profile.yaml", problems);
  require_sane(profile.mig.profile_count <= sim::kMaxGiProfiles);
  problems.clear();
  const auto tree = sim::read_yaml(text, "any.yaml", problems);
  if (tree && problems.empty()) {
    const std::string again = rendered(*tree);
    const auto same = sim::read_yaml(again, "again.yaml", problems);
    require_sane(same.has_value() && rendered(*same) == again);
  }
}

// The control daemon stand-in reads command lines and packets from whoever connects.
FUZZ(sim_mps_command) {
  using namespace tranche::sim;
  const auto command = parse_command(text);
  if (command.name.empty() && !command.args.empty()) std::abort();
  for (const auto& word : command.args) {
    if (word.empty() || word.find_first_of(" \t") != std::string::npos) std::abort();
    loose_number(word);
  }
  if (command.kind == CommandKind::kUnknown && right_needed(command.kind) != Right::kAnyone) std::abort();
  if (const auto message = parse_message(text)) {
    const auto again = parse_message(render(*message));
    if (!again || again->verb != message->verb || again->fields != message->fields) std::abort();
  }
}

// A tenant writes what it likes into CUDA_MPS_PINNED_DEVICE_MEM_LIMIT and CUDA_MPS_ACTIVE_THREAD_PERCENTAGE.
FUZZ(sim_mps_limit) {
  using namespace tranche::sim;
  const std::string all(text);
  const std::vector<std::string> uuids{"GPU-11111111-0000-0000-0000-000000000000",
                                       "GPU-22222222-0000-0000-0000-000000000000"};
  constexpr std::uint64_t kServer = 4ull << 30;
  const auto memory = read_client_memory(all, uuids);
  if (memory.lifted && !memory.by_uuid.empty()) std::abort();
  for (const auto& [uuid, bytes] : memory.by_uuid) {
    if (bytes == 0 || std::ranges::find(uuids, uuid) == uuids.end()) std::abort();
  }
  const auto limit = effective_memory(memory, uuids[0], kServer);
  if (limit.has_value() == memory.lifted || (limit && *limit > kServer)) std::abort();
  const double percent = effective_percentage(all, 50);
  if (!(percent > 0 && percent <= 50)) std::abort();
  const auto sms = sms_for(percent, 132);
  if (sms < 8 || sms > 66 || sms % 2 != 0) std::abort();
  MemoryLimits limits;
  limits.set(all, parse_daemon_memory(all));
  if (limits.get(all) == std::optional<std::uint64_t>(0)) std::abort();
}

// The command line of sim-cuda, one word a line, and the lines that it obeys: pods of tests and people write them.
FUZZ(sim_cuda_options) {
  using namespace tranche::sim;
  std::istringstream lines{std::string(text)};
  std::vector<std::string> words;
  for (std::string word; std::getline(lines, word);) words.push_back(word);
  std::string problem;
  const auto options = parse_sim_cuda_options(words, &problem);
  if (options.has_value() != problem.empty()) std::abort();
  if (options) {
    if (options->queue < 1 || options->kernel_ns < 0 || options->seconds_ns < 0 || options->report_ns < 0) std::abort();
    if (options->on_term && (options->on_term->file.empty() || options->on_term->seconds_ns < 0)) std::abort();
    if (options->on_term && options->on_term->seconds_ns > INT64_MAX / kSavedParts) std::abort();
  }
  for (const auto& word : words) {
    const auto line = parse_sim_cuda_line(word);
    if (line.kernel_ns < 0 || line.count < 0) std::abort();
  }
}
