#pragma once
// What the node measures at one moment, and its text in Prometheus' format. A Page is built from a snapshot by the
// program that has one; label values may be any text (names from the driver, the cluster, a tenant): they are bounded
// and made valid here. Pure values.
#include <concepts>
#include <initializer_list>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "base/text.h"
#include "base/units.h"
#include "observe/metrics/metric_names.h"

namespace tranche::metrics {

// The value of a sample.
struct Number {
  // NOLINTBEGIN(google-explicit-constructor): counts and bytes are numbers
  Number(double number) : value(number) {}
  Number(std::integral auto count) : value(static_cast<double>(count)) {}
  Number(Bytes bytes) : Number(bytes.value) {}
  // NOLINTEND(google-explicit-constructor)
  double value;
};

struct Page {
  // By metric of the table, in its order, and by labels as label_text() renders them.
  std::map<const Metric*, std::map<std::string, double>> families;
  friend bool operator==(const Page&, const Page&) = default;

  // One value per label of `metric`, in its order. The same labels again replace the value.
  void set(MetricRef metric, std::initializer_list<std::string_view> label_values, Number value);
  void set(MetricRef metric, Number value) { set(metric, {}, value); }
  // 1 for `state`, 0 for every other of kPoolStates.
  void set_pool_state(std::string_view pool, std::string_view state);
};

LongText to_text(const Page& page);

// The labels of several families that have the same ones are rendered once.
std::string label_text(MetricRef metric, std::initializer_list<std::string_view> label_values);  // "{gpu=\"…\"}"
// A family written straight to text: no value of it is kept. Its heading comes with its first sample.
class FamilyText {
 public:
  FamilyText(LongText& out, MetricRef metric) : out_(out), metric_(metric) {}
  void add(std::string_view labels, std::optional<Number> value);  // `labels` by label_text()

 private:
  LongText& out_;
  MetricRef metric_;
  bool headed_ = false;
};

// At most this many bytes of valid UTF-8 without control characters; anything else becomes U+FFFD.
inline constexpr std::size_t kLongestLabelValue = 256;
std::string label_value(std::string_view text, std::size_t longest = kLongestLabelValue);

}  // namespace tranche::metrics
