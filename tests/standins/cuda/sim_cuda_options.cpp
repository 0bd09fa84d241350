#include "standins/cuda/sim_cuda_options.h"

#include <charconv>
#include <cmath>
#include <sstream>

namespace tranche::sim {
namespace {

std::optional<double> number(const std::string& text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, std::chars_format::fixed);
  if (error != std::errc() || end != text.data() + text.size() || !(value >= 0 && value <= 1e15)) return std::nullopt;
  return value;
}

std::optional<std::int64_t> scaled(const std::string& text, double unit) {
  const auto value = number(text);
  if (!value || *value * unit > 9e18) return std::nullopt;
  return std::llround(*value * unit);
}

constexpr std::int64_t kLongestSaveNs = 1'000'000'000'000'000;  // 11 days: 64 times that still fits

std::optional<OnTerm> parse_on_term(const std::string& text) {
  const auto colon = text.find(':');
  if (colon == std::string::npos || colon + 1 == text.size()) return std::nullopt;
  const auto seconds = scaled(text.substr(0, colon), 1e9);
  return seconds && *seconds <= kLongestSaveNs ? std::optional(OnTerm{*seconds, text.substr(colon + 1)}) : std::nullopt;
}

}  // namespace

std::optional<std::uint64_t> parse_size(std::string text) {
  for (const char* suffix : {"iB", "B"}) {
    if (text.ends_with(suffix)) text.resize(text.size() - std::string(suffix).size());
  }
  double unit = 1;
  if (!text.empty()) {
    const char last = text.back();
    unit = last == 'K' ? 0x1p10 : last == 'M' ? 0x1p20 : last == 'G' ? 0x1p30 : 1;
    if (unit != 1) text.pop_back();
  }
  const auto value = scaled(text, unit);
  return value ? std::optional(static_cast<std::uint64_t>(*value)) : std::nullopt;
}

std::optional<SimCudaOptions> parse_sim_cuda_options(const std::vector<std::string>& words, std::string* problem) {
  SimCudaOptions options;
  const auto bad = [&](const std::string& word, const std::string& value) {
    *problem = word + " does not take \"" + value + "\"";
    return std::nullopt;
  };
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    bool* flag = word == "--fault"         ? &options.fault
                 : word == "--all-devices" ? &options.all_devices
                 : word == "--hold"        ? &options.hold
                 : word == "--stdin"       ? &options.stdin_commands
                 : word == "--stay"        ? &options.stay
                 : word == "--tensor"      ? &options.tensor
                 : word == "--catch-term"  ? &options.catch_term
                 : word == "--help"        ? &options.help
                                           : nullptr;
    if (flag != nullptr) {
      *flag = true;
      continue;
    }
    std::string value = i + 1 < words.size() ? words[++i] : "";
    if (word == "--allocate" || word == "--grow") {
      if (word == "--grow" && value.ends_with("/s")) value.resize(value.size() - 2);
      const auto size = parse_size(value);
      if (!size) return bad(word, value);
      if (word == "--grow") {
        options.grow_per_second = *size;
      } else {
        options.allocations.push_back(*size);
      }
      continue;
    }
    if (word == "--on-term") {
      options.on_term = parse_on_term(value);
      if (!options.on_term) return bad(word, value);
      continue;
    }
    std::int64_t* target = nullptr;
    double unit = 1;
    if (word == "--kernel-ms") {
      target = &options.kernel_ns;
      unit = 1e6;
    } else if (word == "--grow-every") {
      target = &options.grow_every_ns;
      unit = 1e6;
    } else if (word == "--queue") {
      target = &options.queue;
    } else if (word == "--seconds") {
      target = &options.seconds_ns;
      unit = 1e9;
    } else if (word == "--report-every") {
      target = &options.report_ns;
      unit = 1e9;
    } else {
      *problem = "unknown option " + word;
      return std::nullopt;
    }
    const auto amount = scaled(value, unit);
    if (!amount) return bad(word, value);
    *target = *amount;
  }
  if (options.queue < 1) options.queue = 1;
  if (options.grow_every_ns < 1) options.grow_every_ns = 1;
  return options;
}

SimCudaLine parse_sim_cuda_line(const std::string& line) {
  std::istringstream words(line);
  SimCudaLine out;
  std::string first, second;
  words >> out.verb >> first >> second;
  if (out.verb == "alloc" || out.verb == "free") {
    const auto size = parse_size(first);
    if (!size) return {};
    out.bytes = *size;
  } else if (out.verb == "launch") {
    const auto length = scaled(first, 1e6);
    const auto count = second.empty() ? std::optional<std::int64_t>(1) : scaled(second, 1);
    if (!length || !count) return {};
    out.kernel_ns = *length;
    out.count = *count;
  }
  return out;
}

}  // namespace tranche::sim
