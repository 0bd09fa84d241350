// Any bytes as the value of a metric's label: bounded, stable, and the page keeps its three lines.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "observe/metrics/page.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  namespace metrics = tranche::metrics;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto value = metrics::label_value(text);
  if (value.size() > metrics::kLongestLabelValue || metrics::label_value(value) != value) std::abort();
  metrics::Page page;
  page.set("tranche_grants_total", {text}, 1);
  const auto written = metrics::to_text(page);
  if (std::ranges::count(written, '\n') != 3) std::abort();
  return 0;
}
