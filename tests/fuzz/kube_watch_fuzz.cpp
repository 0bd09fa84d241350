// A watch's body: the same bytes give the same events however they are cut; what is accepted names its pod and has a
// version; a table that follows it holds no pod twice.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "kube/pod_table.h"
#include "kube/watch_event.h"

namespace {

using namespace tranche;
using namespace tranche::kube;

struct Outcome {
  std::vector<WatchEvent> events;
  std::vector<PodSeen> pods;
  bool broken = false;
  friend bool operator==(const Outcome&, const Outcome&) = default;
};

Outcome follow(std::string_view bytes, std::size_t piece) {
  Lines lines(512);
  PodTable table;
  Outcome outcome;
  while (!bytes.empty() && !outcome.broken) {
    const auto some = lines.take(bytes.substr(0, piece));
    bytes.remove_prefix(std::min(piece, bytes.size()));
    if (!some) outcome.broken = true;
    for (const auto& line : some.value_or(std::vector<std::string>{})) {
      auto event = parse_watch_line(line, [&](Change change, const nlohmann::json& object) -> Status {
        TRY(auto pod, read_pod(object));
        if (pod.name.empty() || pod.pod_namespace.empty() || pod.uid.empty()) std::abort();
        table.apply(change, std::move(pod));
        return {};
      });
      if (!event) continue;
      if (event->change != Change::kError && event->resource_version.empty()) std::abort();
      outcome.events.push_back(*std::move(event));
    }
  }
  outcome.pods = table.pods();
  return outcome;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const Outcome one = follow(bytes, 1);
  const Outcome seven = follow(bytes, 7);
  if (one.broken != seven.broken) std::abort();
  if (!one.broken && one != seven) std::abort();  // of a broken stream a larger piece gives less
  std::set<std::pair<std::string, std::string>> names;
  for (const auto& pod : one.pods)
    if (!names.emplace(pod.pod_namespace, pod.name).second) std::abort();
  return 0;
}
