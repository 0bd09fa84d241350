#include "metrics/page.h"

#include <prometheus/text_serializer.h>

#include <algorithm>

#include "base/result.h"

namespace tranche::metrics {
namespace {

std::size_t place_of(std::string_view name) {
  const auto found = std::ranges::find_if(kAllMetrics, [&](const Metric* metric) { return metric->name == name; });
  CHECK_THAT(found != kAllMetrics.end(), "a metric that is not in the table");
  return static_cast<std::size_t>(found - kAllMetrics.begin());
}

Family& family_of(std::vector<Family>& families, const Metric& metric) {
  const auto place = place_of(metric.name);
  const auto at = std::ranges::find_if(families, [&](const Family& family) { return place_of(family.name) >= place; });
  if (at != families.end() && at->name == metric.name) return *at;
  return *families.insert(at, {std::string(metric.name), std::string(metric.help), metric.type, {}});
}

prometheus::MetricFamily for_the_library(const Family& family) {
  prometheus::MetricFamily out;
  out.name = family.name;
  out.help = family.help;
  out.type = family.type == Type::kCounter ? prometheus::MetricType::Counter : prometheus::MetricType::Gauge;
  for (const auto& sample : family.samples) {
    prometheus::ClientMetric metric;
    for (const auto& [name, value] : sample.labels) metric.label.push_back({name, value});
    metric.counter.value = sample.value;
    metric.gauge.value = sample.value;
    out.metric.push_back(std::move(metric));
  }
  return out;
}

}  // namespace

std::string_view to_string(Type type) {
  return type == Type::kCounter ? "counter" : "gauge";
}

void Page::set(const Metric& metric, std::initializer_list<std::string_view> label_values, double value) {
  CHECK_THAT(label_values.size() == metric.label_count(), "one value per label of the metric");
  Sample sample;
  sample.value = value;
  std::size_t at = 0;
  for (const auto text : label_values) sample.labels.emplace_back(metric.labels[at++], label_value(text));
  auto& samples = family_of(families, metric).samples;
  const auto place = std::ranges::lower_bound(samples, sample.labels, {}, &Sample::labels);
  if (place != samples.end() && place->labels == sample.labels) {
    place->value = value;
  } else {
    samples.insert(place, std::move(sample));
  }
}

void Page::set_pool_state(std::string_view pool, std::string_view state) {
  for (const auto known : kPoolStates) set(kPoolState, {pool, known}, 0);
  set(kPoolState, {pool, state}, 1);  // also one that is not known here: a newer `tranche mps`
}

std::string to_text(const Page& page) {
  std::vector<prometheus::MetricFamily> families;
  families.reserve(page.families.size());
  for (const auto& family : page.families) families.push_back(for_the_library(family));
  return prometheus::TextSerializer().Serialize(families);
}

}  // namespace tranche::metrics
