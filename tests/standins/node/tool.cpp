#include "tool.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <ostream>

#include "base/text.h"
#include "base/units.h"
#include "mig.h"
#include "sim_node.h"
#include "tool_arguments.h"
#include "tool_gpu.h"

namespace tranche::sim {
namespace {

constexpr std::size_t kLongestVersion = 31;

constexpr const char* kUsage =
    R"(usage: sim-node [--node DIR] COMMAND …        DIR: the simulated node, otherwise $TRANCHE_SIM_NODE

  init DIR [--profile H200] [--gpus 4] [--topology vm] [--driver 580.159.04] [--cuda 13000] [--seed WORD]
  show
  gpu N xid NUMBER [--gi G] [--ci C]     an XID event
  gpu N ecc single|double                an ECC event; the counters grow
  gpu N lost | back | reset
  gpu N memory AMOUNT                    memory in use that belongs to no process
  gpu N utilization PERCENT [PERCENT]    of the SMs [and of the memory]
  gpu N temperature DEGREES | power WATTS | recovery ACTION
  gpu N mode default|exclusive-process|prohibited
  gpu N link LINK up|down
  gpu N mig on | off | PROFILE…          cuts the GPU anew, for example: mig 3g.71gb 2g.35gb 1g.18gb
  process add N PID AMOUNT [--kind compute|mps-server|mps-client|graphics] [--sms S] [--utilization P] [--gi G] [--ci C]
  process remove N PID
  gpu N unplug | plug                    gone from the node, or there (again), for whoever starts the library next
  driver absent | present
  driver version VERSION [--cuda 13000]  another driver, for whoever starts the library next
  fail CALL CODE [--gpu N]               a call of the driver library answers CODE; CALL may be *
  hang CALL MILLISECONDS [--gpu N]       … answers late; 0: not before `clear`
  lie CALL [--gpu N]                     … answers success and does nothing: destroys of instances, the MIG mode
  kill CALL, kill-after CALL [--gpu N]   … kills the program that calls, before or after the call does its work
    [--skip N] [--times N]               of these five: N calls pass first; so many are met then, 0: all
  clear                                  no more of that
  reboot                                 instances are gone, and the MIG mode where the model forgets it
)";

std::string kind_name(ProcessKind kind) {
  switch (kind) {
    case ProcessKind::kCompute:
      return "compute";
    case ProcessKind::kMpsServer:
      return "mps-server";
    case ProcessKind::kMpsClient:
      return "mps-client";
    case ProcessKind::kGraphics:
      return "graphics";
  }
  return "unknown";
}

std::optional<ProcessKind> kind_named(std::string_view name) {
  for (const auto kind :
       {ProcessKind::kCompute, ProcessKind::kMpsServer, ProcessKind::kMpsClient, ProcessKind::kGraphics}) {
    if (kind_name(kind) == name) return kind;
  }
  return std::nullopt;
}

std::string memory_text(std::uint64_t bytes) {
  return to_string(Bytes{bytes});
}

int init(ToolArguments& words, std::ostream& out, std::ostream& err) {
  const std::string dir = words.need("the folder of the node");
  const std::uint64_t gpus = words.option_number("gpus", kMaxGpus, 1);
  const std::uint64_t cuda = words.option_number("cuda", 99999, 13000);
  if (!words.done()) return 2;
  std::error_code failed;
  std::filesystem::create_directories(dir, failed);
  const std::string path = dir + "/node.yaml";
  if (std::filesystem::exists(path, failed)) {
    err << "sim-node: " << dir << " is a simulated node already; remove it or take another folder\n";
    return 1;
  }
  {
    std::ofstream file(path);
    file << "driver: " << words.option("driver", "580.159.04") << "\ncuda: " << cuda
         << "\ngpus: {profile: " << words.option("profile", "H200") << ", count: " << gpus << "}\n";
    if (const auto topology = words.option("topology"); !topology.empty()) file << "topology: " << topology << "\n";
    if (const auto seed = words.option("seed"); !seed.empty()) file << "seed: " << seed << "\n";
  }
  const auto node = Node::open(dir);
  if (!node) {
    std::filesystem::remove(path, failed);
    err << "sim-node: " << node.error() << "\n";
    return 1;
  }
  out << "export " << kNodeVariable << "=" << std::filesystem::absolute(dir, failed).string() << "\n";
  return 0;
}

void show_gpu(const Node& node, int index, std::ostream& out) {
  const GpuState gpu = node.gpu_state(index);
  constexpr const char* kModes[] = {"default", "exclusive-thread", "prohibited", "exclusive-process"};
  out << "GPU " << index << "  " << gpu.profile.name.view() << "  " << gpu.uuid.view() << "  " << gpu.bus_id.view()
      << "  numa " << gpu.slot.numa << (gpu.lost != 0 ? "  LOST" : "") << (gpu.unplugged != 0 ? "  UNPLUGGED" : "")
      << "\n"
      << "  memory " << memory_text(node.memory_used(index)) << " of " << memory_text(gpu.profile.memory_total)
      << "  utilization " << gpu.utilization << " %  mode " << kModes[gpu.compute_mode & 3] << "\n";
  if (gpu.mig_mode != gpu.mig_pending)
    out << "  MIG is " << (gpu.mig_mode != 0 ? "on, off" : "off, on") << " after a reset\n";
  for (const GpuInstanceState& gi : gpu.instances) {
    const bool empty = std::ranges::none_of(gi.compute, [](const auto& ci) { return ci.used != 0; });
    if (gi.used != 0 && empty)
      out << "  GPU instance " << gi.id << "  " << gpu.profile.mig.profiles[gi.profile].name.view() << "  at slice "
          << gi.start << " without a compute instance\n";
  }
  for (const MigDevice& device : mig_devices(gpu)) {
    const GpuInstanceState& gi = *find_gi(gpu, device.gpu_instance);
    const ComputeInstanceState& ci = *find_ci(gi, device.compute_instance);
    out << "  MIG " << device.index << "  " << mig_name(gpu.profile.mig.profiles[gi.profile], ci.slices) << "  "
        << ci.uuid.view() << "  gi " << gi.id << " ci " << ci.id << " at slice " << gi.start << "\n";
  }
  for (const ProcessRow& row : node.processes(index)) {
    out << "  process " << row.pid << "  " << kind_name(row.kind) << "  " << memory_text(row.bytes);
    if (row.sms != 0) out << "  " << row.sms << " SMs";
    out << "\n";
  }
}

int show(const Node& node, std::ostream& out) {
  out << "driver " << node.driver_version() << (node.driver_present() ? "" : " (absent)") << "  CUDA "
      << node.cuda_version() / 1000 << "." << node.cuda_version() % 1000 / 10 << "  topology " << node.topology()
      << "  events " << node.newest_event() << "\n";
  const int gpus = static_cast<int>(node.gpus().size());
  for (int i = 0; i < gpus; ++i) show_gpu(node, i, out);
  for (const Fault& fault : node.faults()) {
    constexpr const char* kNames[] = {"", "fail ", "hang ", "lie ", "kill ", "kill-after "};
    out << kNames[static_cast<std::uint32_t>(fault.kind) % std::size(kNames)] << fault.call.view() << " "
        << fault.value;
    if (fault.gpu >= 0) out << " on GPU " << fault.gpu;
    out << "\n";
  }
  return 0;
}

void process_command(ToolArguments& words, Node& node) {
  const std::string verb = words.need("add or remove");
  const int gpu = need_gpu(words, node);
  const auto pid = static_cast<pid_t>(words.need_number("the process id", 0x7fffffff));
  if (verb == "remove") {
    if (words.done()) node.detach(pid, gpu);
    return;
  }
  if (verb != "add") return words.fail(in_quotes(verb) + " is not add or remove");
  ProcessRow row{.pid = pid, .gpu = gpu};
  row.bytes = words.need_bytes("the memory");
  const std::string kind = words.option("kind", "compute");
  const auto known = kind_named(kind);
  if (!known) words.fail(in_quotes(kind) + " is not a kind; write compute, mps-server, mps-client or graphics");
  row.kind = known.value_or(ProcessKind::kCompute);
  row.sms = static_cast<std::uint32_t>(words.option_number("sms", 4096, 0));
  row.utilization = static_cast<std::uint32_t>(words.option_number("utilization", 100, 0));
  row.gpu_instance = static_cast<std::uint32_t>(words.option_number("gi", kWholeGpu, kWholeGpu));
  row.compute_instance = static_cast<std::uint32_t>(words.option_number("ci", kWholeGpu, kWholeGpu));
  if (words.done() && !node.add_made_up_process(row)) words.fail("there is no room for more processes");
}

void driver_command(ToolArguments& words, Node& node) {
  const std::string state = words.need("absent, present or version");
  if (state == "version") {
    const std::string version = words.need("the version");
    const auto cuda = static_cast<int>(words.option_number("cuda", 99999, 0));
    if (version.size() > kLongestVersion) return words.fail(in_quotes(version) + " is too long for a version");
    if (words.done()) node.set_driver_version(version, cuda);
    return;
  }
  if (state != "absent" && state != "present")
    return words.fail(in_quotes(state) + " is not absent, present or version");
  if (words.done()) node.set_driver_present(state == "present");
}

void fault_command(ToolArguments& words, Node& node, FaultKind kind) {
  Fault fault{};
  const std::string call = words.need("the call");
  if (call != "*" && !call.starts_with("nvml")) words.fail(in_quotes(call) + " is not a call; write nvml… or *");
  fault.call = call;
  fault.kind = kind;
  const bool fail = kind == FaultKind::kFail;
  if (fail || kind == FaultKind::kHang)
    fault.value =
        static_cast<std::uint32_t>(words.need_number(fail ? "the code" : "the time in milliseconds", 100'000'000));
  fault.skip = static_cast<std::uint32_t>(words.option_number("skip", 1'000'000, 0));
  fault.times = static_cast<std::uint32_t>(words.option_number("times", 1'000'000, 0));
  const std::string gpu = words.option("gpu");
  fault.gpu = gpu.empty() ? -1 : node.find_gpu(gpu);
  if (!gpu.empty() && fault.gpu < 0) words.fail("there is no GPU " + in_quotes(gpu));
  if (words.done() && !node.add_fault(fault)) words.fail("too many faults are set; clear them first");
}

bool change(const std::string& command, ToolArguments& words, Node& node) {
  if (command == "gpu") {
    gpu_command(words, node);
  } else if (command == "process") {
    process_command(words, node);
  } else if (command == "driver") {
    driver_command(words, node);
  } else if (command == "fail") {
    fault_command(words, node, FaultKind::kFail);
  } else if (command == "hang") {
    fault_command(words, node, FaultKind::kHang);
  } else if (command == "lie") {
    fault_command(words, node, FaultKind::kLie);
  } else if (command == "kill") {
    fault_command(words, node, FaultKind::kKill);
  } else if (command == "kill-after") {
    fault_command(words, node, FaultKind::kKillAfter);
  } else if (command == "reboot") {
    if (words.done()) reboot(node);
  } else if (command == "clear") {
    if (words.done()) node.clear_faults();
  } else {
    return false;
  }
  return true;
}

int run(ToolArguments& words, std::ostream& out, std::ostream& err) {
  const std::string command = words.need("the command");
  if (command == "help") {
    out << kUsage;
    return 0;
  }
  if (!words.fault().empty()) return 2;
  if (command == "init") return init(words, out, err);
  const auto node = Node::open(words.option("node"));
  if (!node) {
    err << "sim-node: " << node.error() << "\n";
    return 1;
  }
  if (command == "show" && words.done()) return show(**node, out);
  if (!change(command, words, **node)) words.fail(in_quotes(command) + " is not a command; sim-node help lists them");
  return words.fault().empty() ? 0 : 2;
}

}  // namespace

