#include "agent/config/config_source.h"

#include "cdi/words.h"
#include "config/parse.h"
#include "config/render.h"
#include "config/report.h"
#include "host/files/files.h"
#include "host/log/log.h"

namespace tranche::agent {
namespace {

constexpr auto kProgram = config::Program::kDevicePlugin;

std::string directory_of(const std::string& path) {
  const auto slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

}  // namespace

ConfigView load_config(const config::GivenFlags& flags, const config::Environment& environment,
                       config::UnknownKeys unknown_keys) {
  ConfigView next;
  next.path = config::config_file_of(kProgram, flags, environment);
  std::string text;
  if (!next.path.empty()) {
    auto content = host::read_file(next.path);
    if (!content) {
      next.problems.push_back({Severity::kError,
                               {next.path},
                               "",
                               "cannot be read: " + to_string(content.error()),
                               "name a readable file with --config-file, or leave it out"});
      return next;
    }
    text = *std::move(content);
  }
  auto resolved = config::resolve(config::parse(text, next.path, unknown_keys), kProgram, flags, environment);
  next.config = std::move(resolved.config);
  next.run = std::move(resolved.run);
  next.problems = std::move(resolved.problems);
  // Words that only the making of CDI specs knows; said here, so that whoever checks a configuration hears of them.
  for (auto& problem : cdi::read_words(next.run).problems) next.problems.push_back(std::move(problem));
  next.explained = std::move(resolved.explained);
  return next;
}

void log_effective(const ConfigView& view) {
  log::info("config.effective", {{"file", view.path},
                                 {"given", config::given_line(view.explained)},
                                 {"config", config::render_line(view.config)}});
}

ConfigSource::ConfigSource(config::GivenFlags flags, config::Environment environment, config::UnknownKeys unknown_keys)
    : flags_(std::move(flags)),
      environment_(std::move(environment)),
      unknown_keys_(unknown_keys),
      view_(load_config(flags_, environment_, unknown_keys_)) {}

Status ConfigSource::follow(host::Loop& loop, std::function<void()> on_change) {
  on_change_ = std::move(on_change);
  if (view_.path.empty()) return {};
  auto watch = host::DirWatch::open(loop, directory_of(view_.path), [this](const std::string&) { reload(); });
  if (!watch) return std::unexpected(within(watch.error(), "changes of the configuration are only seen on SIGHUP"));
  watch_ = *std::move(watch);
  return {};
}

void ConfigSource::reload() {
  ConfigView next = load_config(flags_, environment_, unknown_keys_);
  if (has_error(next.problems)) {
    next.config = view_.config;
    next.run = view_.run;
    next.explained = view_.explained;
    next.last_good = true;
  }
  if (next == view_) return;
  view_ = std::move(next);
  if (on_change_) on_change_();
}

}  // namespace tranche::agent
