#include <gmock/gmock.h>

#include <cstdlib>
#include <fstream>
#include <random>
#include <set>

#include "base/text.h"
#include "observe/metrics/page.h"

namespace tranche::metrics {
namespace {

using ::testing::HasSubstr;

std::string labels_of(const Metric& metric) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < metric.label_count(); ++i) names.emplace_back(metric.labels[i]);
  return join(names, ",");
}

// The list in docs/reference/metrics.md: name with its labels in braces, meaning.
std::vector<std::vector<std::string>> documented() {
  const char* source = std::getenv("TRANCHE_SOURCE");
  std::ifstream file((source != nullptr ? std::string(source) + "/" : std::string()) + "docs/reference/metrics.md");
  EXPECT_TRUE(file) << "docs/reference/metrics.md is not there; run from the source directory or set TRANCHE_SOURCE";
  std::vector<std::vector<std::string>> rows;
  for (std::string line;
       std::getline(file, line) && !line.starts_with("## ");) {  // the list is above the first heading
    constexpr std::string_view kStart = "- `", kMiddle = "`: ", kTenant = "TENANT";
    if (!line.starts_with(kStart)) continue;
    const auto middle = line.find(kMiddle);
    EXPECT_NE(middle, std::string::npos) << line;
    if (middle == std::string::npos) continue;
    std::string name = line.substr(kStart.size(), middle - kStart.size());
    if (const auto at = name.find(kTenant); at != std::string::npos)
      name.replace(at, kTenant.size(), "namespace,pod,container,gpu,resource");
    rows.push_back({std::move(name), line.substr(middle + kMiddle.size())});
  }
  return rows;
}

TEST(Metrics, TheDocumentedListIsTheTableInOrderAndWord) {
  std::vector<std::vector<std::string>> ours;
  for (const Metric& metric : kMetrics) {
    const std::string labels = labels_of(metric);
    ours.push_back({std::string(metric.name) + (labels.empty() ? "" : "{" + labels + "}"), std::string(metric.help)});
  }
  const auto theirs = documented();
  for (const auto& row : ours)
    EXPECT_THAT(theirs, ::testing::Contains(row)) << row[0] << " is not in docs/reference/metrics.md";
  for (const auto& row : theirs)
    EXPECT_THAT(ours, ::testing::Contains(row)) << row[0] << " is only in docs/reference/metrics.md";
  EXPECT_EQ(theirs, ours) << "the order differs";
}

TEST(Metrics, NamesFollowPrometheusRules) {
  std::set<std::string_view> names;
  for (const Metric& metric : kMetrics) {
    EXPECT_TRUE(names.insert(metric.name).second) << metric.name << " twice";
    EXPECT_TRUE(metric.name.starts_with("tranche_")) << metric.name;
    EXPECT_EQ(metric.name.find_first_not_of("abcdefghijklmnopqrstuvwxyz_"), std::string_view::npos) << metric.name;
    EXPECT_TRUE(metric.help.ends_with('.')) << metric.name;
    EXPECT_EQ(metric.help.find_first_of("|\n\\"), std::string_view::npos) << metric.name;
  }
}

TEST(Metrics, APageIsWrittenInTheOrderOfTheTableWhateverTheOrderOfSetting) {
  Page page;
  page.set("tranche_slots", {"nvidia.com/gpu", "GPU-2", "healthy"}, 10);
  page.set("tranche_slots", {"nvidia.com/gpu", "GPU-1", "healthy"}, 9);
  page.set("tranche_build_info", {"0.1.0"}, 1);
  page.set("tranche_driver_ready", 1);
  page.set("tranche_slots", {"nvidia.com/gpu", "GPU-1", "healthy"}, 10);
  EXPECT_EQ(to_text(page).str(), R"(# HELP tranche_build_info Always 1; the label gives the version.
# TYPE tranche_build_info gauge
tranche_build_info{version="0.1.0"} 1
# HELP tranche_driver_ready 1 if the driver library responds, 0 if not.
# TYPE tranche_driver_ready gauge
tranche_driver_ready 1
# HELP tranche_slots Slots advertised to kubelet; health is healthy or unhealthy.
# TYPE tranche_slots gauge
tranche_slots{resource="nvidia.com/gpu",gpu="GPU-1",health="healthy"} 10
tranche_slots{resource="nvidia.com/gpu",gpu="GPU-2",health="healthy"} 10
)");
  Page same;
  same.set("tranche_driver_ready", 1);
  same.set("tranche_slots", {"nvidia.com/gpu", "GPU-1", "healthy"}, 10);
  same.set("tranche_build_info", {"0.1.0"}, 1);
  same.set("tranche_slots", {"nvidia.com/gpu", "GPU-2", "healthy"}, 10);
  EXPECT_EQ(page, same);
}

TEST(Metrics, AnEmptyPageIsEmptyText) {
  EXPECT_EQ(to_text(Page{}).str(), "");
}

