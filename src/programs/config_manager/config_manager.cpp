#include "programs/config_manager/config_manager.h"

#include <csignal>
#include <memory>
#include <optional>

#include "config/chosen.h"
#include "config/live/cluster_configs.h"
#include "kube/client/kube_link.h"
#include "os/files/links.h"
#include "os/files/watch.h"
#include "os/log/log.h"
#include "os/loop/loop.h"
#include "os/worker/worker.h"
#include "programs/config_manager/find_reader.h"

namespace tranche::agent {
namespace {

using namespace std::chrono_literals;

constexpr Duration kSettling = 50ms;  // kubelet replaces several links, and an editor writes in several steps
constexpr const char* kEmpty = "/dev/null";

std::string folder_of(const std::string& path) {
  const auto slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

class ConfigManager {
 public:
  explicit ConfigManager(const ConfigManagerOptions& options) : options_(options) {}

  int run() {
    if (const auto opened = open(); !opened) {
      log::error("start.failed", {{"why", opened.error()}});
      return 1;
    }
    loop_->run();
    return exit_code_;
  }

 private:
  Status open();
  void look_soon();
  void decide();
  void say(const std::vector<Problem>& problems);
  void apply(const config::Choice& choice, const NamedConfigs& found);
  void notify_reader();
  void end(int code) {
    exit_code_ = code;
    loop_->stop();
  }
  std::optional<std::string> linked_name() const;  // the configuration that the link points at

  ConfigManagerOptions options_;
  std::unique_ptr<host::Loop> loop_;
  std::unique_ptr<host::Worker> worker_;
  std::unique_ptr<host::KubeLink> link_;
  std::unique_ptr<ClusterConfigs> cluster_;
  std::unique_ptr<host::DirWatch> watch_;
  bool patient_ = true;
  bool looking_ = false;
  std::optional<std::string> applied_;  // the hash that the reader was last signalled for
  std::vector<Problem> said_;
  int exit_code_ = 0;
};

Status ConfigManager::open() {
  TRY(loop_, host::Loop::open());
  TRY_STATUS(loop_->on_signals({SIGTERM, SIGINT, SIGQUIT}, [this](int) { end(0); }));
  TRY(watch_, host::DirWatch::open(*loop_, options_.source_dir, [this](const std::string&) { look_soon(); }));
  worker_ = host::Worker::start();
  link_ = std::make_unique<host::KubeLink>(*loop_, *worker_, options_.kubeconfig, options_.environment);
  cluster_ = std::make_unique<ClusterConfigs>(
      *loop_, *link_, ClusterConfigsAsked{options_.node_name, options_.node_label, ""}, [this] { decide(); });
  loop_->after(options_.patience, [this] {
    if (!std::exchange(patient_, false)) return;
    decide();
  });
  return {};
}

void ConfigManager::look_soon() {
  if (std::exchange(looking_, true)) return;
  loop_->after(kSettling, [this] {
    looking_ = false;
    decide();
  });
}

std::optional<std::string> ConfigManager::linked_name() const {
  const auto leads = host::read_link(options_.target);
  const std::string prefix = options_.source_dir + "/";
  if (!leads || !leads->starts_with(prefix)) return std::nullopt;
  return leads->substr(prefix.size());
}

void ConfigManager::say(const std::vector<Problem>& problems) {
  if (problems == said_) return;
  said_ = problems;
  for (const auto& problem : problems) {
    const auto level = problem.severity == Severity::kError ? log::error : log::warning;
    level("config.problem", {{"text", to_string(problem)}});
  }
}

void ConfigManager::decide() {
  if (patient_ && cluster_->label_pending()) return;
  patient_ = false;
  const auto found = read_config_dir(options_.source_dir);
  const bool something_in_force = applied_ || host::read_link(options_.target);
  const auto decision =
      config::decide(found.set(), cluster_->label(), options_.rules, linked_name(), something_in_force);
  say(decision.problems);
  if (decision.choice) {
    apply(*decision.choice, found);
  } else if (!something_in_force) {
    return end(1);  // no program can start without one: kubelet restarts this container
  }
  if (options_.oneshot) end(exit_code_);
}

void ConfigManager::apply(const config::Choice& choice, const NamedConfigs& found) {
  const std::string leads = choice.name.empty() ? kEmpty : options_.source_dir + "/" + choice.name;
  std::string hash = config::content_hash("");
  if (!choice.name.empty()) {
    const auto& text = found.texts.at(choice.name);
    if (!text) log::warning("config.unreadable", {{"why", text.error()}});
    hash = config::content_hash(text.value_or(""));
  }
  const bool same =
      host::read_link(options_.target).value_or("") == leads || host::lead_to_one_file(options_.target, leads);
  if (!same) {
    if (const auto put = host::put_link(leads, options_.target); !put) {
      log::error("config.not_linked", {{"why", put.error()}});
      return end(1);
    }
    log::info("config.linked", {{"config", choice.name}, {"chosenBy", config::to_string(choice.by)}, {"hash", hash}});
  }
  if (same && !applied_)
    log::info("config.kept", {{"config", choice.name}, {"chosenBy", config::to_string(choice.by)}, {"hash", hash}});
  const bool edited = applied_ && *applied_ != hash;
  applied_ = std::move(hash);
  if (options_.send_signal && (!same || edited)) notify_reader();
}

void ConfigManager::notify_reader() {
  const auto signalled = signal_reader(options_.process, folder_of(options_.target), options_.signal);
  if (signalled) return log::info("reader.signalled", {{"process", options_.process}, {"pid", *signalled}});
  log::warning("reader.not_signalled", {{"why", signalled.error()}});
}

}  // namespace

int run_config_manager(const ConfigManagerOptions& options) {
  return ConfigManager(options).run();
}

}  // namespace tranche::agent
