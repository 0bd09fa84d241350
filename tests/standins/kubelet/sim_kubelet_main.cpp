// sim-kubelet: kubelet, scheduler and container runtime of one simulated node, for device plugins and their tenants.
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/problem.h"
#include "base/text.h"
#include "standins/kubelet/control.h"
#include "standins/kubelet/dra_kubelet.h"
#include "standins/kubelet/pod_runner.h"

namespace tranche::sim {
namespace {

constexpr int kUsage = 2;

constexpr const char* kHelp = R"(usage: sim-kubelet --plugin-dir DIR [options]
       sim-kubelet send CONTROL-SOCKET COMMAND...
       sim-kubelet claim REGISTRY-SOCKET prepare|unprepare NAMESPACE/NAME UID

Plays kubelet for device plugins: registration, ListAndWatch, Allocate and PodResources as the real one,
and runs the pods of FILEs as processes once their devices are allocated.

  --plugin-dir DIR             where kubelet.sock and the plugins' sockets lie; its sockets are deleted at start
  --pod-resources-socket PATH  serve PodResources v1 there
  --pods FILE                  Kubernetes YAML: Pod, Deployment, Job; may be repeated
  --state-file FILE            the node's state as JSON, replaced at every change
  --containers process|namespaces
                               process (default): no root needed, container paths become host paths in variables and
                               arguments; namespaces: a mount namespace with real mounts, needs root
  --control PATH               a socket for commands: restart, apply FILE, delete POD, state, stop
  --once                       stop when every pod has ended: exit status 0 if all succeeded, 1 otherwise
  --grace SECONDS              from SIGTERM to SIGKILL when the whole node stops (default 5)
  --back-off SECONDS           before the second restart of a container in a row (default 10, doubling up to 5 min)

Commands of `send`: restart | apply FILE | delete [NAMESPACE/]POD | delete deployment/NAME | delete job/NAME | state | stop
`claim` registers the driver at its socket and makes one call for a ResourceClaim; the answer is a line of JSON.
)";

struct Options {
  KubeletSettings kubelet{};
  RunnerSettings runner{};
  std::vector<std::string> pods{};
  std::string control{};
};

std::optional<Duration> seconds(const std::string& text) {
  const auto point = text.find('.');
  const auto whole = parse_unsigned(std::string_view(text).substr(0, point));
  if (!whole || *whole > 1'000'000) return std::nullopt;
  Duration result = std::chrono::seconds(*whole);
  if (point == std::string::npos) return result;
  const std::string digits = text.substr(point + 1);
  const auto fraction = digits.size() <= 9 ? parse_unsigned(digits) : std::nullopt;
  if (!fraction) return std::nullopt;
  return result + Duration(*fraction * static_cast<std::uint64_t>(std::llround(std::pow(10, 9 - digits.size()))));
}

// Returns the error in the option's value, or "".
std::string take(Options& options, const std::string& name, const std::string& value) {
  const auto text = [&](std::string& into) { return into = value, std::string(); };
  const auto time = [&](Duration& into) {
    const auto given = seconds(value);
    if (given) into = *given;
    return given ? std::string() : fmt::format("{}: {} is not a number of seconds", name, in_quotes(value));
  };
  if (name == "--plugin-dir") return text(options.kubelet.plugin_dir);
  if (name == "--pod-resources-socket") return text(options.kubelet.pod_resources_socket);
  if (name == "--pods") return options.pods.push_back(value), "";
  if (name == "--state-file") return text(options.runner.state_file);
  if (name == "--control") return text(options.control);
  if (name == "--grace") return time(options.runner.stop_grace);
  if (name == "--back-off") return time(options.runner.back_off);
  if (value != "process" && value != "namespaces") {
    return fmt::format("--containers: {} is neither process nor namespaces", in_quotes(value));
  }
  options.runner.mode = value == "process" ? ContainerMode::kProcess : ContainerMode::kNamespaces;
  return "";
}

Result<Options> read_options(const std::vector<std::string>& words) {
  static const std::vector<std::string_view> kWithValue = {
      "--plugin-dir", "--pod-resources-socket", "--pods", "--state-file", "--containers", "--control", "--grace",
      "--back-off"};
  Options options;
  for (std::size_t i = 0; i < words.size(); ++i) {
    std::string name = words[i];
    std::optional<std::string> value;
    if (const auto equals = name.find('='); name.starts_with("--") && equals != std::string::npos) {
      value = name.substr(equals + 1);
      name.resize(equals);
    }
    if (name == "--once") {
      options.runner.once = true;
      continue;
    }
    if (std::find(kWithValue.begin(), kWithValue.end(), name) == kWithValue.end()) {
      const std::string meant = did_you_mean(name, kWithValue);
      return fail(Kind::kInvalid, fmt::format("there is no option {}{}", in_quotes(name),
                                              meant.empty() ? "" : fmt::format("; did you mean {}?", meant)));
    }
    if (!value) {
      if (++i == words.size()) return fail(Kind::kInvalid, name + " needs a value");
      value = words[i];
    }
    if (std::string wrong = take(options, name, *value); !wrong.empty()) return fail(Kind::kInvalid, std::move(wrong));
  }
  if (options.kubelet.plugin_dir.empty()) return fail(Kind::kInvalid, "--plugin-dir is missing");
  if (options.runner.mode == ContainerMode::kNamespaces && ::geteuid() != 0) {
    return fail(Kind::kDenied, "--containers namespaces makes mounts and needs root; use --containers process");
  }
  return options;
}

Result<std::string> text_of(const std::string& path) {
  std::ifstream file(path);
  if (!file) return std::unexpected(error_from_errno(errno, "cannot read", path));
  return std::string(std::istreambuf_iterator<char>(file), {});
}

// The pods of a file; absent, with all errors on standard error, if it has any.
std::optional<std::vector<PodSpec>> read_pods(const std::string& path) {
  const auto text = text_of(path);
  if (!text) {
    say(to_string(text.error()));
    return std::nullopt;
  }
  PodsFile file = parse_pods(*text, path);
  for (const Problem& problem : file.problems) std::fprintf(stderr, "%s\n", to_string(problem).c_str());
  if (has_error(file.problems)) return std::nullopt;
  return std::move(file.pods);
}

// SIGCHLD, SIGTERM and SIGINT are read from a descriptor; blocked before any other thread starts.
int block_signals() {
  sigset_t signals;
  ::sigemptyset(&signals);
  for (const int signal : {SIGCHLD, SIGTERM, SIGINT}) ::sigaddset(&signals, signal);
  ::sigprocmask(SIG_BLOCK, &signals, nullptr);
  return ::signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
}

void run_command(PodRunner& runner, const std::string& line, const Control::Answer& answer) {
  const auto words = words_of(line);
  const std::string_view verb = words.empty() ? "" : words[0];
  const std::string object = words.size() == 2 ? std::string(words[1]) : "";
  const auto done = [&answer](const std::string& problem) { answer(problem.empty() ? "ok" : "error: " + problem); };
  if (verb == "restart" && words.size() == 1) {
    runner.restart_kubelet(
        [answer](const std::string& problem) { answer(problem.empty() ? "ok" : "error: " + problem); });
  } else if (verb == "apply" && words.size() == 2) {
    const auto pods = read_pods(object);
    if (!pods) return done(object + " has errors, which are on sim-kubelet's standard error");
    const std::string report = runner.apply(*pods);
    runner.catch_up();  // the state includes the effect before the answer is sent
    answer(report + "ok");
  } else if (verb == "delete" && words.size() == 2) {
    const std::string problem = runner.remove(object);
    runner.catch_up();
    done(problem);
  } else if (verb == "state" && words.size() == 1) {
    answer(runner.state() + "ok");
  } else if (verb == "stop" && words.size() == 1) {
    done("");
    runner.stop();
  } else {
    done("the commands are: restart, apply FILE, delete POD, state, stop");
  }
}

// Processes that left their container's group were adopted by this process (a subreaper): end them with the node.
void end_strays() {
  const std::string path = fmt::format("/proc/self/task/{}/children", ::getpid());
  for (int round = 0; round < 100; ++round) {
    const auto children = text_of(path);
    if (!children || trimmed(*children).empty()) return;
    for (const std::string_view word : words_of(*children)) {
      const auto pid = parse_unsigned(word);
      if (!pid) continue;
      ::kill(static_cast<pid_t>(*pid), SIGKILL);
      // Its own children are this process's now, alive, and of the next round: a wait for any child would be for them.
      ::waitpid(static_cast<pid_t>(*pid), nullptr, 0);
    }
  }
}

int run(const Options& options) {
  std::vector<PodSpec> pods;
  bool readable = true;
  for (const std::string& path : options.pods) {
    auto file = read_pods(path);
    readable = readable && file.has_value();
    if (file) pods.insert(pods.end(), file->begin(), file->end());
  }
  if (!readable) return kUsage;
  const int signals = block_signals();
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);

