#include "programs.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "os/socket/status_socket.h"

extern char** environ;

namespace tranche::bench {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

[[noreturn]] void give_up(const std::string& what) {
  std::fprintf(stderr, "bench: %s\n", what.c_str());
  std::exit(1);
}

void write(const std::string& path, const std::string& text) {
  std::ofstream(path) << text;
}

pid_t spawn(const std::vector<std::string>& words, const std::string& log) {
  std::vector<char*> argv;
  for (const auto& word : words) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, 1, log.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
  posix_spawn_file_actions_adddup2(&actions, 1, 2);
  pid_t pid = 0;
  if (::posix_spawn(&pid, argv[0], &actions, nullptr, argv.data(), environ) != 0) give_up("cannot start " + words[0]);
  posix_spawn_file_actions_destroy(&actions);
  return pid;
}

void end(pid_t pid) {
  if (pid == 0) return;
  ::kill(pid, SIGTERM);
  ::waitpid(pid, nullptr, 0);
}

}  // namespace

std::string build_dir() {
  if (const char* dir = std::getenv("TRANCHE_BUILD")) return dir;
  return fs::read_symlink("/proc/self/exe").parent_path().parent_path().string();
}

std::unique_ptr<Programs> Programs::start(const NodeShape& shape) {
  std::unique_ptr<Programs> p(new Programs);
  p->shape_ = shape;
  // What claims are written to is in /run on a node, which has no disk below it.
  std::string scratch = shape.claims && fs::is_directory("/dev/shm") ? "/dev/shm/trb.XXXXXX" : "/tmp/trb.XXXXXX";
  if (::mkdtemp(scratch.data()) == nullptr) give_up("no scratch directory");
  p->dir_ = scratch;
  for (const char* name : {"node", "plugins", "plugins_registry", "run", "mps", "driver"})
    fs::create_directory(p->dir_ + "/" + name);
  write(p->dir_ + "/node/node.yaml", "gpus: {profile: H200, count: " + std::to_string(shape.gpus) + "}\n");
  write(p->dir_ + "/config.yaml", shape.claims
                                      ? "version: v1\ndra: {devices: all}\n"
                                      : std::string("version: v1\nsharing:\n  ") + (shape.mps ? "mps" : "timeSlicing") +
                                            ":\n    failRequestsGreaterThanOne: false\n    resources:\n    - name: "
                                            "nvidia.com/gpu\n      replicas: " +
                                            std::to_string(shape.slots) + "\n");
  const std::string build = build_dir();
  const std::string standins = build + "/standins";
  ::setenv("TRANCHE_SIM_NODE", (p->dir_ + "/node").c_str(), 1);
  ::setenv("LD_LIBRARY_PATH", standins.c_str(), 1);
  ::setenv("PATH", (standins + ":/usr/bin:/bin").c_str(), 1);

  sim::KubeletSettings settings;
  settings.plugin_dir = p->dir_ + "/plugins";
  settings.pod_resources_socket = p->dir_ + "/run/pr.sock";
  auto kubelet = sim::Kubelet::open(settings);
  if (!kubelet) give_up(to_string(kubelet.error()));
  p->kubelet_ = *std::move(kubelet);

  const std::string tranche = build + "/bin/tranche";
  const std::vector<std::string> common{"--config-file",  p->dir_ + "/config.yaml", "--mps-root",
                                        p->dir_ + "/mps", "--driver-root-ctr-path", p->dir_ + "/driver"};
  const auto command = [&](const char* name, std::vector<std::string> more) {
    std::vector<std::string> words{tranche, name};
    words.insert(words.end(), common.begin(), common.end());
    words.insert(words.end(), more.begin(), more.end());
    return words;
  };
  if (shape.mps) p->mps_ = spawn(command("mps", {}), p->dir_ + "/mps.log");
  std::vector<std::string> words{
      "--plugin-dir", settings.plugin_dir, "--pod-resources-socket", settings.pod_resources_socket,
      "--run-dir",    p->dir_ + "/run"};
  if (shape.api) {
    p->api_ = sim::ApiServer::start();
    p->api_->put("/api/v1/nodes", "n1", R"({"metadata":{"uid":"node-uid"},"status":{"conditions":[]}})");
    for (const char* collection : {"namespaces/default/resourceclaims", "resourceslices"})
      p->api_->serve_collection(std::string("/apis/resource.k8s.io/v1/") + collection);
    write(p->dir_ + "/kubeconfig", p->api_->kubeconfig(""));
    words.insert(words.end(),
                 {"--kubeconfig", p->dir_ + "/kubeconfig", "--node-name", "n1", "--cdi-root", p->dir_ + "/cdi"});
  }
  const auto began = Clock::now();
  p->node_ = spawn(command("node", words), p->dir_ + "/node.log");
  if (shape.claims) {
    p->wait_for_claims();
    return p;
  }
  if (const auto registered = p->kubelet_->wait_for_registration(shape.resource, 30s); !registered)
    give_up(to_string(registered.error()) + "; logs are in " + p->dir_);
  p->start_to_registered_ms_ = std::chrono::duration<double, std::milli>(Clock::now() - began).count();
  const auto all = static_cast<std::uint64_t>(shape.gpus) * static_cast<std::uint64_t>(shape.slots);
  const auto view = p->kubelet_->wait_for_healthy(shape.resource, all, 60s);
  if (!view) give_up(to_string(view.error()) + "; logs are in " + p->dir_);
  for (const auto& device : view->devices) p->slots_.push_back(device.id);
  return p;
}

