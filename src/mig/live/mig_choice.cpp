#include <algorithm>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/text.h"
#include "kube/object.h"
#include "mig/live/mig_manager.h"
#include "os/files/files.h"
#include "os/log/log.h"

namespace tranche::mig {
namespace {

using namespace std::chrono_literals;

constexpr Duration kSettling = 50ms;  // a file may be written in several steps
constexpr const char* kRole = "deploy/rbac/mig.yaml";
constexpr const char* kMapKey = "config.yaml";  // as NVIDIA's manager names it

}  // namespace

std::string texts_of(const std::vector<Problem>& problems, Severity severity) {
  std::vector<std::string> texts;
  for (const auto& problem : problems)
    if (problem.severity == severity) texts.push_back(to_string(problem));
  return join(texts, "; ");
}

MigChoice::MigChoice(os::Loop& loop, os::Worker& worker, const MigOptions& options, std::string node_name,
                     Callbacks callbacks)
    : loop_(loop),
      worker_(worker),
      options_(options),
      node_name_(std::move(node_name)),
      callbacks_(std::move(callbacks)) {
  watch_file();
}

void MigChoice::use(kube::KubeClient& client) {
  node_watch_ = std::make_unique<kube::WatchObject>(
      loop_, client, kube::WatchedObject{"/api/v1/nodes", node_name_, kRole, stable_hash(node_name_ + " mig")},
      [this](const nlohmann::json* node) {
        if (node != nullptr) on_node(*node);  // otherwise what it asked for last stays
      },
      [this] {
        if (const auto why = node_watch_->unknown_because(); !label_ && why) callbacks_.unreachable(*why);
      });
  if (options_.config_map.empty()) return;
  const auto name = kube::parse_object_name(options_.config_map);
  if (!name) {
    file_ = fail(Kind::kInvalid, name.error().what);
    return callbacks_.changed();
  }
  source_ = "ConfigMap " + options_.config_map + "[" + kMapKey + "]";
  file_.reset();
  map_watch_ = std::make_unique<kube::WatchObject>(
      loop_, client,
      kube::WatchedObject{"/api/v1/namespaces/" + name->in_namespace + "/configmaps", name->name, kRole,
                          stable_hash(node_name_ + " mig map")},
      [this](const nlohmann::json* object) { on_map(object); }, [] {});
}

void MigChoice::on_node(const nlohmann::json& node) {
  const auto labels = kube::labels_of(node);
  const auto value = [&](const char* key) {
    const auto found = labels.find(key);
    return found == labels.end() ? std::string() : found->second;
  };
  callbacks_.state_label(value(kMigStateLabel));
  const bool other = !options_.in_operators_place && value(kMigOperatorLabel) == "true";
  const std::string asked = value(kMigConfigLabel);
  if (label_ == asked && other_manager_ == other) return;
  label_ = asked;
  other_manager_ = other;
  callbacks_.changed();
}

void MigChoice::on_map(const nlohmann::json* object) {
  if (object == nullptr) return take(fail(Kind::kNotFound, source_ + " does not exist"));
  const auto data = kube::data_of_config_map(*object);
  const auto found = data.find(kMapKey);
  if (found == data.end())
    return take(fail(Kind::kNotFound, "the ConfigMap " + options_.config_map + " has no key " + kMapKey));
  take(found->second);
}

// A text of 1 MiB takes longer to parse than a callback of the loop may.
void MigChoice::take(Definitions next) {
  if (newest_ == next) return;
  newest_ = next;
  worker_.run(loop_, [this, alive = alive_, next, source = source_] {
    auto parsed = next ? Result<ParsedFile>(parse_configuration_file(*next, source)) : std::unexpected(next.error());
    return [this, alive, parsed = std::move(parsed)] {
      if (!*alive) return;
      file_ = parsed;
      callbacks_.changed();
    };
  });
}

void MigChoice::watch_file() {
  const std::string& path = options_.config_file;
  if (path.empty()) return;
  source_ = path;
  const auto folder = std::filesystem::path(path).parent_path();
  auto watch = os::DirWatch::open(loop_, folder.empty() ? "." : folder.string(), [this](const std::string&) {
    settle_.start(kSettling, [this] { take(os::read_file(options_.config_file)); });
  });
  if (watch)
    dir_watch_ = *std::move(watch);
  else
    log::warning("mig.config_unwatched", {{"path", path}, {"why", watch.error()}});
  take(os::read_file(options_.config_file));  // after the watch, so that each later change causes an event
}

std::string MigChoice::name() const {
  const std::string label = label_.value_or("");
  return label.empty() ? options_.default_name : label;
}

const Configuration* MigChoice::find(const std::vector<GpuState>& gpus, std::string& why) {
  const std::string asked = name();
  std::vector<std::string_view> known;
  if (file_ && !*file_) {
    why = "the MIG configurations cannot be read: " + to_string(file_->error());
    return nullptr;
  }
  if (file_) {
    why = texts_of((*file_)->problems, Severity::kError);
    if (!why.empty()) return nullptr;
    if (const auto* found = (*file_)->file.find(asked)) return found;
    known = (*file_)->file.names();
  }
  defaults_ = default_configurations(gpus);
  if (const auto* found = defaults_.find(asked)) return found;
  for (const auto one : defaults_.names())
    if (std::ranges::find(known, one) == known.end()) known.push_back(one);
  why = "there is no MIG configuration " + in_quotes(asked) + "; there are: " + join(known, ", ", std::identity());
  return nullptr;
}

}  // namespace tranche::mig
