#include "probe/probe.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/json_text.h"
#include "base/text.h"

namespace tranche::probe {
namespace {

double ms(Duration duration) {
  return std::chrono::duration<double, std::milli>(duration).count();
}

std::string cuda_version(int number) {
  return fmt::format("{}.{}", number / 1000, number % 1000 / 10);
}

std::string answers(const ProbeReport& report) {
  if (report.wrong_words == 0) return fmt::format("right ({} words checked)", report.checked_words);
  return fmt::format("WRONG: {} of {} words", report.wrong_words, report.checked_words);
}

}  // namespace

std::string mps_verdict(const MpsSign& sign) {
  if (sign.connected) return "connected (" + join(sign.peers, ", ") + ")";
  if (sign.control_socket)
    return "a daemon's socket is there (" + sign.pipe_directory + "/control), but starting CUDA made no connection";
  return "no sign of it (no socket " + sign.pipe_directory + "/control)";
}

std::string to_text(const ProbeReport& r) {
  std::string text;
  const auto line = [&text](const char* name, const std::string& value) {
    text += fmt::format("{:<12} {}\n", name, value);
  };
  line("GPU", fmt::format("{} {} (device {} of {} visible, compute capability {}.{})", r.device_name, r.device_uuid,
                          r.device_index, r.visible_devices, r.capability_major, r.capability_minor));
  line("driver", fmt::format("CUDA {}, {}", cuda_version(r.driver_cuda), r.library));
  line("MPS", mps_verdict(r.mps));
  for (const std::string& setting : r.mps.settings) line("", setting);
  line("SMs", fmt::format("{} by attribute, {} seen at work", r.sms_by_attribute, r.sms_seen));
  line("memory", fmt::format("{} free of {}{}", to_string(r.memory_free), to_string(r.memory_total),
                             r.largest_allocation ? ", largest allocation " + to_string(*r.largest_allocation) : ""));
  for (const Allocation& a : r.allocations) {
    line("allocation", to_string(a.asked) + (a.granted ? " granted" : " refused: " + a.error));
  }
  line("answers", answers(r));
  if (r.throughput) {
    line("speed", fmt::format("{:.0f} blocks/s{} ({} launches of {} blocks in {:.2f} s)",
                              r.throughput->blocks_per_second, r.throughput->tensor_cores ? " on tensor cores" : "",
                              r.throughput->launches, r.throughput->blocks_per_launch, r.throughput->seconds));
  }
  line("times", fmt::format("cuInit {:.1f} ms, context {:.1f} ms, kernels {:.1f} ms", ms(r.init_time),
                            ms(r.context_time), ms(r.compile_time)));
  return text;
}

std::string to_json(const ProbeReport& r) {
  using Json = nlohmann::ordered_json;
  Json json;
  json["device"] = {{"name", r.device_name},
                    {"uuid", r.device_uuid},
                    {"index", r.device_index},
                    {"visible", r.visible_devices},
                    {"computeCapability", fmt::format("{}.{}", r.capability_major, r.capability_minor)}};
  json["driver"] = {{"cuda", cuda_version(r.driver_cuda)}, {"library", r.library}};
  json["mps"] = {{"connected", r.mps.connected},
                 {"pipeDirectory", r.mps.pipe_directory},
                 {"controlSocket", r.mps.control_socket},
                 {"peers", r.mps.peers},
                 {"settings", r.mps.settings}};
  json["sms"] = {{"attribute", r.sms_by_attribute}, {"seen", r.sms_seen}};
  json["memory"] = {{"total", r.memory_total.value}, {"free", r.memory_free.value}};
  if (r.largest_allocation) json["memory"]["largestAllocation"] = r.largest_allocation->value;
  json["allocations"] = Json::array();
  for (const Allocation& a : r.allocations) {
    Json entry = {{"bytes", a.asked.value}, {"granted", a.granted}};
    if (!a.granted) entry["error"] = a.error;
    json["allocations"].push_back(std::move(entry));
  }
  json["answers"] = {{"checked", r.checked_words}, {"wrong", r.wrong_words}};
  if (r.throughput) {
    json["throughput"] = {{"blocksPerSecond", r.throughput->blocks_per_second},
                          {"blocksPerLaunch", r.throughput->blocks_per_launch},
                          {"iterations", r.throughput->iterations},
                          {"tensorCores", r.throughput->tensor_cores},
                          {"launches", r.throughput->launches},
                          {"seconds", r.throughput->seconds}};
  }
  json["milliseconds"] = {{"init", ms(r.init_time)}, {"context", ms(r.context_time)}, {"compile", ms(r.compile_time)}};
  // Names come from the driver and the environment: replace what is not UTF-8 instead of throwing.
  return json_text(json) + "\n";
}

}  // namespace tranche::probe
