#include "config/live/config_source.h"

#include <sys/stat.h>

#include <filesystem>

#include "base/text.h"
#include "cdi/make_specs.h"
#include "config/parse/parse.h"
#include "config/resolve.h"
#include "kube/object.h"
#include "os/files/files.h"
#include "os/log/log.h"

namespace tranche::config {
namespace {

constexpr auto kProgram = Program::kDevicePlugin;

ConfigView view_of(ChosenConfig content, const Invocation& invocation, Program program = kProgram) {
  ConfigView next{resolve(parse(content.text, content.path, invocation.unknown_keys), program, invocation),
                  std::move(content)};
  // Values that only CDI spec generation knows; reported here, so that a check of the configuration includes them.
  for (auto& problem : cdi::flag_problems(next.config.run)) next.problems.push_back(std::move(problem));
  next.in_force = !has_error(next.problems);
  if (next.chosen_by.empty()) next.chosen_by = next.path.empty() ? "defaults" : "file";
  next.hash = content_hash(next.text);
  return next;
}

// The text of the file, "" if none is given. The config manager links the file to /dev/null for "no settings"; any
// other empty file is a mistake.
Result<std::string> file_text(const std::string& path) {
  std::error_code absent;
  if (path.empty()) return std::string();
  if (std::filesystem::canonical(path, absent) == "/dev/null") return std::string("version: v1\n");
  return os::read_file(path);
}

ConfigView view_of_unreadable(const std::string& path, const Error& error) {
  ConfigView next;
  next.path = path;
  next.problems.push_back(
      error_in(path, error.where == path ? error.what : to_string(error),
               "name a readable file of at most 1 MiB with --config (--config-file), or leave it out"));
  return next;
}

// Problems of giving several sources of configuration at once, or of one of them.
std::vector<Problem> problems_of(const ConfigPlaces& places, const std::string& file) {
  std::vector<std::string> given;
  if (!file.empty()) given.emplace_back("--config-file (or $CONFIG_FILE)");
  if (!places.dir.empty()) given.emplace_back("--config-dir (or $CONFIG_FILE_SRCDIR)");
  if (!places.config_map.empty()) given.emplace_back("--config-map");
  if (!places.written.empty()) given.emplace_back("--config-of-node");
  std::vector<Problem> problems;
  if (given.size() > 1) {
    problems.push_back(error_in(given.back(),
                                "is given beside another place of the configuration: " + join(given, " and "),
                                "give one of them; make the other variables and flags empty"));
  }
  if (!places.config_map.empty())
    if (const auto name = kube::parse_object_name(places.config_map); !name)
      problems.push_back(error_in("--config-map", name.error().what, "write for example --config-map tranche/configs"));
  return problems;
}

using namespace std::chrono_literals;

// A file may be written in several steps, and kubelet replaces symbolic links one after the other.
constexpr Duration kSettling = 50ms;

Result<ChosenConfig> read_chosen(const std::string& path) {
  TRY(const auto text, os::read_file(path, std::size_t{4} << 20));
  auto chosen = parse_chosen(text);
  if (!chosen) return std::unexpected(Error{Kind::kInvalid, chosen.error().what, path});
  return chosen;
}

constexpr const char* kRole = "deploy/rbac/config.yaml";
constexpr const char* kNoWayYet = "the way to the API server is being found";

std::optional<std::string> why_unknown(const std::optional<std::string>& off, const kube::WatchObject* watch) {
  if (off) return off;
  return watch == nullptr ? kNoWayYet : watch->unknown_because();
}

constexpr const char* kMounted = "..data";  // kubelet's link to the newest version of a mounted volume

bool is_folder(const os::Dir& dir, const std::string& name) {
  struct stat about{};
  return ::fstatat(dir.fd(), name.c_str(), &about, 0) == 0 && S_ISDIR(about.st_mode);
}

// An open directory stays at the same version when kubelet replaces the link.
Result<os::Dir> version_of(const std::string& path) {
  if (auto mounted = os::Dir::open(path + "/" + kMounted)) return mounted;
  return os::Dir::open(path);
}

}  // namespace

ConfigView load_config(const Invocation& invocation, Program program) {
  const std::string path = config_file_of(program, invocation);
  const auto text = file_text(path);
  if (!text) return view_of_unreadable(path, text.error());
  return view_of({.path = path, .text = *text}, invocation, program);
}

void log_problems(const std::vector<Problem>& problems) {
  for (const auto& problem : problems) {
    const auto say = problem.severity == Severity::kError ? log::error : log::warning;
    say("config.problem", {{"text", to_string(problem)}});
  }
}

void log_view(const ConfigView& view) {
  log_problems(view.problems);
  log::info("config.effective", {{"file", view.path},
                                 {"chosenBy", view.chosen_by},
                                 {"hash", view.hash},
                                 {"given", given_line(view.explained)},
                                 {"config", render_line(view.config)}});
}

ConfigSource::ConfigSource(Invocation invocation, ConfigPlaces places)
    : invocation_(std::move(invocation)), places_(std::move(places)) {
  if (!waits()) {
    read_file();
    return;
  }
  view_.problems = problems_of(places_, config_file_of(kProgram, invocation_));
  wrong_ = has_error(view_.problems);
  if (!wrong_ && !places_.written.empty()) read_written();
}

ConfigSource::~ConfigSource() = default;

// One megabyte takes 0.4 s, and a loop that serves must not wait for it.
void ConfigSource::load_newest(ChosenConfig newest, std::vector<Problem> found) {
  if (!worker_) return take(view_of(std::move(newest), invocation_), found);
  worker_->run(*loop_, [this, number = ++newest_, newest = std::move(newest), found = std::move(found)] {
    auto view = number == newest_ ? view_of(newest, invocation_) : ConfigView{};
    return [this, number, found, view = std::move(view)] {
      if (number == newest_) take(view, found);
    };
  });
}

void ConfigSource::take(ConfigView next, const std::vector<Problem>& found) {
  next.problems.insert(next.problems.begin(), found.begin(), found.end());
  if (!next.in_force && !view_.in_force && !waits()) return publish(std::move(next));
  if (!next.in_force) return refuse(std::move(next.problems));
  if (!places_.written.empty()) last_label_ = next.label;
  put(std::move(next));
}

void ConfigSource::read_file() {
  const std::string path = config_file_of(kProgram, invocation_);
  const auto text = file_text(path);
  if (!text) return take(view_of_unreadable(path, text.error()), {});
  load_newest({.path = path, .text = *text}, {});
}

void ConfigSource::put(ConfigView next) {
  if (patience_) patience_->stop();
  next.label = last_label_.value_or("");
  publish(std::move(next));
}

void ConfigSource::refuse(std::vector<Problem> problems) {
  ++newest_;
  if (!view_.in_force && last_) {
    ConfigView next = view_of(*last_, invocation_);
    if (next.in_force) {
      next.problems = std::move(problems);
      next.last_good = true;
      return put(std::move(next));
    }
  }
  ConfigView next = view_;
  next.label = last_label_.value_or("");
  next.problems = std::move(problems);
  next.last_good = view_.in_force;
  publish(std::move(next));
}

void ConfigSource::publish(ConfigView next) {
  if (next == view_) return;
  view_ = std::move(next);
  if (view_.in_force) write_down();
  if (on_change_) {
    log::info("config.changed", {{"path", view_.path}, {"inForce", view_.last_good ? "last good" : "newest"}});
    log_view(view_);
    on_change_();
  }
  if (!beginning_) return;
  if (view_.in_force) return loop_->stop();
  for (const auto& problem : view_.problems) log::error("config.waiting", {{"why", to_string(problem)}});
}

void ConfigSource::reload() {
  if (!waits()) return read_file();
  if (loop_ == nullptr) return;
  if (lost_) look_again();
  if (cluster_) return decide();
  read_written();
}

bool ConfigSource::hand_on_node(OnNode on_node) {
  if (!cluster_ || places_.node_name.empty()) return false;
  cluster_->hand_on_node(std::move(on_node));
  return true;
}

void ConfigSource::follow(os::Loop& loop, std::function<void()> on_change) {
  loop_ = &loop;
  look_timer_ = std::make_unique<os::Timer>(loop);
  on_change_ = std::move(on_change);
  worker_ = os::Worker::start();
  if (waits() || view_.path.empty()) return;
  auto watch = os::DirWatch::open(loop, os::parts_of(view_.path).directory, [this](const std::string&) { reload(); });
  if (!watch) return log::warning("config.unwatched", {{"why", watch.error()}, {"until", "SIGHUP"}});
  watch_ = *std::move(watch);
  look_soon();  // the file may have changed between the first read and the watch
}

// ---- several inputs: named configurations, the node's label, the recorded configuration

Status ConfigSource::begin(os::Loop& loop, kube::KubeLink* link) {
  loop_ = &loop;
  look_timer_ = std::make_unique<os::Timer>(loop);
  if (!waits()) {
    write_down();
    return {};
  }
  if (!places_.written.empty()) {
    TRY(const auto dir,
        os::Dir::create(os::parts_of(places_.written).directory));  // the writing program may start later
    TRY_STATUS(watch_place());
    read_written();
  } else {
    if (link == nullptr) return fail(Kind::kInvalid, "named configurations need the way to the API server");
    read_last();
    if (!places_.dir.empty()) TRY_STATUS(watch_place());
    cluster_ = std::make_unique<ClusterConfigs>(loop, *link, places_, [this] { decide(); });
    patience_ = std::make_unique<os::Timer>(loop);
    patience_->start(places_.patience, [this] {
      if (!view_.in_force) decide();
    });
    decide();
  }
  if (view_.in_force) return {};
  beginning_ = true;
  loop.run();
  beginning_ = false;
  return {};
}

void ConfigSource::decide() {
  if (!patience_) return;  // called from the constructor of cluster_
  const auto found = places_.dir.empty() ? cluster_->configs() : read_config_dir(places_.dir);
  const auto label = cluster_->label();
  if (patience_->running() && (found.pending || label.pending)) return;
  if (!label.why) last_label_ = label.value;
  auto decision = config::decide(found, label, places_.rules, last_label_, view_.in_force || last_);
  if (!decision.choice) return refuse(std::move(decision.problems));
  ChosenConfig content{.name = decision.choice->name, .chosen_by = std::string(to_string(decision.choice->by))};
  if (!content.name.empty()) {
    content.path = found.sources.at(content.name);
    const auto& text = found.texts.at(content.name);
    if (!text) {
      decision.problems.push_back(error_in(content.path, "cannot be read: " + to_string(text.error()),
                                           "make it readable and at most 1 MiB large, or choose another one"));
      return refuse(std::move(decision.problems));
    }
    content.text = *text;
  }
  load_newest(std::move(content), std::move(decision.problems));
}

void ConfigSource::read_last() {
  if (places_.write_down.empty()) return;
  auto last = read_chosen(places_.write_down);
  if (!last) {
    if (last.error().kind != Kind::kNotFound) log::warning("config.last_unreadable", {{"why", last.error()}});
    return;
  }
  if (enum_of<ChosenBy>(last->chosen_by)) last_label_ = last->label;
  last_ = *std::move(last);
}

void ConfigSource::read_written() {
  auto chosen = read_chosen(places_.written);
  if (!chosen)
    return refuse({error_in(places_.written, "cannot be used: " + to_string(chosen.error()),
                            "the node agent writes it: start `tranche node` with the same --run-dir")});
  load_newest(*std::move(chosen), {});
}

void ConfigSource::write_down() {
  if (places_.write_down.empty() || loop_ == nullptr || !view_.in_force) return;
  auto record = render_chosen(view_);
  if (written_ == record) return;
  const auto place = os::parts_of(places_.write_down);
  const auto dir = os::Dir::create(place.directory);
  const Status done = dir ? dir->write_atomically(place.name, record) : std::unexpected(dir.error());
  if (!done) log::warning("config.not_written_down", {{"why", done.error()}});
  written_ = std::move(record);
}

Status ConfigSource::watch_place() {
  const auto [dir, file] = places_.dir.empty() ? os::parts_of(places_.written) : os::PathParts{places_.dir, ""};
  auto watch = os::DirWatch::open(*loop_, dir, [this, only = file](const std::string& name) {
    if (!name.empty() && !only.empty() && name != only) return;
    lost_ = lost_ || name.empty();
    look_soon();
  });
  if (!watch) return std::unexpected(within(watch.error(), "the configuration cannot be followed"));
  watch_ = *std::move(watch);
  return {};
}

void ConfigSource::look_soon() {
  if (!look_timer_->running()) look_timer_->start(kSettling, [this] { reload(); });
}

void ConfigSource::look_again() {
  const auto watched = watch_place();
  lost_ = !watched;
  if (lost_) log::warning("config.unwatched", {{"why", watched.error()}, {"until", "SIGHUP"}});
}

// ---- what the API server has

ClusterConfigs::ClusterConfigs(os::Loop& loop, kube::KubeLink& link, ConfigPlaces places,
                               std::function<void()> on_change)
    : loop_(loop), link_(link), places_(std::move(places)), on_change_(std::move(on_change)) {
  link_.when_settled([this] { start(); });
}

void ClusterConfigs::start() {
  auto* client = link_.client();
  if (client == nullptr) {
    off_ = link_.closed_because();
    return on_change_();
  }
  // Seeds of their own, so that nodes that start together do not send requests at the same time.
  const auto watch = [&](std::string path, std::string name, const char* seed, auto take) {
    return std::make_unique<kube::WatchObject>(
        loop_, *client,
        kube::WatchedObject{std::move(path), std::move(name), kRole, stable_hash(places_.node_name + seed)},
        std::move(take), on_change_);
  };
  if (!places_.node_name.empty())
    node_watch_ = watch("/api/v1/nodes", places_.node_name, " label", [this](const nlohmann::json* node) {
      if (on_node_) on_node_(node);
      label_ = node == nullptr ? fail(Kind::kNotFound, "the cluster has no node " + places_.node_name)
                               : Result<std::string>(kube::labels_of(*node)[places_.label]);
    });
  if (const auto map = kube::parse_object_name(places_.config_map))
    map_watch_ = watch("/api/v1/namespaces/" + map->in_namespace + "/configmaps", map->name, " map",
                       [this](const nlohmann::json* object) {
                         const auto texts = object == nullptr ? kube::Texts() : kube::data_of_config_map(*object);
                         map_ = configs_of_map(places_.config_map, texts);
                         if (object == nullptr) map_->why = "it is not there";
                       });
  on_change_();
}

LabelSeen ClusterConfigs::label() const {
  LabelSeen seen{places_.label, places_.node_name, {}};
  if (places_.node_name.empty())
    seen.why = "the name of this node is not known (--node-name, $NODE_NAME)";
  else if (!label_)
    seen.why = why_unknown(off_, node_watch_.get());
  else if (*label_)
    seen.value = **label_;
  else
    seen.why = label_->error().what;
  seen.pending = !label_ && !off_ && !places_.node_name.empty();
  return seen;
}

NamedConfigs ClusterConfigs::configs() const {
  if (map_) return *map_;
  return {.where = "ConfigMap " + places_.config_map,
          .why = why_unknown(off_, map_watch_.get()).value_or("it is being read"),
          .pending = !off_};
}

NamedConfigs read_config_dir(const std::string& path) {
  NamedConfigs found{.where = path};
  const auto dir = version_of(path);
  const auto names = dir ? dir->list() : std::unexpected(dir.error());
  if (!names) {
    found.why = to_string(names.error());
    return found;
  }
  for (const auto& name : *names) {
    if (name.starts_with("..") || is_folder(*dir, name)) continue;
    found.texts.emplace(name, dir->read(name));
    found.sources.emplace(name, path + "/" + name);
  }
  return found;
}

NamedConfigs configs_of_map(const std::string& name, const std::map<std::string, std::string>& data) {
  NamedConfigs found{.where = "ConfigMap " + name};
  for (const auto& [key, text] : data) {
    found.texts.emplace(key, text);
    found.sources.emplace(key, found.where + "[" + key + "]");
  }
  return found;
}

}  // namespace tranche::config
