// Measures the programs from outside, the way kubelet meets them, and prints one JSON object. `bench/run` makes a table
// of it and compares it with bench/baseline.json.
#include <deviceplugin/v1beta1/api.grpc.pb.h>
#include <grpcpp/create_channel.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <thread>

#include "admission_cost.h"
#include "claims_cost.h"
#include "guard_cost.h"
#include "guard_stop.h"
#include "hold_cost.h"
#include "programs.h"

namespace tranche::bench {
namespace {

using Json = nlohmann::ordered_json;
using namespace std::chrono_literals;

struct Latency {
  double p50 = 0;
  double p99 = 0;
};

Latency measure(int calls, const std::function<bool(int)>& call) {
  std::vector<double> micros;
  for (int i = 0; i < calls + calls / 10; ++i) {
    const auto began = Clock::now();
    if (!call(i)) {
      std::fprintf(stderr, "bench: a call failed\n");
      std::exit(1);
    }
    if (i >= calls / 10) micros.push_back(std::chrono::duration<double, std::micro>(Clock::now() - began).count());
  }
  std::ranges::sort(micros);
  return {micros[micros.size() / 2], micros[micros.size() * 99 / 100]};
}

Json to_json(const Latency& latency) {
  return {{"p50_us", latency.p50}, {"p99_us", latency.p99}};
}

// What a question needs to know of a node.
struct Target {
  std::string socket;
  std::vector<std::string> slots;
};

std::unique_ptr<v1beta1::DevicePlugin::Stub> connect(const Target& target) {
  return v1beta1::DevicePlugin::NewStub(
      grpc::CreateChannel("unix:" + target.socket, grpc::InsecureChannelCredentials()));
}

// A call that asks nothing: what gRPC, the socket and this client cost by themselves.
Latency empty(const Target& target, int calls) {
  const auto stub = connect(target);
  return measure(calls, [&](int) {
    grpc::ClientContext context;
    v1beta1::DevicePluginOptions response;
    return stub->GetDevicePluginOptions(&context, {}, &response).ok();
  });
}

Latency allocate(const Target& target, int calls) {
  const auto stub = connect(target);
  return measure(calls, [&](int i) {
    grpc::ClientContext context;
    v1beta1::AllocateRequest request;
    request.add_container_requests()->add_devices_ids(target.slots[static_cast<std::size_t>(i) % target.slots.size()]);
    v1beta1::AllocateResponse response;
    const auto status = stub->Allocate(&context, request, &response);
    if (!status.ok()) std::fprintf(stderr, "bench: Allocate: %s\n", status.error_message().c_str());
    return status.ok();
  });
}

Latency prefer(const Target& target, int size, int calls) {
  const auto stub = connect(target);
  v1beta1::PreferredAllocationRequest request;
  auto& ask = *request.add_container_requests();
  for (const auto& slot : target.slots) ask.add_available_deviceids(slot);
  ask.set_allocation_size(size);
  return measure(calls, [&](int) {
    grpc::ClientContext context;
    v1beta1::PreferredAllocationResponse response;
    return stub->GetPreferredAllocation(&context, request, &response).ok() &&
           response.container_responses(0).deviceids_size() == size;
  });
}

Latency first_list(const Target& target, int calls) {
  return measure(calls, [&](int) {
    const auto stub = connect(target);
    grpc::ClientContext context;
    const auto stream = stub->ListAndWatch(&context, {});
    v1beta1::ListAndWatchResponse list;
    const bool got = stream->Read(&list);
    context.TryCancel();
    (void)stream->Finish();
    return got && static_cast<std::size_t>(list.devices_size()) == target.slots.size();
  });
}

Latency answer_to(const std::string& question, const Target& target, int calls) {
  if (question == "empty") return empty(target, calls);
  if (question == "allocate") return allocate(target, calls);
  if (question == "prefer_1") return prefer(target, 1, calls);
  if (question == "prefer_4") return prefer(target, 4, calls);
  if (question == "list_first") return first_list(target, calls);
  std::fprintf(stderr, "bench: no such question: %s\n", question.c_str());
  std::exit(1);
}

// Asked from a process of its own, as kubelet is one: in this one kubelet's double has threads that wake up with every
// answer. Runs this program again as `node_bench --ask <question> <calls> <socket>`, the slots on a file.
Json ask(const Programs& programs, const std::string& question, int calls) {
  const std::string list = programs.plugin_socket() + ".slots";
  {
    std::ofstream file(list);
    for (const auto& slot : programs.slots()) file << slot << '\n';
  }
  const std::string command = std::filesystem::read_symlink("/proc/self/exe").string() + " --ask " + question + " " +
                              std::to_string(calls) + " " + programs.plugin_socket() + " " + list;
  std::FILE* out = ::popen(command.c_str(), "r");
  Latency latency;
  const bool read = out != nullptr && std::fscanf(out, "%lf %lf", &latency.p50, &latency.p99) == 2;
  if (out == nullptr || ::pclose(out) != 0 || !read) {
    std::fprintf(stderr, "bench: no answer from: %s\n", command.c_str());
    std::exit(1);
  }
  return to_json(latency);
}

int be_asked(const std::string& question, int calls, const std::string& socket, const std::string& list) {
  Target target{socket, {}};
  std::ifstream file(list);
  for (std::string slot; std::getline(file, slot);) target.slots.push_back(slot);
  const Latency latency = answer_to(question, target, calls);
  std::printf("%f %f\n", latency.p50, latency.p99);
  return 0;
}

Json start_times(int rounds) {
  std::vector<double> times;
  for (int i = 0; i < rounds; ++i) times.push_back(Programs::start({8, 10, false})->node_start_to_registered_ms());
  std::ranges::sort(times);
  return {{"best_ms", times.front()}, {"median_ms", times[times.size() / 2]}, {"worst_ms", times.back()}};
}

// After the first looks at pools and pods, which come once.
constexpr auto kSettle = 10s;

Json at_rest(const Programs& programs, std::chrono::seconds time) {
  std::this_thread::sleep_for(kSettle);
  const auto node_before = cpu_ns(programs.node());
  const auto driver_before = cpu_ns(programs.node(), "nvml");  // most of it in the stand-in for NVIDIA's library
  const auto mps_before = cpu_ns(programs.mps());
  std::this_thread::sleep_for(time);
  const double ms_per_s = 1e6 * static_cast<double>(time.count());
  return {
      {"node_cpu_ms_per_s", static_cast<double>(cpu_ns(programs.node()) - node_before) / ms_per_s},
      {"node_driver_thread_ms_per_s", static_cast<double>(cpu_ns(programs.node(), "nvml") - driver_before) / ms_per_s},
      {"mps_cpu_ms_per_s", static_cast<double>(cpu_ns(programs.mps()) - mps_before) / ms_per_s},
      {"node_rss_mb", resident_mb(programs.node())},
      {"mps_rss_mb", resident_mb(programs.mps())}};
}

// One question many times on one node: to look at with perf or strace (the program's process id is printed first).
int run_one(const std::string& question, int gpus, int slots, int calls) {
  if (question == "hold") {
    std::printf("%s\n", hold_cost(gpus * slots, calls).dump(2).c_str());
    return 0;
  }
  const bool claims = question.starts_with("claims");
  const auto programs =
      Programs::start({gpus, slots, question != "rest_without_mps", claims, claims || question == "rest_with_api"});
  std::fprintf(stderr, "tranche node is process %d\n", static_cast<int>(programs->node()));
  const Json one = question == "admission"        ? admission_cost(*programs, calls)
                   : question.starts_with("rest") ? at_rest(*programs, std::chrono::seconds(calls))
                   : question == "claims"         ? claims_cost(*programs, calls)
                   : question == "claims_rest"    ? at_rest(*programs, std::chrono::seconds(calls))
                   : question == "guard"          ? guard_cost(*programs, {gpus, slots, std::chrono::seconds(calls)})
                   : question == "stop"           ? guard_stop(*programs, calls < 10)
                   : question == "end"            ? client_end(*programs, calls < 10)
                                                  : ask(*programs, question, calls);
  std::printf("%s\n", one.dump(2).c_str());
  return 0;
}

struct Shape {
  int gpus;
  int slots;
  bool rest;  // measure idle CPU too, before anybody asks, and memory after it has answered
};

int run(bool quick) {
  const int calls = quick ? 200 : 2000;
  Json result;
  for (const Shape shape :
       {Shape{1, 10, true}, Shape{1, 48, false}, Shape{4, 10, true}, Shape{4, 48, false}, Shape{8, 10, true},
        Shape{8, 48, true}, Shape{16, 10, true}, Shape{16, 48, false}, Shape{16, 1000, false}}) {
    const auto programs = Programs::start({shape.gpus, shape.slots, true});
    Json one;
    if (shape.rest) one["rest"] = at_rest(*programs, quick ? 2s : 30s);
    for (const char* question : {"empty", "allocate", "prefer_1", "prefer_4"}) {
      // Of a thousand slots a GPU most are refused one by one: an MPS server takes 48 clients.
      if (std::string_view(question) == "allocate" && shape.slots > 48) continue;
      one[question] = ask(*programs, question, calls);
    }
    one["list_first"] = ask(*programs, "list_first", calls / 10);
    if (shape.rest) {
      one["rest"]["node_rss_mb"] = resident_mb(programs->node());
      one["rest"]["mps_rss_mb"] = resident_mb(programs->mps());
    }
    if (shape.gpus == 1 && shape.slots == 10) one["admission"] = admission_cost(*programs, quick ? 50 : 200);
    if (shape.gpus == 8 && shape.slots == 48) one["guard"] = guard_cost(*programs, {8, 48, quick ? 2s : 10s});
    result[std::to_string(shape.gpus) + " GPUs x " + std::to_string(shape.slots)] = std::move(one);
  }
  if (::geteuid() == 0) {
    result["stop"] = guard_stop(*Programs::start({1, 4, true}), quick);
    result["end"] = client_end(*Programs::start({1, 4, true}), quick);
    result["hold"] = hold_cost(quick ? 48 : 384, quick ? 3 : 10);
  }
  result["8 GPUs x 10 without MPS"]["rest"] = at_rest(*Programs::start({8, 10, false}), quick ? 2s : 30s);
  for (const int gpus : {1, 8}) {
    const auto programs = Programs::start({gpus, 0, true, true});
    Json claims{{"rest", at_rest(*programs, quick ? 2s : 30s)}};
    claims.update(claims_cost(*programs, quick ? 100 : 1000));
    claims["rest"]["node_rss_after_mb"] = resident_mb(programs->node());
    claims["rest"]["node_rss_without_claims_mb"] =
        at_rest(*Programs::start({gpus, 10, true, false, true}), 1s)["node_rss_mb"];
    result["claims of " + std::to_string(gpus) + " GPUs"] = std::move(claims);
  }
  result["start"] = start_times(quick ? 3 : 15);
  const auto size = [](const std::string& path) { return static_cast<double>(std::filesystem::file_size(path)) / 1e6; };
  result["program_mb"] = size(build_dir() + "/bin/tranche");
  std::printf("%s\n", result.dump(2).c_str());
  return 0;
}

}  // namespace
}  // namespace tranche::bench

int main(int argc, char** argv) {
  using namespace tranche::bench;
  if (argc == 6 && std::string(argv[1]) == "--ask") return be_asked(argv[2], std::atoi(argv[3]), argv[4], argv[5]);
  if (argc == 5) return run_one(argv[1], std::atoi(argv[2]), std::atoi(argv[3]), std::atoi(argv[4]));
  return run(argc > 1 && std::string(argv[1]) == "--quick");
}
