#include "programs/config_manager/config_manager.h"

#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <memory>
#include <optional>
#include <vector>

#include "base/text.h"
#include "config/choose.h"
#include "config/live/config_source.h"
#include "containers/attribution.h"
#include "kube/client/kube_client.h"
#include "os/files/files.h"
#include "os/files/watch.h"
#include "os/log/log.h"
#include "os/loop/fd.h"
#include "os/loop/loop.h"
#include "os/process/process.h"
#include "os/process/threads.h"
#include "os/worker/worker.h"

namespace tranche::programs {
namespace {

using namespace std::chrono_literals;

constexpr Duration kSettling = 50ms;  // kubelet replaces several links, and an editor writes in several steps
constexpr const char* kEmpty = "/dev/null";

class ConfigManager {
 public:
  ConfigManager(const ConfigManagerOptions& options, os::Loop& loop) : options_(options), loop_(loop) {}

  Result<int> run() {
    TRY_STATUS(loop_.on_signals({SIGTERM, SIGINT, SIGQUIT}, [this](int) { end(0); }));
    TRY(const auto watch, os::DirWatch::open(loop_, options_.source_dir, [this](const std::string&) { look_soon(); }));
    worker_ = os::Worker::start();  // with these signals blocked
    link_ = std::make_unique<kube::KubeLink>(loop_, *worker_, options_.kubeconfig, options_.environment);
    config::ConfigPlaces places;
    places.label = options_.node_label;
    places.node_name = options_.node_name;
    cluster_ = std::make_unique<config::ClusterConfigs>(loop_, *link_, places, [this] { decide(); });
    loop_.after(options_.patience, [this] {
      if (std::exchange(patient_, false)) decide();
    });
    loop_.run();
    return exit_code_;
  }

 private:
  void look_soon() {
    if (!look_timer_.running()) look_timer_.start(kSettling, [this] { decide(); });
  }

  void decide() {
    const auto label = cluster_->label();
    if (patient_ && label.pending) return;
    patient_ = false;
    const auto found = config::read_config_dir(options_.source_dir);
    const bool something_in_force = applied_ || os::read_link(options_.target);
    const auto decision = config::decide(found, label, options_.rules, linked_name(), something_in_force);
    say(decision.problems);
    if (decision.choice) {
      apply(*decision.choice, found);
    } else if (!something_in_force) {
      return end(1);  // no program can start without one: kubelet restarts this container
    }
    if (options_.oneshot) end(exit_code_);
  }

  void say(const std::vector<Problem>& problems) {
    if (problems == said_) return;
    said_ = problems;
    config::log_problems(problems);
  }

  void apply(const config::Choice& choice, const config::NamedConfigs& found) {
    const std::string leads = choice.name.empty() ? kEmpty : options_.source_dir + "/" + choice.name;
    std::string hash = config::content_hash("");
    if (!choice.name.empty()) {
      const auto& text = found.texts.at(choice.name);
      if (!text) log::warning("config.unreadable", {{"why", text.error()}});
      hash = config::content_hash(text.value_or(""));
    }
    const bool same =
        os::read_link(options_.target).value_or("") == leads || os::lead_to_one_file(options_.target, leads);
    if (!same) {
      if (const auto put = os::put_link(leads, options_.target); !put) {
        log::error("config.not_linked", {{"why", put.error()}});
        return end(1);
      }
    }
    if (!same || !applied_)
      log::info(same ? "config.kept" : "config.linked",
                {{"config", choice.name}, {"chosenBy", config::to_string(choice.by)}, {"hash", hash}});
    const bool edited = applied_ && *applied_ != hash;
    applied_ = std::move(hash);
    if (options_.send_signal && (!same || edited)) notify_reader();
  }

  void notify_reader() {
    const auto signalled = signal_reader(options_.process, os::parts_of(options_.target).directory, options_.signal);
    if (signalled) return log::info("reader.signalled", {{"process", options_.process}, {"pid", *signalled}});
    log::warning("reader.not_signalled", {{"why", signalled.error()}});
  }