// The driver serves, the slices are published, and every GPU's daemon serves.
void Programs::wait_for_claims() const {
  const auto until = Clock::now() + 60s;
  for (;;) {
    const auto node = os::ask(dir_ + "/run/node.sock", "status", 5s),
               mps = os::ask(dir_ + "/mps/mps.sock", "status", 5s);
    const auto status = nlohmann::json::parse(node.value_or(""), nullptr, false);
    const auto daemons = nlohmann::json::parse(mps.value_or(""), nullptr, false);
    if (status.is_object() && daemons.is_object() && status.contains("dra") && status["dra"].value("serving", false)) {
      int serving = 0;
      for (const auto& pool : daemons["pools"]) serving += pool["state"] == "serving" ? 1 : 0;
      if (serving == shape_.gpus && status["dra"]["slices"]["state"] == "published") return;
    }
    if (Clock::now() > until) give_up("claims are not served; logs are in " + dir_);
    std::this_thread::sleep_for(20ms);
  }
}

Programs::~Programs() {
  end(node_);
  end(mps_);
  if (kubelet_) kubelet_->stop();
  std::error_code ignored;
  fs::remove_all(dir_, ignored);
}

std::string Programs::plugin_socket() const {
  return dir_ + "/plugins/nvidia-" + shape_.resource.substr(shape_.resource.find('/') + 1) + ".sock";
}

double resident_mb(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/smaps");
  double kib = 0;
  bool of_standin = false;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("Rss:")) kib += of_standin ? 0 : std::strtod(line.c_str() + 4, nullptr);
    if (line.empty() || std::isupper(static_cast<unsigned char>(line[0]))) continue;  // else the head of a mapping
    of_standin = line.find("/libnvidia-ml.so") != std::string::npos || line.ends_with("/node/state");
  }
  return kib * 1024 / 1e6;
}

std::uint64_t cpu_ns(pid_t pid, const std::string& thread) {
  std::uint64_t sum = 0;
  std::error_code error;
  for (const auto& task : fs::directory_iterator("/proc/" + std::to_string(pid) + "/task", error)) {
    std::string name;
    if (std::ifstream comm(task.path() / "comm"); !thread.empty() && (!(comm >> name) || name != thread)) continue;
    std::ifstream file(task.path() / "schedstat");
    std::uint64_t ns = 0;
    if (file >> ns) sum += ns;
  }
  return sum;
}

}  // namespace tranche::bench
