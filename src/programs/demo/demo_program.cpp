#include "programs/demo/demo_program.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/json_text.h"
#include "base/terminal_text.h"
#include "base/text.h"
#include "gpu/models/models.h"
#include "observe/view/view.h"
#include "os/files/files.h"
#include "os/loop/loop.h"
#include "os/process/process.h"
#include "os/socket/status_socket.h"
#include "os/terminal/terminal.h"

namespace tranche::programs {
namespace {

// Enough for pods to use a sensible part of their share. An unknown model gets little.
std::uint32_t memory_gib(std::string_view profile) {
  const auto* model = gpu::find_model(profile);
  return model == nullptr ? 8 : model->memory_mib / 1024;
}

// Holds `slots` slots and uses `percent` of their memory.
std::string pod(const DemoOptions& options, const std::string& name, std::uint32_t slots, std::uint32_t percent,
                bool stays = true) {
  const std::uint64_t mib = std::uint64_t{1024} * memory_gib(options.profile) * slots / options.slots * percent / 100;
  return fmt::format(
      "---\napiVersion: v1\nkind: Pod\nmetadata: {{name: {}}}\nspec:\n  restartPolicy: Never\n  containers:\n"
      "  - name: main\n    command: [sim-cuda, --allocate, {}MiB{}]\n"
      "    resources: {{limits: {{nvidia.com/gpu.shared: {}}}}}\n",
      name, std::max<std::uint64_t>(mib, 64), stays ? ", --hold" : "", slots);
}

// The files of a demonstration: the simulated node, its configuration and its pods, as text.
std::string scene_node(const DemoOptions& options) {
  return fmt::format("driver: 580.159.04\ncuda: 13000\ngpus: {{profile: {}, count: {}}}\n", options.profile,
                     options.gpus);
}

std::string scene_config(const DemoOptions& options) {
  return fmt::format(
      "version: v1\nsharing:\n  mps:\n    renameByDefault: true\n    failRequestsGreaterThanOne: false\n    "
      "resources:\n"
      "    - name: nvidia.com/gpu\n      replicas: {}\n",
      options.slots);
}

// Pods of several sizes for `gpus` × `slots` slots: most run, one requests more memory than its share and fails, and
// some do not fit and wait.
std::string scene_pods(const DemoOptions& options) {
  const std::uint32_t whole = options.slots;
  const std::uint32_t half = std::max(1u, options.slots / 2);
  const std::uint32_t fifth = std::max(1u, options.slots / 5);
  std::string text;
  const auto several = [&](std::string name, std::uint32_t count, std::uint32_t slots, std::uint32_t percent) {
    name += '-';
    for (std::uint32_t n = 0; n < count; ++n) text += pod(options, name + std::to_string(n), slots, percent);
  };
  several("train", options.gpus > 1 ? 1 : 0, whole, 80);
  several("finetune", options.gpus > 2 ? 2 : 0, half, 60);
  several("inference", std::min(4u, options.gpus), fifth, 45);
  several("notebook", std::min(6u, options.slots), 1, 15);
  text += pod(options, "greedy", 1, 200, false);  // MPS refuses it, so it fails
  text += pod(options, "batch", whole > 2 ? whole - 2 : whole, 30);
  text += pod(options, "big-train", whole, 80);
  return text;
}

std::string first_lines(const std::string& text, std::ptrdiff_t most) {
  std::size_t end = 0;
  for (; most > 0 && end < text.size(); --most) end = text.find('\n', end) + 1;
  return text.substr(0, end);
}

using namespace std::chrono_literals;
using Json = nlohmann::json;

constexpr Duration kRedrawEvery = 500ms;
constexpr Duration kSettleWithin = 60s;
constexpr Duration kStopWithin = 10s;
constexpr int kQuietLooks = 3;
constexpr std::size_t kLinesShown = 12;
constexpr std::size_t kLargestState = 16 << 20;
constexpr const char* kClear = "\033[H\033[2J";

Result<std::string> find_standins(const DemoOptions& options, const std::string& self) {
  const auto beside = std::filesystem::path(self).parent_path() / "../standins";
  const std::string place = options.standins.empty() ? beside.lexically_normal().string() : options.standins;
  if (::access((place + "/sim-kubelet").c_str(), X_OK) == 0) return place;
  return fail(Kind::kNotFound,
              "the stand-ins (sim-kubelet and its neighbours) are not there; build them with ./dev build, or name "
              "their folder with --standins",
              place);
}

Status copy_or_write(const os::Dir& dir, std::string_view name, const std::string& from, const std::string& otherwise) {
  if (from.empty()) return dir.write_atomically(name, otherwise);
  TRY(const auto content, os::read_file(from));
  return dir.write_atomically(name, content);
}

Status check_profile(const std::string& profile, const std::string& standins) {
  const bool is_there = ::access((standins + "/profiles/" + profile + ".yaml").c_str(), R_OK) == 0;
  const auto* model = gpu::find_model(profile);
  if ((model != nullptr && model->sm_count != 0) || (is_there && profile.find('/') == std::string::npos)) return {};
  return fail(Kind::kInvalid, fmt::format("--profile: {} is not a known GPU model; {}", in_quotes(profile),
                                          gpu::known_models(profile)));
}

class Demo {
 public:
  explicit Demo(const DemoOptions& options) : options_(options) {}
  ~Demo() {
    parts_.clear();
    if (dir_.empty() || options_.keep) return;
    std::error_code ignored;  // a remaining scratch directory is not a failure
    std::filesystem::remove_all(dir_, ignored);
  }
  Demo(const Demo&) = delete;
  Demo& operator=(const Demo&) = delete;