  auto loop = EventLoop::open();
  auto kubelet = Kubelet::open(options.kubelet);
  if (!loop || !kubelet) {
    say(to_string(loop ? kubelet.error() : loop.error()));
    return 1;
  }
  int status = 0;
  {
    PodRunner runner(**loop, **kubelet, options.runner);
    std::unique_ptr<Control> control;
    if (!options.control.empty()) {
      auto opened = Control::open(**loop, options.control, [&](const std::string& line, const Control::Answer& answer) {
        run_command(runner, line, answer);
      });
      if (!opened) {
        say(to_string(opened.error()));
        return 1;
      }
      control = std::move(*opened);
    }
    bool stop_requested = false;
    (*loop)->watch(signals, [&] {
      signalfd_siginfo info{};
      while (::read(signals, &info, sizeof info) == sizeof info) {
        if (info.ssi_signo == SIGCHLD) continue;
        std::exchange(stop_requested, true) ? runner.stop_hard() : runner.stop();
      }
      runner.reap();
    });
    runner.apply(pods);
    say("listening on " + (*kubelet)->registration_socket());
    (*loop)->run();
    status = options.runner.once && !runner.all_succeeded() ? 1 : 0;
  }
  kubelet->reset();
  ::close(signals);
  end_strays();
  return status;
}

