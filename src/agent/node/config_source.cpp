#include "agent/node/config_source.h"

#include "config/parse.h"
#include "config/resolve.h"
#include "host/files/files.h"

namespace tranche::agent {
namespace {

std::string directory_of(const std::string& path) {
  const auto slash = path.rfind('/');
  return slash == std::string::npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
}

}  // namespace

std::unique_ptr<ConfigSource> ConfigSource::open(config::GivenFlags flags, config::Environment environment) {
  std::unique_ptr<ConfigSource> source(new ConfigSource);
  source->path_ = config::config_file_of(config::Program::kDevicePlugin, flags, environment);
  source->flags_ = std::move(flags);
  source->environment_ = std::move(environment);
  source->view_ = source->read();
  return source;
}

ConfigView ConfigSource::read() const {
  ConfigView view;
  view.path = path_;
  std::string text;
  if (!path_.empty()) {
    auto content = host::read_file(path_);
    if (!content) {
      view.problems.push_back({Severity::kError,
                               {path_},
                               "",
                               "cannot be read: " + to_string(content.error()),
                               "name a readable file with --config-file, or leave it out"});
      return view;
    }
    text = *std::move(content);
  }
  auto resolved = config::resolve(config::parse(text, path_), config::Program::kDevicePlugin, flags_, environment_);
  view.config = std::move(resolved.config);
  view.run = std::move(resolved.run);
  view.problems = std::move(resolved.problems);
  return view;
}

Status ConfigSource::follow(host::Loop& loop, std::function<void()> on_change) {
  on_change_ = std::move(on_change);
  if (path_.empty()) return {};
  auto watch = host::DirWatch::open(loop, directory_of(path_), [this](const std::string&) { reload(); });
  if (!watch)
    return std::unexpected(
        within(std::move(watch).error(), "changes of the configuration will only be seen on SIGHUP"));
  watch_ = *std::move(watch);
  return {};
}

void ConfigSource::reload() {
  ConfigView next = read();
  if (has_error(next.problems)) {
    if (next.problems == view_.problems && view_.last_good) return;
    next.config = view_.config;
    next.run = view_.run;
    next.last_good = true;
  } else if (next.config == view_.config && next.problems == view_.problems && !view_.last_good) {
    return;
  }
  view_ = std::move(next);
  if (on_change_) on_change_();
}

}  // namespace tranche::agent