  Result<int> run() {
    TRY_STATUS(prepare());
    TRY(loop_, os::Loop::open());
    // SIGPIPE: the reader of standard output has exited (`tranche demo | head`), and the scratch directory must be
    // removed.
    TRY_STATUS(loop_->on_signals({SIGINT, SIGTERM, SIGHUP, SIGPIPE}, [this](int) { finish(0); }));
    give_up_at_ = loop_->now() + kSettleWithin;
    TRY_STATUS(start_all());
    look();
    loop_->run();
    if (!trouble_.empty()) fmt::print(stderr, "tranche demo: {}\n", trouble_);
    return exit_code_;
  }

 private:
  Status prepare() {
    TRY(self_, os::read_link("/proc/self/exe"));
    TRY(standins_, find_standins(options_, self_));
    TRY_STATUS(check_profile(options_.profile, standins_));
    char scratch[] = "/tmp/tranche-demo.XXXXXX";
    if (::mkdtemp(scratch) == nullptr) return fail_errno("cannot make a scratch directory", scratch);
    dir_ = scratch;
    TRY(const auto dir, os::Dir::open(dir_));
    for (const char* name : {"node", "plugins", "run", "mps", "driver"}) {
      TRY([[maybe_unused]] const auto made, dir.make_subdir(name));
    }
    TRY_STATUS(dir.write_atomically("node/node.yaml", scene_node(options_)));
    TRY_STATUS(copy_or_write(dir, "config.yaml", options_.config_file, scene_config(options_)));
    TRY_STATUS(copy_or_write(dir, "pods.yaml", options_.pods_file, scene_pods(options_)));
    const char* search_path = ::getenv("PATH");
    env_ = {{"TRANCHE_SIM_NODE", path("node")},
            {"LD_LIBRARY_PATH", standins_},
            {"PATH", standins_ + ":" + (search_path != nullptr ? search_path : "/usr/bin:/bin")},
            {"HOME", dir_}};
    return {};
  }

  Status start_all() {
    TRY_STATUS(start("sim-kubelet", {standins_ + "/sim-kubelet", "--plugin-dir", path("plugins"),
                                     "--pod-resources-socket", path("run/pod-resources.sock"), "--pods",
                                     path("pods.yaml"), "--state-file", path("run/kubelet.json")}));
    TRY_STATUS(start("tranche mps", {self_, "mps", "--config-file", path("config.yaml"), "--mps-root", path("mps"),
                                     "--driver-root-ctr-path", path("driver")}));
    return start("tranche node", {self_, "node", "--config-file", path("config.yaml"), "--mps-root", path("mps"),
                                  "--driver-root-ctr-path", path("driver"), "--plugin-dir", path("plugins"),
                                  "--pod-resources-socket", path("run/pod-resources.sock"), "--run-dir", path("run")});
  }

