// Measures the programs from outside, the way kubelet meets them, and prints one JSON object. `bench/run` makes a table
// of it and compares it with bench/baseline.json.
#include <deviceplugin/v1beta1/api.grpc.pb.h>
#include <grpcpp/create_channel.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <thread>

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

std::unique_ptr<v1beta1::DevicePlugin::Stub> connect(const Programs& programs) {
  return v1beta1::DevicePlugin::NewStub(
      grpc::CreateChannel("unix:" + programs.plugin_socket(), grpc::InsecureChannelCredentials()));
}

// A call that asks nothing: what gRPC, the socket and this client cost by themselves.
Latency empty(const Programs& programs, int calls) {
  const auto stub = connect(programs);
  return measure(calls, [&](int) {
    grpc::ClientContext context;
    v1beta1::DevicePluginOptions response;
    return stub->GetDevicePluginOptions(&context, {}, &response).ok();
  });
}

Latency allocate(const Programs& programs, int calls) {
  const auto stub = connect(programs);
  const auto slots = programs.slots();
  return measure(calls, [&](int i) {
    grpc::ClientContext context;
    v1beta1::AllocateRequest request;
    request.add_container_requests()->add_devices_ids(slots[static_cast<std::size_t>(i) % slots.size()]);
    v1beta1::AllocateResponse response;
    return stub->Allocate(&context, request, &response).ok();
  });
}

Latency prefer(const Programs& programs, int size, int calls) {
  const auto stub = connect(programs);
  v1beta1::PreferredAllocationRequest request;
  auto& ask = *request.add_container_requests();
  for (const auto& slot : programs.slots()) ask.add_available_deviceids(slot);
  ask.set_allocation_size(size);
  return measure(calls, [&](int) {
    grpc::ClientContext context;
    v1beta1::PreferredAllocationResponse response;
    return stub->GetPreferredAllocation(&context, request, &response).ok() &&
           response.container_responses(0).deviceids_size() == size;
  });
}

Latency first_list(const Programs& programs, int calls) {
  return measure(calls, [&](int) {
    const auto stub = connect(programs);
    grpc::ClientContext context;
    const auto stream = stub->ListAndWatch(&context, {});
    v1beta1::ListAndWatchResponse list;
    const bool got = stream->Read(&list);
    context.TryCancel();
    (void)stream->Finish();
    return got && static_cast<std::size_t>(list.devices_size()) == programs.slots().size();
  });
}

Json start_times(int rounds) {
  std::vector<double> times;
  for (int i = 0; i < rounds; ++i) times.push_back(Programs::start({8, 10, false})->node_start_to_registered_ms());
  std::ranges::sort(times);
  return {{"best_ms", times.front()}, {"median_ms", times[times.size() / 2]}, {"worst_ms", times.back()}};
}

Json at_rest(const Programs& programs, std::chrono::seconds time) {
  const auto node_before = cpu_ns(programs.node());
  const auto mps_before = cpu_ns(programs.mps());
  std::this_thread::sleep_for(time);
  const double ms_per_s = 1e6 * static_cast<double>(time.count());
  return {{"node_cpu_ms_per_s", static_cast<double>(cpu_ns(programs.node()) - node_before) / ms_per_s},
          {"mps_cpu_ms_per_s", static_cast<double>(cpu_ns(programs.mps()) - mps_before) / ms_per_s},
          {"node_rss_mb", resident_mb(programs.node())},
          {"mps_rss_mb", resident_mb(programs.mps())}};
}

// One question many times on one node: to look at with perf or strace (the program's process id is printed first).
int run_one(const std::string& what, int gpus, int slots, int calls) {
  const auto programs = Programs::start({gpus, slots, true});
  std::fprintf(stderr, "tranche node is process %d\n", static_cast<int>(programs->node()));
  Json one;
  if (what == "empty") one = to_json(empty(*programs, calls));
  if (what == "allocate") one = to_json(allocate(*programs, calls));
  if (what == "prefer") one = to_json(prefer(*programs, 1, calls));
  if (what == "rest") one = at_rest(*programs, std::chrono::seconds(calls));
  std::printf("%s\n", one.dump(2).c_str());
  return 0;
}

int run(bool quick) {
  const int calls = quick ? 200 : 2000;
  Json result;
  for (const int gpus : {1, 4, 16}) {
    for (const int slots : {10, 48}) {
      const auto programs = Programs::start({gpus, slots, true});
      Json one;
      one["empty"] = to_json(empty(*programs, calls));
      one["allocate"] = to_json(allocate(*programs, calls));
      one["prefer_1"] = to_json(prefer(*programs, 1, calls));
      one["prefer_4"] = to_json(prefer(*programs, 4, calls));
      one["list_first"] = to_json(first_list(*programs, calls / 10));
      if (slots == 10) one["rest"] = at_rest(*programs, quick ? 2s : 10s);
      result[std::to_string(gpus) + " GPUs x " + std::to_string(slots)] = std::move(one);
    }
  }
  {  // the figures of the table in docs/benchmarks.md: 8 GPUs in ten slots
    const auto programs = Programs::start({8, 10, true});
    Json one;
    one["empty"] = to_json(empty(*programs, calls));
    one["allocate"] = to_json(allocate(*programs, calls));
    one["prefer_1"] = to_json(prefer(*programs, 1, calls));
    one["rest"] = at_rest(*programs, quick ? 2s : 10s);
    result["8 GPUs x 10"] = std::move(one);
  }
  {  // and its memory with 384 slots, after it has answered
    const auto programs = Programs::start({8, 48, true});
    Json one;
    one["allocate"] = to_json(allocate(*programs, calls));
    one["prefer_1"] = to_json(prefer(*programs, 1, calls));
    one["rest"] = at_rest(*programs, quick ? 2s : 10s);
    result["8 GPUs x 48"] = std::move(one);
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
  if (argc == 5) return tranche::bench::run_one(argv[1], std::atoi(argv[2]), std::atoi(argv[3]), std::atoi(argv[4]));
  return tranche::bench::run(argc > 1 && std::string(argv[1]) == "--quick");
}
