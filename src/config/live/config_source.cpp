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

}  // namespace tranche::config
