#include "node/bed.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "node/http_get.h"
#include "node/program.h"

namespace tranche::e2e {
namespace {

namespace fs = std::filesystem;

std::string build_of_this() {
  if (const char* dir = std::getenv("TRANCHE_BUILD")) return dir;
  return fs::read_symlink("/proc/self/exe").parent_path().parent_path().parent_path().string();
}

bool is_of(const sim::Device& device, const std::string& uuid) {
  return device.id.starts_with(uuid);
}

}  // namespace

std::string sharing(const std::string& strategy, int replicas, const std::string& more) {
  return "version: v1\nsharing:\n  " + strategy + ":\n    failRequestsGreaterThanOne: false\n" + more +
         "    resources:\n    - name: nvidia.com/gpu\n      replicas: " + std::to_string(replicas) + "\n";
}

const Json& device_of(const Json& node_status, int gpu) {
  return node_status.at("devices").at(static_cast<std::size_t>(gpu));
}

const Json& pool_of(const Json& mps_status, int pool) {
  return mps_status.at("pools").at(static_cast<std::size_t>(pool));
}

NodeBed::NodeBed() : build_(build_of_this()), loop_(*os::Loop::open()) {
  for (const char* name : {"node", "plugins", "run", "driver"}) fs::create_directory(in(name));
}

NodeBed::~NodeBed() {
  if (HasFailure()) std::fputs(logs().c_str(), stderr);
  if (kubelet_) kubelet_->stop();
  programs_.clear();
  kill_marked(scratch_.path());
}

void NodeBed::write(const std::string& name, const std::string& text) const {
  std::ofstream(in(name + ".new")) << text;
  fs::rename(in(name + ".new"), in(name));
}

void NodeBed::make_node(int gpus, const std::string& more) {
  write("node/node.yaml", more + "gpus: {profile: H200, count: " + std::to_string(gpus) + "}\n");
  const std::string shown = shown_node();
  std::istringstream words(shown);
  for (std::string word; words >> word;) {
    if (word.starts_with("GPU-")) uuids_.push_back(word);
  }
  ASSERT_EQ(uuids_.size(), static_cast<std::size_t>(gpus)) << shown;
}

std::string NodeBed::shown_node() {
  Program& shown = start({build_ + "/standins/sim-node", "show"});
  EXPECT_EQ(finish(shown), 0);
  return shown.out();
}

void NodeBed::sim_node(Strings words) {
  words.insert(words.begin(), build_ + "/standins/sim-node");
  Program& tool = start(std::move(words));
  ASSERT_EQ(finish(tool), 0) << tool.err();
}

void NodeBed::drop_ended() {
  std::erase_if(programs_, [](const auto& program) { return !program->running(); });
}

void NodeBed::start_kubelet() {
  sim::KubeletSettings settings;
  settings.plugin_dir = in("plugins");
  settings.pod_resources_socket = in("run/pod-resources.sock");
  auto opened = sim::Kubelet::open(settings);
  ASSERT_TRUE(opened) << to_string(opened.error());
  kubelet_ = *std::move(opened);
}

Program& NodeBed::start(Strings argv, const Environment& more) {
  Environment environment;
  for (const char* name : {"ASAN_OPTIONS", "UBSAN_OPTIONS", "TSAN_OPTIONS", "LSAN_OPTIONS"}) {
    if (const char* value = std::getenv(name)) environment[name] = value;
  }
  environment["TRANCHE_SIM_NODE"] = in("node");
  environment["LD_LIBRARY_PATH"] = build_ + "/standins";
  environment["PATH"] = build_ + "/standins:/usr/bin:/bin";
  environment["HOME"] = scratch_.path();
  for (const auto& [name, value] : environment_) environment[name] = value;
  for (const auto& [name, value] : more) environment[name] = value;
  programs_.push_back(Program::start(*loop_, std::move(argv), environment, [this] {
    if (check_ && check_()) loop_->stop();
  }));
  return *programs_.back();
}

Program& NodeBed::start_tranche(const std::string& command, Strings more, const Environment& environment) {
  Strings argv{tranche(),    command,      "--config-file", config_path_, "--driver-root-ctr-path",
               in("driver"), "--mps-root", in("mps")};
  if (command == "node") {
    for (const auto& word : {std::string("--plugin-dir"), in("plugins"), std::string("--pod-resources-socket"),
                             in("run/pod-resources.sock"), std::string("--run-dir"), in("run")})
      argv.push_back(word);
  }
  argv.insert(argv.end(), more.begin(), more.end());
  Program& program = start(std::move(argv), environment);
  newest_[command] = &program;
  return program;
}

Strings NodeBed::paths_of_node() const {
  return {"--config-file",
          config_path_,
          "--driver-root-ctr-path",
          in("driver"),
          "--mps-root",
          in("mps"),
          "--run-dir",
          in("run"),
          "--plugin-dir",
          in("plugins"),
          "--pod-resources-socket",
          in("run/pod-resources.sock")};
}

Program* NodeBed::program(const std::string& command) {
  return newest_.at(command);
}

void NodeBed::start_all(int gpus, int slots) {
  ASSERT_NO_FATAL_FAILURE(make_node(gpus));
  write("config.yaml", sharing("mps", slots));
  ASSERT_NO_FATAL_FAILURE(start_kubelet());
  start_mps();
  start_node();
  ASSERT_TRUE(until_healthy(static_cast<std::uint64_t>(gpus) * static_cast<std::uint64_t>(slots)));
}

// What a container runtime does with a grant, without its namespaces: a mount's path in the container is written as
// the path that it would show.
Program& NodeBed::start_cuda(const sim::ContainerGrant& grant, Strings words) {
  Environment environment;
  for (const auto& [name, value] : grant.envs) {
    const auto mount = std::ranges::find(grant.mounts, value, &sim::ContainerGrant::Mount::container_path);
    environment[name] = mount == grant.mounts.end() ? value : mount->host_path;
  }
  words.insert(words.begin(), build_ + "/standins/sim-cuda");
  return start(std::move(words), environment);
}

Json NodeBed::attached(const Program& cuda) {
  until([&] { return cuda.out().find('\n') != std::string::npos || !cuda.running(); }, "a line from sim-cuda");
  return Json::parse(cuda.out().substr(0, cuda.out().find('\n')), nullptr, false);
}

int NodeBed::finish(const Program& program) {
  until([&] { return !program.running(); }, "the end of a program", 4 * kSoon);  // verify --deep, under a sanitizer
  return program.code().value_or(-1);
}

void NodeBed::stop(Program& program, int signal, int expected) {
  program.signal(signal);
  EXPECT_EQ(finish(program), expected) << program.err();
}

bool NodeBed::until(const std::function<bool()>& condition, const std::string& what, Duration within) {
  bool late = false;
  const auto timer = loop_->after(within, [&] {
    late = true;
    loop_->stop();
  });
  check_ = condition;
  os::Loop::Id look = 0;
  const std::function<void()> look_again = [&] {
    look = 0;
    if (condition()) return loop_->stop();
    look = loop_->after(kLookAgain, look_again);
  };
  bool met = condition();
  while (!late && !met) {  // a stop that was meant for an earlier wait does not end this one
    if (look == 0) look = loop_->after(kLookAgain, look_again);
    loop_->run();
    met = condition();
  }
  check_ = {};
  loop_->cancel(look);
  loop_->cancel(timer);
  EXPECT_TRUE(met) << "waited for " << what << (late ? ", in vain" : "");
  return met;
}

bool NodeBed::until_says(const Program& program, const std::string& text) {
  return until([&] { return program.err().find(text) != std::string::npos || !program.running(); }, text) &&
         program.err().find(text) != std::string::npos;
}

std::string NodeBed::pages_of(const Program& program) {
  (void)until_says(program, "http.listening");  // the log comes from a thread of its own
  return address_in(program.err());
}

Json NodeBed::until_status(const std::string& socket, const std::function<bool(const Json&)>& condition) {
  Json newest;
  bool met = false;
  const os::StatusWatcher watcher(*loop_, socket, [&](const std::string& line) {
    if (met) return;
    newest = line.empty() ? Json() : Json::parse(line, nullptr, false);
    met = newest.is_object() && condition(newest);
    if (met) loop_->stop();
  });
  until([&] { return met; }, "a status document on " + socket);
  if (met) return newest;
  ADD_FAILURE() << "the newest was " << newest.dump(1);
  return {};
}

Json NodeBed::until_serving(std::size_t pools) {
  return until_mps([&](const Json& status) {
    const auto& list = status["pools"];
    return list.size() == pools &&
           std::ranges::all_of(list, [](const Json& pool) { return pool["state"] == "serving"; });
  });
}

bool NodeBed::until_healthy_of(std::uint64_t slots, std::uint64_t healthy) {
  const auto view = kubelet_->wait_for_devices(
      kGpu, [&](const sim::ResourceView& v) { return v.healthy() == healthy && v.capacity == slots; }, kSoon);
  EXPECT_TRUE(view) << to_string(view.error());
  return view.has_value();
}

bool NodeBed::until_list_says(std::size_t after, int gpu, bool healthy) {
  std::size_t number = 0;
  const auto message = kubelet_->wait_for_message(
      [&](const sim::StreamMessage& each) {
        return ++number > after && std::ranges::all_of(each.devices, [&](const sim::Device& device) {
          return device.healthy == (is_of(device, uuid(gpu)) ? healthy : true);
        });
      },
      kSoon);
  EXPECT_TRUE(message) << to_string(message.error());
  return message.has_value();
}

bool NodeBed::never_unhealthy(std::size_t after, int gpu) const {
  const auto messages = kubelet_->messages();
  return std::all_of(messages.begin() + static_cast<std::ptrdiff_t>(std::min(after, messages.size())), messages.end(),
                     [&](const sim::StreamMessage& message) {
                       return std::ranges::all_of(message.devices, [&](const sim::Device& device) {
                         return device.healthy || !is_of(device, uuid(gpu));
                       });
                     });
}

std::string NodeBed::logs() const {
  std::string text;
  for (const auto& program : programs_) {
    text += "--- process " + std::to_string(program->pid()) +
            (program->code() ? ", status " + std::to_string(*program->code()) : ", running") + "\n" + program->out() +
            program->err();
  }
  return text;
}

sim::ContainerGrant admitted(sim::Kubelet& kubelet, const std::string& pod, std::uint64_t slots) {
  auto admission = kubelet.admit(sim::one_container_pod(pod, kGpu, slots));
  EXPECT_TRUE(admission.admitted) << admission.message;
  return admission.containers.empty() ? sim::ContainerGrant{} : admission.containers.front();
}

std::string endpoint_of(const sim::ContainerGrant& grant) {
  const auto variable = grant.envs.find("CUDA_MPS_PIPE_DIRECTORY");
  if (variable == grant.envs.end()) return {};
  const auto mount = std::ranges::find(grant.mounts, variable->second, &sim::ContainerGrant::Mount::container_path);
  return mount == grant.mounts.end() ? std::string() : mount->host_path;
}

}  // namespace tranche::e2e
