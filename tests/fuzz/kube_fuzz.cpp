// Answers of the API server.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "base/json_text.h"
#include "base/text.h"
#include "dra/slices.h"
#include "fuzz/target.h"
#include "kube/access.h"
#include "kube/object.h"
#include "kube/pod.h"

using namespace tranche;

namespace {

using namespace tranche::kube;

struct Outcome {
  std::vector<std::string> versions;
  std::vector<PodEnding> endings;
  std::size_t pods = 0;
  bool broken = false;
  friend bool operator==(const Outcome&, const Outcome&) = default;
};

Outcome follow(std::string_view bytes, std::size_t piece) {
  constexpr std::size_t kLongest = 512;
  LineReader lines(kLongest);
  PodTable table;
  Outcome outcome;
  while (!bytes.empty() && !outcome.broken) {
    const auto some = lines.take(bytes.substr(0, piece));
    bytes.remove_prefix(std::min(piece, bytes.size()));
    for (const auto& line : some) {
      if ((outcome.broken = line.size() > kLongest)) break;
      auto version = parse_watch_line(line, [&](Change change, const nlohmann::json& object) {
        std::ranges::move(table.apply(change, read_pod(object)), std::back_inserter(outcome.endings));
      });
      if (!version) continue;
      if (version->empty()) std::abort();
      outcome.versions.push_back(*std::move(version));
    }
  }
  outcome.pods = table.size();
  return outcome;
}

}  // namespace

// A watch's body: the same bytes give the same events however they are cut; what is accepted has a version; a table
// that follows it holds no more pods than there were events.
FUZZ(kube_watch) {
  const Outcome one = follow(text, 1);
  const Outcome seven = follow(text, 7);
  if (one != seven) std::abort();
  if (one.pods > one.versions.size()) std::abort();
}

// Any body of a list: what is accepted has a version, and twice the same list ends nothing.
FUZZ(kube_pods) {
  using namespace tranche::kube;
  if (status_of_body(500, text).code != 500) std::abort();
  std::vector<PodSeen> pods;
  const auto head = parse_list(text, [&pods](const nlohmann::json& object) -> Status {
    pods.push_back(read_pod(object));
    return {};
  });
  if (!head) return;
  if (head->resource_version.empty()) std::abort();
  PodTable table;
  table.replace(pods);
  if (table.size() > pods.size()) std::abort();
  if (table.size() == pods.size() && !table.replace(pods).empty()) std::abort();
}

// A list of objects, a node, a ConfigMap and the name of one, as anybody may send them: read without harm; a name that
// is accepted can stand in a path.
FUZZ(kube_objects) {
  const auto head = kube::parse_list(text, [](const nlohmann::json& object) -> Status {
    kube::name_of(object);
    kube::labels_of(object);
    kube::data_of_config_map(object);
    return {};
  });
  if (head && head->resource_version.empty()) std::abort();
  if (const auto name = kube::parse_object_name(text)) {
    if (name->in_namespace + "/" + name->name != text) std::abort();
    if (text.find("..") == 0 || name->name.find('/') != std::string::npos) std::abort();
  }
}

// Any text as the Node that an API server answers with: a patch without the taint is JSON and names the version read.
FUZZ(kube_node) {
  const auto patch = tranche::kube::patch_without_taint(text, "tranche.io/starting");
  if (!patch || !*patch) return;
  const auto json = nlohmann::json::parse(**patch, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object() || !json["metadata"]["resourceVersion"].is_string() || !json["spec"]["taints"].is_array())
    std::abort();
}

// Any text: every problem says what to do; what is accepted leads to a server whose address reads back as itself, and
// has no token that could become a header of its own. The
// same of what a credential program prints.
FUZZ(kubeconfig) {
  using namespace tranche::kube;
  const std::string all(text);
  Access access;
  access.program = CredentialProgram{"client.authentication.k8s.io/v1", {"aws"}, {}, {}, true, ""};
  const bool credential = read_credential(all, *access.program, access).has_value();
  for (const char c : access.token)
    if (!credential || c <= ' ' || c > '~') std::abort();
  const auto parsed = parse_kubeconfig({{all, "/etc/fuzz"}, {"kind: Config", "second"}});
  for (const auto& problem : parsed.problems)
    if (problem.what.empty() || problem.remedy.empty()) std::abort();
  if (parsed.access.has_value() == has_error(parsed.problems)) std::abort();
  if (!parsed.access) return;
  const auto again = parse_server(parsed.access->server.url());
  if (!again || *again != parsed.access->server) std::abort();
  for (const char c : parsed.access->token)
    if (c <= ' ' || c > '~') std::abort();
}

namespace {

tranche::dra::StoredSlice stored(const tranche::dra::SliceWrite& write) {
  auto object = tranche::json_of(tranche::dra::body_of(write, "n1", "uid"));
  object["metadata"]["resourceVersion"] = "18446744073709551615";
  return tranche::dra::read_slice(object);
}

}  // namespace

// Any list of ResourceSlices: from whatever the server has, the writes end with what is wanted.
FUZZ(resource_slices) {
  std::vector<dra::StoredSlice> all;
  const auto head = kube::parse_list(text, [&all](const nlohmann::json& object) -> Status {
    (void)dra::features_of(object);
    all.push_back(dra::read_slice(object));
    return {};
  });
  if (!head) return;
  dra::Device device;
  device.name = "gpu-0";
  dra::SliceLedger ledger;
  ledger.want(dra::slices_of({device}, {"gpu.tranche.io", "n1"}).list);
  ledger.replace(all);
  std::size_t writes = 0;
  while (const auto write = ledger.next()) {
    const bool gone = write->what == dra::SliceWrite::What::kDelete;
    ledger.written(*write, gone ? std::nullopt : std::optional(stored(*write)));
    if (++writes > all.size() + 8) std::abort();
  }
  if (ledger.stored().size() != 2) std::abort();
}
