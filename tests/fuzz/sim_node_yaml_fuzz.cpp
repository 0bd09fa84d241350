// node.yaml and GPU profiles of the simulated node: whatever is in the file, it is read or refused with a place.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "gpu_profile.h"
#include "node_spec.h"
#include "sim_node.h"
#include "yaml_tree.h"

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

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tranche;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  std::vector<Problem> problems;
  const sim::NodeSpec spec = sim::parse_node_spec(text, "node.yaml", problems);
  require_sane(spec.gpus.size() <= sim::kMaxGpus);
  for (const auto& problem : problems) {
    require_sane(!problem.what.empty() && !problem.remedy.empty());
    require_sane(problem.place.line >= 0 && static_cast<std::size_t>(problem.place.line) <= size + 1);
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
  return 0;
}
