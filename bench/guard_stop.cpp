#include "guard_stop.h"

#include <deviceplugin/v1beta1/api.grpc.pb.h>
#include <fcntl.h>
#include <grpcpp/create_channel.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include "os/socket/status_socket.h"

extern char** environ;

namespace tranche::bench {
namespace {

using Json = nlohmann::ordered_json;
using namespace std::chrono_literals;

[[noreturn]] void give_up(const std::string& what) {
  std::fprintf(stderr, "bench: %s\n", what.c_str());
  std::exit(1);
}

struct Place {
  std::string endpoint;  // on the node
  std::string pipe;      // in the container
};

Place allocate(const Programs& programs, std::size_t slot = 0) {
  const auto stub = v1beta1::DevicePlugin::NewStub(
      grpc::CreateChannel("unix:" + programs.plugin_socket(), grpc::InsecureChannelCredentials()));
  grpc::ClientContext context;
  v1beta1::AllocateRequest request;
  request.add_container_requests()->add_devices_ids(programs.slots().at(slot));
  v1beta1::AllocateResponse response;
  if (!stub->Allocate(&context, request, &response).ok()) give_up("no slot was given");
  const auto& container = response.container_responses(0);
  Place place{.endpoint = {}, .pipe = container.envs().at("CUDA_MPS_PIPE_DIRECTORY")};
  for (const auto& mount : container.mounts())
    if (mount.container_path() == place.pipe) place.endpoint = mount.host_path();
  if (place.endpoint.empty()) give_up("the grant has no MPS directory");
  ::setenv("CUDA_MPS_PIPE_DIRECTORY", place.pipe.c_str(), 1);
  ::setenv("TRANCHE_SIM_NODE", programs.simulated_node().c_str(), 1);
  return place;
}

// A CUDA program in a container of the grant, which executes commands from its stdin.
class Tenant {
 public:
  explicit Tenant(const Place& place) {
    std::vector<std::string> words{build_dir() + "/standins/sim-kubelet",
                                   "--container-init",
                                   std::to_string(::getpid()),
                                   "--namespace",
                                   "--mount-ro",
                                   place.endpoint,
                                   place.pipe,
                                   "--",
                                   build_dir() + "/standins/sim-cuda",
                                   "--hold",
                                   "--stdin"};
    std::vector<char*> argv;
    for (auto& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    int ends[2], said[2];
    if (::pipe2(ends, O_CLOEXEC) != 0 || ::pipe2(said, O_CLOEXEC) != 0) give_up("no pipe");
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawn_file_actions_adddup2(&actions, ends[0], STDIN_FILENO);
    ::posix_spawn_file_actions_adddup2(&actions, said[1], STDOUT_FILENO);
    if (::posix_spawn(&pid_, argv[0], &actions, nullptr, argv.data(), environ) != 0) give_up("cannot start sim-cuda");
    ::posix_spawn_file_actions_destroy(&actions);
    ::close(ends[0]);
    ::close(said[1]);
    in_ = ends[1];
    out_ = said[0];
    if (!answers(5s)) give_up("sim-cuda did not attach");
  }
  ~Tenant() {
    ::kill(pid_, SIGKILL);
    if (!ended()) ::waitpid(pid_, nullptr, 0);
    ::close(in_);
    ::close(out_);
  }
  Tenant(const Tenant&) = delete;
  Tenant& operator=(const Tenant&) = delete;

  void allocate(const char* size) const {
    const std::string line = std::string("alloc ") + size + "\n";
    if (::write(in_, line.data(), line.size()) < 0) give_up("sim-cuda does not listen");
  }
  // One line, or nothing while it is stopped.
  bool answers(std::chrono::milliseconds patience) const {
    pollfd readable{out_, POLLIN, 0};
    char line[512];
    return ::poll(&readable, 1, static_cast<int>(patience.count())) > 0 && ::read(out_, line, sizeof line) > 0;
  }
  bool ended() {
    if (!over_) over_ = ::waitpid(pid_, nullptr, WNOHANG) == pid_;
    return over_;
  }

 private:
  pid_t pid_ = 0;
  int in_ = -1;
  int out_ = -1;
  bool over_ = false;
};

Json status(const Programs& programs) {
  const std::string run = std::filesystem::path(programs.simulated_node()).parent_path().string() + "/run";
  const auto answer = os::ask(run + "/node.sock", "status", 5s);
  if (!answer) give_up(to_string(answer.error()));
  return Json::parse(*answer, nullptr, false)["guard"];
}

struct Stop {
  double over_mib = 0;
  double stopped_ms = 0;
};

Stop run_over(const Programs& programs, Tenant& tenant) {
  const std::size_t before = status(programs)["acts"].size();
  // The next when it has had the last, as a call into the driver that takes 2 ms: none is made up for.
  bool stopped = false;
  while (!tenant.ended()) {
    const auto next = Clock::now() + 2ms;
    if (!stopped) tenant.allocate("512M");
    stopped = !tenant.answers(100ms) || stopped;
    std::this_thread::sleep_until(next);
  }
  Json acts;
  for (int i = 0; i < 100; ++i) {
    acts = status(programs)["acts"];
    if (acts.size() > before) return {acts.back()["overMiB"], acts.back()["stoppedMs"]};
    std::this_thread::sleep_for(50ms);
  }
  give_up("the guard says nothing of what it did");
}

Json summary(std::vector<Stop> stops) {
  std::vector<double> over, stopped;
  for (const auto& stop : stops) {
    over.push_back(stop.over_mib);
    stopped.push_back(stop.stopped_ms);
  }
  std::ranges::sort(over);
  std::ranges::sort(stopped);
  return {{"over_mib_median", over[over.size() / 2]},
          {"over_mib_worst", over.back()},
          {"stopped_ms_median", stopped[stopped.size() / 2]},
          {"stopped_ms_worst", stopped.back()}};
}

double node_ms_per_s(const Programs& programs, std::chrono::seconds time) {
  const auto before = cpu_ns(programs.node());
  std::this_thread::sleep_for(time);
  return static_cast<double>(cpu_ns(programs.node()) - before) / (1e6 * static_cast<double>(time.count()));
}

}  // namespace

namespace {

Json ask_mps(const Programs& programs, const std::string& request) {
  const std::string mps = std::filesystem::path(programs.simulated_node()).parent_path().string() + "/mps/mps.sock";
  const auto answer = os::ask(mps, request, 20s);
  if (!answer) give_up(to_string(answer.error()));
  return Json::parse(*answer, nullptr, false);
}

char state_of(int pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string text;
  std::getline(file, text);
  const auto end = text.rfind(") ");
  return end == std::string::npos ? 'X' : text[end + 2];
}

// The process that comes in by this grant's endpoint beside those that are in.
int newcomer(const Programs& programs, const std::string& grant, const std::vector<int>& known) {
  for (int i = 0; i < 500; ++i) {
    const Json pools = ask_mps(programs, "status")["pools"];
    const Json endpoints = pools.at(0)["endpoints"];
    for (const auto& endpoint : endpoints)
      for (const auto& client : endpoint["clients"])
        if (endpoint["grant"] == grant && std::ranges::find(known, client.get<int>()) == known.end()) return client;
    std::this_thread::sleep_for(10ms);
  }
  give_up("no client came in");
}

Json end_one(const Programs& programs, const Place& place) {
  const std::string grant = std::filesystem::path(place.endpoint).filename();
  const std::string pool = std::filesystem::path(place.endpoint).parent_path().parent_path().filename();
  const Tenant tenant(place);
  const int pid = newcomer(programs, grant, {});
  const auto begun = Clock::now();
  Json reply;
  std::thread asking([&] {
    reply = ask_mps(
        programs, Json{{"do", "terminate"}, {"pool", pool}, {"pids", Json::array({pid})}, {"reason", "bench"}}.dump());
  });
  const auto ms = [begun] { return std::chrono::duration<double, std::milli>(Clock::now() - begun).count(); };
  char state = 'R';
  while (state != 'T' && state != 'X' && state != 'Z') state = state_of(pid);
  const double stopped = ms();
  while (state == 'T') {
    std::this_thread::sleep_for(1ms);
    state = state_of(pid);
  }
  const double gone = ms();
  asking.join();
  return {{"stopped_ms", stopped}, {"gone_ms", gone}};
}

Json ends(const Programs& programs, const Place& place, int rounds) {
  std::vector<double> stopped, gone;
  for (int i = 0; i < rounds; ++i) {
    const Json one = end_one(programs, place);
    stopped.push_back(one["stopped_ms"]);
    gone.push_back(one["gone_ms"]);
  }
  std::ranges::sort(stopped);
  std::ranges::sort(gone);
  return {{"stopped_ms_median", stopped[stopped.size() / 2]},
          {"stopped_ms_worst", stopped.back()},
          {"gone_ms_median", gone[gone.size() / 2]},
          {"gone_ms_worst", gone.back()}};
}

}  // namespace

nlohmann::ordered_json client_end(const Programs& programs, bool quick) {
  const Place victim = allocate(programs, 0);
  Json result{{"alone", ends(programs, victim, quick ? 3 : 20)}};
  const Place other = allocate(programs, 1);
  const Tenant neighbour(other);
  (void)newcomer(programs, std::filesystem::path(other.endpoint).filename(), {});
  result["beside"] = ends(programs, victim, quick ? 3 : 20);
  return result;
}

nlohmann::ordered_json guard_stop(const Programs& programs, bool quick) {
  constexpr auto kRests = 32s;  // longer than guard::kMovesFor
  const Place place = allocate(programs);
  Tenant first(place);
  first.allocate("20G");
  (void)first.answers(5s);
  std::vector<Stop> fresh, rested;
  for (int i = 0; i < (quick ? 3 : 10); ++i) {
    Tenant second(place);
    fresh.push_back(run_over(programs, second));
  }
  Json cost;
  for (int i = 0; i < (quick ? 1 : 5); ++i) {
    Tenant second(place);
    second.allocate("14G");
    (void)second.answers(5s);
    std::this_thread::sleep_for(1s);
    if (i == 0) cost["moving_cpu_ms_per_s"] = node_ms_per_s(programs, 5s);
    std::this_thread::sleep_for(kRests);
    if (i == 0) cost["resting_cpu_ms_per_s"] = node_ms_per_s(programs, 5s);
    rested.push_back(run_over(programs, second));
  }
  return {{"fresh", summary(std::move(fresh))}, {"rested", summary(std::move(rested))}, {"cost", std::move(cost)}};
}

}  // namespace tranche::bench