int run_nvidia_smi(const std::vector<std::string>& words, std::ostream& out, std::ostream& err) {
  const auto which = std::ranges::find_if(words, [](const auto& word) { return word == "-i" || word == "--id"; });
  const bool reset = std::ranges::any_of(words, [](const auto& word) { return word == "-r" || word == "--gpu-reset"; });
  const auto node = Node::open();
  if (!reset || which == words.end() || which + 1 == words.end() || !node) {
    err << "nvidia-smi: only --gpu-reset -i GPU is simulated\n";
    return 2;
  }
  for (const auto name : split(*(which + 1), ',')) {
    const int gpu = (*node)->find_gpu(std::string(name));
    if (gpu < 0) {
      out << "No devices were found\n";
      return 6;
    }
    const std::string place = (*node)->gpu_state(gpu).bus_id.str();
    if (!(*node)->processes(gpu).empty()) {
      out << "GPU Reset couldn't run because GPU " << place << " is in use by one or more processes.\n";
      return 19;
    }
    reset_gpu(**node, gpu);
    out << "GPU " << place << " was successfully reset.\n";
  }
  out << "All done.\n";
  return 0;
}

int run_tool(const std::vector<std::string>& words, std::ostream& out, std::ostream& err) {
  ToolArguments parsed(words, {"node", "profile", "gpus", "topology", "driver", "cuda", "seed", "kind", "sms",
                               "utilization", "gi", "ci", "gpu", "skip", "times"});
  if (words.empty()) {
    err << kUsage;
    return 2;
  }
  const int status = run(parsed, out, err);
  if (!parsed.fault().empty()) err << "sim-node: " << parsed.fault() << "\n";
  return status;
}

}  // namespace tranche::sim
