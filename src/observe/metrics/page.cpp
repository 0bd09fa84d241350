#include "observe/metrics/page.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <utility>

#include "base/result.h"
#include "base/text.h"

namespace tranche::metrics {
namespace {

// Whole numbers with all their digits: 1000000, not 1e+06.
std::string number(double value) {
  constexpr double kExact = 9007199254740992;  // 2^53
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  std::array<char, 32> text{};
  char* const end = text.data() + text.size();
  const bool whole = value == std::floor(value) && std::abs(value) < kExact;
  const auto done = whole ? std::to_chars(text.data(), end, static_cast<std::int64_t>(value))
                          : std::to_chars(text.data(), end, value);
  return {text.data(), done.ptr};
}

constexpr std::string_view kReplacement = "\xef\xbf\xbd";

// The printable ASCII at the beginning, which most names are.
std::size_t plain_length(std::string_view text) {
  return static_cast<std::size_t>(std::ranges::find_if(text, [](char c) { return c < 0x20 || c == 0x7f; }) -
                                  text.begin());
}

}  // namespace

void Page::set(MetricRef metric, std::initializer_list<std::string_view> label_values, Number value) {
  families[&*metric][label_text(metric, label_values)] = value.value;
}

void Page::set_pool_state(std::string_view pool, std::string_view state) {
  for (const auto known : kPoolStates) set("tranche_pool_state", {pool, known}, 0);
  set("tranche_pool_state", {pool, state}, 1);  // also one that is not known here: a newer `tranche mps`
}

LongText to_text(const Page& page) {
  LongText out;
  for (const auto& [metric, samples] : page.families) {
    FamilyText family(out, *metric);
    for (const auto& [labels, value] : samples) family.add(labels, value);
  }
  return out;
}

std::string label_text(MetricRef metric, std::initializer_list<std::string_view> label_values) {
  CHECK_THAT(label_values.size() == metric->label_count(), "one value per label of the metric");
  std::string out;
  std::size_t at = 0;
  for (const auto value : label_values) {
    out += out.empty() ? '{' : ',';
    out += metric->labels[at++];
    out += "=\"" + visible_text(label_value(value), "\"\\") + '"';
  }
  return out.empty() ? out : out + '}';
}

void FamilyText::add(std::string_view labels, std::optional<Number> value) {
  if (!value) return;
  const auto name = metric_->name;
  const auto put = [this](std::initializer_list<std::string_view> parts) {
    for (const auto part : parts) out_ += part;
  };
  const bool counts = name.ends_with("_total") || name.ends_with("_TOTAL");
  if (!std::exchange(headed_, true))
    put({"# HELP ", name, " ", metric_->help, "\n# TYPE ", name, counts ? " counter\n" : " gauge\n"});
  put({name, labels, " ", number(value->value), "\n"});
}

std::string label_value(std::string_view text, std::size_t longest) {
  std::string out(text.substr(0, std::min(plain_length(text), longest)));
  text.remove_prefix(out.size());
  if (out.size() == longest) return out;
  while (!text.empty()) {
    const auto length = character_at(text);
    auto character = length == 0 ? kReplacement : text.substr(0, length);
    if (is_control(character)) character = kReplacement;
    if (out.size() + character.size() > longest) break;
    out += character;
    text.remove_prefix(length == 0 ? 1 : length);
  }
  return out;
}

}  // namespace tranche::metrics