int claim_command(const std::string& registry_socket, const std::string& call, const std::string& claim,
                  const std::string& uid) {
  const auto slash = claim.find('/');
  auto driver = DraKubelet::register_driver(registry_socket);
  if (!driver || slash == std::string::npos || (call != "prepare" && call != "unprepare")) {
    std::fprintf(stderr, "sim-kubelet: %s\n%s", driver ? "" : to_string(driver.error()).c_str(), kHelp);
    return kUsage;
  }
  const DraClaimRef ref{claim.substr(0, slash), claim.substr(slash + 1), uid};
  std::string error;
  nlohmann::json devices = nlohmann::json::array();
  if (call == "prepare") {
    const auto answer = (*driver)->prepare({ref});
    error = answer ? answer->at(uid).error : to_string(answer.error());
    if (answer)
      for (const auto& device : answer->at(uid).devices)
        devices.push_back({{"device", device.device}, {"cdiIds", device.cdi_ids}});
  } else {
    const auto answer = (*driver)->unprepare({ref});
    error = answer ? answer->at(uid) : to_string(answer.error());
  }
  const nlohmann::json answer{{"error", error}, {"devices", devices}};
  std::printf("%s\n", answer.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace).c_str());
  return error.empty() ? 0 : 1;
}

}  // namespace
}  // namespace tranche::sim

int main(int argc, char** argv) {
  using namespace tranche::sim;
  if (argc > 1 && std::string_view(argv[1]) == kContainerInit) return container_init(argc, argv);
  const std::vector<std::string> words(argv + 1, argv + argc);
  if (!words.empty() && (words[0] == "--help" || words[0] == "-h")) {
    std::fputs(kHelp, stdout);
    return 0;
  }
  if (words.size() >= 3 && words[0] == "send") {
    return send_command(words[1], tranche::join({words.begin() + 2, words.end()}, " "));
  }
  if (words.size() == 5 && words[0] == "claim") return claim_command(words[1], words[2], words[3], words[4]);
  const auto options = read_options(words);
  if (!options) {
    std::fprintf(stderr, "sim-kubelet: %s\n%s", options.error().what.c_str(), kHelp);
    return kUsage;
  }
  return run(*options);
}
