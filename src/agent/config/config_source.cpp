#include "agent/config/config_source.h"

#include "config/parse.h"
#include "host/files/files.h"

namespace tranche::agent {
namespace {

constexpr auto kProgram = config::Program::kDevicePlugin;

std::string directory_of(const std::string& path) {
  const auto slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

}  // namespace

ConfigSource::ConfigSource(config::GivenFlags flags, config::Environment environment)
    : flags_(std::move(flags)),
      environment_(std::move(environment)),
      path_(config::config_file_of(kProgram, flags_, environment_)),
      view_(read()) {}

ConfigView ConfigSource::read() const {
  ConfigView next;
  next.path = path_;
  std::string text;
  if (!path_.empty()) {
    auto content = host::read_file(path_);
    if (!content) {
      next.problems.push_back({Severity::kError,
                               {path_},
                               "",
                               "cannot be read: " + to_string(content.error()),
                               "name a readable file with --config-file, or leave it out"});
      return next;
    }
    text = *std::move(content);
  }
  auto resolved = config::resolve(config::parse(text, path_), kProgram, flags_, environment_);
  next.config = std::move(resolved.config);
  next.run = std::move(resolved.run);
  next.problems = std::move(resolved.problems);
  return next;
}

Status ConfigSource::follow(host::Loop& loop, std::function<void()> on_change) {
  on_change_ = std::move(on_change);
  if (path_.empty()) return {};
  auto watch = host::DirWatch::open(loop, directory_of(path_), [this](const std::string&) { reload(); });
  if (!watch) return std::unexpected(within(watch.error(), "changes of the configuration are only seen on SIGHUP"));
  watch_ = *std::move(watch);
  return {};
}

void ConfigSource::reload() {
  ConfigView next = read();
  if (has_error(next.problems)) {
    next.config = view_.config;
    next.run = view_.run;
    next.last_good = true;
  }
  if (next == view_) return;
  view_ = std::move(next);
  if (on_change_) on_change_();
}

}  // namespace tranche::agent