  Status start(const std::string& name, std::vector<std::string> argv) {
    os::Command command{.argv = std::move(argv), .env = env_, .kill_on_drop = true, .die_with_parent = true};
    const os::Fd log(::open(log_of(name).c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
    if (!log) return fail_errno("cannot write a log", log_of(name));
    command.output = log.get();
    auto process = os::Process::start(*loop_, command, [this, name](os::ExitNote note) { part_ended(name, note); });
    if (!process) return std::unexpected(within(std::move(process).error(), "cannot start " + name));
    parts_[name] = *std::move(process);
    return {};
  }

  void part_ended(const std::string& name, os::ExitNote note) {
    if (stopping_) {
      if (name == stopping_part_) stop_next();
      return;
    }
    const std::string log = os::read_file(log_of(name), kLargestState).value_or("");
    const auto lines = lines_of(log);
    trouble_ = fmt::format("{} {}", name, os::to_string(note));
    for (auto n = lines.size() - std::min(lines.size(), kLinesShown); n < lines.size(); ++n)
      trouble_ += "\n    " + std::string(lines[n]);
    finish(1);
  }

  void look() {
    if (stopping_) return;
    const std::string status = os::ask(path("run/node.sock"), "status", 2s).value_or("{}");
    const std::string kubelet = os::read_file(path("run/kubelet.json"), kLargestState).value_or("{}");
    quiet_looks_ = settled(json_of(status), json_of(kubelet)) ? quiet_looks_ + 1 : 0;
    const bool done = quiet_looks_ >= kQuietLooks;
    const bool late = loop_->now() >= give_up_at_;
    if (!options_.once || done || late) show(status, kubelet);
    if (options_.once && done) return finish(0);
    if (options_.once && late) {
      trouble_ = "the node did not settle within a minute";
      return finish(1);
    }
    loop_->after(options_.once ? 100ms : kRedrawEvery, [this] { look(); });
  }

  // Settled: everything that can run is running and uses its GPU, and everything else has reported a reason.
  bool settled(const Json& status, const Json& kubelet) const {
    const Json& resources = list_at(status, "resources");
    if (resources.empty()) return false;
    for (const auto& resource : resources) {
      const Json& known = member_at(member_at(kubelet, "resources"), text_at(resource, "name"));
      const auto slots = count_at(resource, "slots");
      if (count_at(known, "allocatable") != slots || !truth_at(resource, "registered")) return false;
      if (count_at(resource, "healthy") != slots) return false;
    }
    const Json& pods = list_at(kubelet, "pods");
    if (pods.empty()) return false;
    std::set<std::int64_t> on_gpu;
    for (const auto& device : list_at(status, "devices"))
      for (const auto& process : list_at(device, "processes")) on_gpu.insert(number_at(process, "pid").value_or(0));
    std::size_t holding = 0;
    for (const auto& pod : pods) {
      const std::string phase = text_at(pod, "phase");
      if (phase == "Pending" && text_at(pod, "reason").empty()) return false;
      if (phase != "Running") continue;
      for (const auto& container : list_at(pod, "containers")) {
        ++holding;
        if (!on_gpu.contains(number_at(container, "pid").value_or(-1))) return false;
      }
    }
    return holding > 0 && list_at(status, "grants").size() == holding;
  }

  void show(const std::string& status, const std::string& kubelet) {
    if (options_.json) {
      Json document{{"status", json_of(status)}, {"kubelet", json_of(kubelet)}};
      fmt::print("{}\n", json_text(document));
      return;
    }
    const auto terminal = os::terminal_size();
    const int width = terminal ? terminal->columns : 0;
    const auto text = [&](bool folded) {
      const auto view = view::render(status, kubelet, {.colour = width > 0, .notes = options_.once, .folded = folded});
      return view ? fitted(*view, width) : "starting: " + to_string(view.error()) + "\n";
    };
    if (!terminal || options_.once) {
      fmt::print("{}", text(false));
    } else {
      const std::string foot =
          fitted(fmt::format("Simulated GPUs, real programs. Ctrl-C ends it. In another terminal:\n"
                             "  {} top --socket {}\n",
                             self_, path("run/node.sock")),
                 width);
      const auto room = terminal->lines - std::ranges::count(foot, '\n') - 1;  // the cursor is on the last line
      std::string page = text(false);
      if (std::ranges::count(page, '\n') > room) page = first_lines(text(true), room);
      fmt::print("{}{}{}", kClear, page, foot);
    }
    std::fflush(stdout);
  }

  void finish(int exit_code) {
    if (stopping_) return;
    exit_code_ = exit_code;
    stopping_ = true;
    loop_->after(kStopWithin, [this] {
      trouble_ += "\nsome programs did not end in time and were killed";
      loop_->stop();
    });
    stop_next();
  }

  // Ends tenants first (they belong to the kubelet stand-in), then the agent, then the daemons that served them.
  void stop_next() {
    for (const char* name : {"sim-kubelet", "tranche node", "tranche mps"}) {
      const auto& process = parts_[name];
      if (!process || !process->running()) continue;
      stopping_part_ = name;
      (void)process->signal(SIGTERM);
      return;
    }
    loop_->stop();
  }

  std::string path(std::string_view name) const { return dir_ + "/" + std::string(name); }
  std::string log_of(const std::string& part) const { return path(part.substr(part.rfind(' ') + 1) + ".log"); }

  DemoOptions options_;
  std::string dir_;
  std::string standins_;
  std::string self_;
  std::map<std::string, std::string> env_;
  std::unique_ptr<os::Loop> loop_;
  std::map<std::string, std::unique_ptr<os::Process>> parts_;  // by name
  bool stopping_ = false;
  std::string stopping_part_;  // the part that is being waited for
  int exit_code_ = 0;
  MonoTime give_up_at_{};
  int quiet_looks_ = 0;  // consecutive checks that found everything settled
  std::string trouble_;
};

}  // namespace

int run_demo(const DemoOptions& options) {
  const auto ran = Demo(options).run();
  if (!ran) fmt::print(stderr, "tranche demo: {}\n", to_string(ran.error()));
  return ran.value_or(1);
}

}  // namespace tranche::programs