  void end(int code) {
    exit_code_ = code;
    loop_.stop();
  }

  // the configuration that the link points at
  std::optional<std::string> linked_name() const {
    const auto leads = os::read_link(options_.target);
    const std::string prefix = options_.source_dir + "/";
    if (!leads || !leads->starts_with(prefix)) return std::nullopt;
    return leads->substr(prefix.size());
  }

  ConfigManagerOptions options_;
  os::Loop& loop_;
  std::unique_ptr<os::Worker> worker_;
  std::unique_ptr<kube::KubeLink> link_;
  std::unique_ptr<config::ClusterConfigs> cluster_;
  bool patient_ = true;
  os::Timer look_timer_{loop_};
  std::optional<std::string> applied_;  // the hash that the reader was last signalled for
  std::vector<Problem> said_;
  int exit_code_ = 0;
};

constexpr std::size_t kLongestName = 15;  // of a process, in the kernel
constexpr std::size_t kLongestMountTable = std::size_t{8} << 20;

// Of a process in the same pod only: reading the command line of any other could block for as long as its owner likes.
bool has_name(pid_t pid, const std::string& wanted) {
  const std::string proc = "/proc/" + std::to_string(pid);
  const auto words = os::read_file(proc + "/cmdline");
  if (!words || words->empty()) return false;  // a kernel thread, or a process that has just exited
  const auto argv0 = words->substr(0, words->find('\0'));
  return is_called(wanted, argv0, os::read_link(proc + "/exe").value_or(""));
}

// The folder and file system that a process sees at that path.
std::optional<std::string> folder_of(const std::string& process, const std::string& folder) {
  const auto mounts = os::read_file("/proc/" + process + "/mountinfo", kLongestMountTable);
  if (!mounts) return std::nullopt;
  return containers::mounted_at(*mounts, folder);
}

// By the kernel's record of the process's name and executable, which the process chooses. Only the mount table of a
// process with this name is read, because the kernel can need seconds to write one.
bool seems_called(const std::string& wanted, pid_t pid) {
  const auto sight = os::look_at_process(pid);
  const auto program = os::read_link("/proc/" + std::to_string(pid) + "/exe").value_or("");
  return is_called(wanted, "", program) || (sight && sight->name == os::parts_of(wanted).name.substr(0, kLongestName));
}

}  // namespace

bool is_called(const std::string& wanted, const std::string& argv0, const std::string& program) {
  const auto name = os::parts_of(wanted).name;
  return !name.empty() && (os::parts_of(argv0).name == name || os::parts_of(program).name == name);
}

Result<pid_t> signal_reader(const std::string& wanted, const std::string& folder, int signal) {
  const auto ours = folder_of("self", folder);
  std::size_t elsewhere = 0;
  for (const pid_t pid : os::all_processes()) {
    if (pid == ::getpid() || !seems_called(wanted, pid)) continue;
    const os::Fd held = os::open_pidfd(pid).value_or(os::Fd());
    if (!ours || folder_of(std::to_string(pid), folder) != ours) {
      ++elsewhere;
      continue;
    }
    if (!held || !has_name(pid, wanted)) continue;
    // While the process is there, its pidfd refers to the one that was examined.
    if (::syscall(SYS_pidfd_send_signal, held.get(), signal, nullptr, 0) == 0) return pid;
    if (errno != ESRCH) return fail_errno("cannot signal process " + std::to_string(pid), wanted);
  }
  std::string what = "no process of that name reads " + folder;
  if (elsewhere > 0) what += "; " + std::to_string(elsewhere) + " of it do not see that folder: another pod's";
  return fail(Kind::kNotFound, what, wanted);
}

int run_config_manager(const ConfigManagerOptions& options) {
  const auto loop = os::Loop::open();
  const auto ran = loop ? ConfigManager(options, **loop).run() : std::unexpected(loop.error());
  if (!ran) log::error("start.failed", {{"why", ran.error()}});
  return ran.value_or(1);
}

}  // namespace tranche::programs
