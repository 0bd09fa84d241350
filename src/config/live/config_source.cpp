#include "config/live/config_source.h"

#include <filesystem>

#include "cdi/feature_flags.h"
#include "config/parse/parse.h"
#include "config/report.h"
#include "kube/object.h"
#include "os/files/files.h"
#include "os/log/log.h"

namespace tranche::config {
namespace {

constexpr auto kProgram = Program::kDevicePlugin;
constexpr const char* kByFile = "file";
constexpr const char* kByDefaults = "defaults";

ConfigView view_of(const std::string& text, const std::string& source, const GivenFlags& flags,
                   const Environment& environment, UnknownKeys unknown_keys, Program program = kProgram) {
  ConfigView next{resolve(parse(text, source, unknown_keys), program, flags, environment), source};
  // Values that only CDI spec generation knows; reported here, so that a check of the configuration includes them.
  for (auto& problem : cdi::read_features(next.run).problems) next.problems.push_back(std::move(problem));
  next.in_force = !has_error(next.problems);
  next.chosen_by = source.empty() ? kByDefaults : kByFile;
  next.hash = content_hash(text);
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
    std::string all = given.front();
    for (std::size_t i = 1; i < given.size(); ++i) all += " and " + given[i];
    problems.push_back(error_in(given.back(), "is given beside another place of the configuration: " + all,
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

}  // namespace

ConfigView load_config(const GivenFlags& flags, const Environment& environment, UnknownKeys unknown_keys,
                       Program program) {
  const std::string path = config_file_of(program, flags, environment);
  const auto text = file_text(path);
  if (!text) return view_of_unreadable(path, text.error());
  return view_of(*text, path, flags, environment, unknown_keys, program);
}

void log_problems(const std::vector<Problem>& problems) {
  for (const auto& problem : problems) {
    const auto say = problem.severity == Severity::kError ? log::error : log::warning;
    say("config.problem", {{"text", to_string(problem)}});
  }
}

void log_effective(const ConfigView& view) {
  log::info("config.effective", {{"file", view.path},
                                 {"chosenBy", view.chosen_by},
                                 {"hash", view.hash},
                                 {"given", given_line(view.explained)},
                                 {"config", render_line(view.config)}});
}

ConfigSource::ConfigSource(GivenFlags flags, Environment environment, UnknownKeys unknown_keys, ConfigPlaces places)
    : flags_(std::move(flags)),
      environment_(std::move(environment)),
      unknown_keys_(unknown_keys),
      places_(std::move(places)) {
  if (!waits()) {
    read_file();
    return;
  }
  view_.problems = problems_of(places_, config_file_of(kProgram, flags_, environment_));
  wrong_ = has_error(view_.problems);
  if (!wrong_ && !places_.written.empty()) read_written();
}

ConfigSource::~ConfigSource() = default;

ConfigView ConfigSource::load(const std::string& text, const std::string& source) const {
  return view_of(text, source, flags_, environment_, unknown_keys_);
}

// One megabyte takes 0.4 s, and a loop that serves must not wait for it.
void ConfigSource::load_newest(std::string text, const std::string& source, Loaded then) {
  newest_.reset();
  if (!worker_) return then(load(text, source));
  newest_ = std::make_shared<Loaded>(std::move(then));
  worker_->run([this, text = std::move(text), source, asked = std::weak_ptr(newest_)] {
    if (asked.expired()) return;
    loop_->post([asked, view = load(text, source)] {
      if (const auto newest = asked.lock()) (*newest)(view);
    });
  });
}

void ConfigSource::read_file() {
  const std::string path = config_file_of(kProgram, flags_, environment_);
  auto text = file_text(path);
  const auto take = [this](ConfigView next, const std::string& content) {
    if (next.in_force) return put(std::move(next), content);
    if (!view_.in_force) return publish(std::move(next));
    refuse(std::move(next.problems));
  };
  if (!text) return take(view_of_unreadable(path, text.error()), "");
  load_newest(*text, path, [take, content = *text](ConfigView next) { take(std::move(next), content); });
}

void ConfigSource::put(ConfigView next, const std::string& text) {
  patient_ = false;
  text_ = text;
  next.label = last_label_.value_or("");
  publish(std::move(next));
}

void ConfigSource::refuse(std::vector<Problem> problems) {
  newest_.reset();
  if (!view_.in_force && last_) {
    ConfigView next = load(last_->text, last_->source);
    if (next.in_force) {
      next.name = last_->name;
      next.chosen_by = last_->chosen_by;
      next.problems = std::move(problems);
      next.last_good = true;
      return put(std::move(next), last_->text);
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
  if (on_change_) on_change_();
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

Status ConfigSource::follow(os::Loop& loop, std::function<void()> on_change) {
  loop_ = &loop;
  look_timer_ = std::make_unique<os::Timer>(loop);
  on_change_ = std::move(on_change);
  worker_ = os::Worker::start();
  if (waits() || view_.path.empty()) return {};
  auto watch = os::DirWatch::open(loop, os::parts_of(view_.path).directory, [this](const std::string&) { reload(); });
  if (!watch) return std::unexpected(within(watch.error(), "changes of the configuration are only seen on SIGHUP"));
  watch_ = *std::move(watch);
  look_soon();  // the file may have changed between the first read and the watch
  return {};
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
    const auto place = os::parts_of(places_.written);
    const auto dir = os::Dir::create(place.directory);  // the writing program may start later
    if (!dir) return std::unexpected(dir.error());
    TRY_STATUS(watch_dir(place.directory, place.name));
    read_written();
  } else {
    if (link == nullptr) return fail(Kind::kInvalid, "named configurations need the way to the API server");
    read_last();
    if (!places_.dir.empty()) TRY_STATUS(watch_dir(places_.dir, ""));
    cluster_ = std::make_unique<ClusterConfigs>(
        loop, *link, ClusterConfigsAsked{places_.node_name, places_.label, places_.config_map}, [this] { decide(); });
    patient_ = true;
    patience_timer_ = std::make_unique<os::Timer>(loop);
    patience_timer_->start(places_.patience, [this] {
      patient_ = false;
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

NamedConfigs ConfigSource::configs() const {
  return places_.dir.empty() ? cluster_->configs() : read_config_dir(places_.dir);
}

void ConfigSource::decide() {
  if (!cluster_) return;  // called from its constructor
  const auto found = configs();
  const auto label = cluster_->label();
  if (patient_ && (found.pending || cluster_->label_pending())) return;
  if (!label.why) last_label_ = label.value;
  auto decision =
      config::decide(found, label, {places_.default_name, places_.fallbacks}, last_label_, view_.in_force || last_);
  if (!decision.choice) return refuse(std::move(decision.problems));
  const std::string& name = decision.choice->name;
  std::string text, source;
  if (!name.empty()) {
    source = found.sources.at(name);
    const auto& content = found.texts.at(name);
    if (!content) {
      decision.problems.push_back(error_in(source, "cannot be read: " + to_string(content.error()),
                                           "make it readable and at most 1 MiB large, or choose another one"));
      return refuse(std::move(decision.problems));
    }
    text = *content;
  }
  load_newest(text, source, [this, text, decision](ConfigView next) {
    next.problems.insert(next.problems.begin(), decision.problems.begin(), decision.problems.end());
    if (!next.in_force) return refuse(std::move(next.problems));
    next.name = decision.choice->name;
    next.chosen_by = to_string(decision.choice->by);
    put(std::move(next), text);
  });
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
  const auto chosen = read_chosen(places_.written);
  if (!chosen)
    return refuse({error_in(places_.written, "cannot be used: " + to_string(chosen.error()),
                            "the node agent writes it: start `tranche node` with the same --run-dir")});
  load_newest(chosen->text, chosen->source, [this, chosen = *chosen](ConfigView next) {
    if (!next.in_force) return refuse(std::move(next.problems));
    next.name = chosen.name;
    next.chosen_by = chosen.chosen_by;
    last_label_ = chosen.label;
    put(std::move(next), chosen.text);
  });
}

void ConfigSource::write_down() {
  if (places_.write_down.empty() || loop_ == nullptr || !view_.in_force) return;
  ChosenConfig now{view_.name, view_.chosen_by, last_label_.value_or(""), view_.path, text_};
  if (written_ == now) return;
  const auto place = os::parts_of(places_.write_down);
  const auto dir = os::Dir::create(place.directory);
  const Status done = dir ? dir->write_atomically(place.name, render_chosen(now)) : std::unexpected(dir.error());
  if (!done) log::warning("config.not_written_down", {{"why", done.error()}});
  written_ = std::move(now);
}

Status ConfigSource::watch_dir(const std::string& dir, const std::string& only) {
  auto watch = os::DirWatch::open(*loop_, dir, [this, only](const std::string& name) {
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
  lost_ = false;
  const auto written = os::parts_of(places_.written);
  const auto watched = places_.dir.empty() ? watch_dir(written.directory, written.name) : watch_dir(places_.dir, "");
  if (watched) return;
  lost_ = true;
  log::warning("config.unwatched", {{"why", watched.error()}, {"until", "SIGHUP"}});
}

}  // namespace tranche::config