TEST(Metrics, BytesAreWrittenExactly) {
  Page page;
  page.set("tranche_gpu_memory_bytes", {"GPU-1"}, 150754820096.0);
  EXPECT_THAT(to_text(page).str(), HasSubstr("tranche_gpu_memory_bytes{gpu=\"GPU-1\"} 150754820096\n"));
}

TEST(Metrics, NumbersAreWrittenAsPrometheusReadsThem) {
  for (const auto& [value, text] : std::vector<std::pair<double, std::string>>{{0, "0"},
                                                                               {-3, "-3"},
                                                                               {1e6, "1000000"},
                                                                               {0.1, "0.1"},
                                                                               {1e300, "1e+300"},
                                                                               {NAN, "NaN"},
                                                                               {INFINITY, "+Inf"},
                                                                               {-INFINITY, "-Inf"}}) {
    Page page;
    page.set("tranche_driver_ready", value);
    EXPECT_THAT(to_text(page).str(), HasSubstr("\ntranche_driver_ready " + text + "\n"));
  }
}

TEST(Metrics, CountersAreCounters) {
  Page page;
  page.set("tranche_xid_events_total", {"GPU-1", "79"}, 2);
  EXPECT_THAT(to_text(page).str(), HasSubstr("# TYPE tranche_xid_events_total counter\n"
                                             "tranche_xid_events_total{gpu=\"GPU-1\",xid=\"79\"} 2\n"));
}

TEST(Metrics, APoolIsInOneStateOutOfAll) {
  Page page;
  page.set_pool_state("gpu-1", "serving");
  const auto text = to_text(page).str();
  EXPECT_THAT(text, HasSubstr("tranche_pool_state{pool=\"gpu-1\",state=\"serving\"} 1\n"));
  for (const char* other : {"absent", "starting", "configuring", "backing-off", "stopping", "given-up"}) {
    EXPECT_THAT(text, HasSubstr("{pool=\"gpu-1\",state=\"" + std::string(other) + "\"} 0\n"));
  }
  ASSERT_EQ(page.families.size(), 1u);
  EXPECT_EQ(page.families.begin()->second.size(), kPoolStates.size());
}

TEST(Metrics, ALabelValueCannotBreakOutOfItsQuotes) {
  Page page;
  page.set("tranche_grants_total", {"a\"} 1\nevil{x=\"\\"}, 3);
  const auto text = to_text(page).str();
  EXPECT_EQ(lines_of(text).size(), 3u) << text;
  EXPECT_THAT(text, HasSubstr("tranche_grants_total{resource=\"a\\\"} 1\xef\xbf\xbd"
                              "evil{x=\\\"\\\\\"} 3\n"));
}

// As tenants' metrics are written, whose labels are rendered once.
TEST(MetricsPage, PiecesMakeTheSameTextAsAPage) {
  Page page;
  page.set_pool_state("gpu-1", "serving");
  LongText text;
  FamilyText family(text, "tranche_pool_state");
  for (const auto& [labels, value] : page.families.begin()->second) family.add(labels, value);
  EXPECT_EQ(text.str(), to_text(page).str());
}

TEST(LabelValue, GoodTextStaysAsItIs) {
  for (const char* text : {"", "nvidia.com/gpu", "NVIDIA H200", "caf\xc3\xa9", "\xe2\x82\xac", "\xf0\x9f\x98\x80"}) {
    EXPECT_EQ(label_value(text), text);
  }
}

TEST(LabelValue, WhatIsNoTextIsReplaced) {
  const std::string bad = "\xef\xbf\xbd";
  EXPECT_EQ(label_value("a\tb\x7f"), "a" + bad + "b" + bad);
  EXPECT_EQ(label_value("\xff"), bad);
  EXPECT_EQ(label_value("a\xc3"), "a" + bad);               // cut in the middle
  EXPECT_EQ(label_value("\xc0\xaf"), bad + bad);            // overlong
  EXPECT_EQ(label_value("\xed\xa0\x80"), bad + bad + bad);  // surrogate
  EXPECT_EQ(label_value("\xf5\x80\x80\x80"), bad + bad + bad + bad);
  EXPECT_EQ(label_value("\xc2\x85"), bad);  // a control character of two bytes
}

TEST(LabelValue, LongTextIsCutBetweenCharacters) {
  EXPECT_EQ(label_value(std::string(1000, 'a')).size(), kLongestLabelValue);
  EXPECT_EQ(label_value(std::string(kLongestLabelValue - 1, 'a') + "\xc3\xa9"),
            std::string(kLongestLabelValue - 1, 'a'));
}

TEST(LabelValue, AnyBytesGiveBoundedTextThatIsStable) {
  std::mt19937 random(20240611);
  std::uniform_int_distribution<int> byte(0, 255);
  for (int i = 0; i < 20000; ++i) {
    std::string text(static_cast<std::size_t>(byte(random)), '\0');
    for (char& c : text) c = static_cast<char>(byte(random));
    const auto once = label_value(text);
    ASSERT_LE(once.size(), kLongestLabelValue);
    ASSERT_EQ(label_value(once), once);
  }
}

}  // namespace
}  // namespace tranche::metrics
