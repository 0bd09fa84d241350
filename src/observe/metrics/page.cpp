#include "observe/metrics/page.h"

#include <fmt/format.h>

#include <cmath>
#include <utility>

#include "base/result.h"
#include "base/text.h"

namespace tranche::metrics {
namespace {

std::string number(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  return fmt::format("{}", value);  // whole numbers with all their digits: 1000000, not 1e+06
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
  const bool counts = name.ends_with("_total") || name.ends_with("_TOTAL");
  if (!std::exchange(headed_, true))
    out_ += fmt::format("# HELP {0} {1}\n# TYPE {0} {2}\n", name, metric_->help, counts ? "counter" : "gauge");
  out_ += fmt::format("{}{} {}\n", name, labels, number(value->value));
}

std::string label_value(std::string_view text, std::size_t longest) {
  constexpr std::string_view kReplacement = "\xef\xbf\xbd";
  std::string out;
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
