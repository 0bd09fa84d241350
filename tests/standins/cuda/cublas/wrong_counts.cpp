#include "standins/cuda/cublas/wrong_counts.h"

#include <charconv>

namespace tranche::sim {
namespace {

constexpr std::string_view kMeasured = "18-20,26-28,36,44-60,68,72-116";

std::uint32_t number(std::string_view text) {
  std::uint32_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

}  // namespace

bool computes_wrong(std::uint32_t sms, std::string_view spans) {
  if (spans.empty()) spans = kMeasured;
  while (!spans.empty() && spans != "none") {
    const auto comma = spans.find(',');
    const std::string_view span = spans.substr(0, comma);
    const auto dash = span.find('-');
    const std::uint32_t from = number(span.substr(0, dash));
    const std::uint32_t to = dash == std::string_view::npos ? from : number(span.substr(dash + 1));
    if (from <= sms && sms <= to) return true;
    if (comma == std::string_view::npos) break;
    spans.remove_prefix(comma + 1);
  }
  return false;
}

}  // namespace tranche::sim
