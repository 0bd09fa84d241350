#include <nlohmann/json.hpp>

#include "base/json_text.h"
#include "base/terminal_text.h"
#include "base/text.h"
#include "observe/why/why.h"

namespace tranche::why {
namespace {

constexpr int kWidthOfFiles = 120;
constexpr const char* kPlain = "0";

}  // namespace

std::string render(const std::vector<Explanation>& all, bool colour, int width) {
  TerminalText text(colour, width > 0 ? width : kWidthOfFiles);
  for (const auto& each : all) {
    text.heading((each.node.empty() ? "" : "node " + each.node + ", ") +
                 (each.kind == "device" ? "" : each.kind + " ") + each.subject + ": " + each.state);
    for (const auto& cause : each.causes) {
      text.sentence(cause.is_fault ? "!" : "-", cause.what, cause.is_fault ? kRed : kPlain);
      if (!cause.remedy.empty()) text.sentence("  ->", cause.remedy, kGreen);
    }
    for (const auto& event : each.events) text.sentence(lasted(event.ago_ms) + " ago:", event.what, kPlain);
  }
  return text.take();
}

std::string to_json(const std::vector<Explanation>& all) {
  using Json = nlohmann::ordered_json;
  Json list = Json::array();
  for (const auto& each : all) {
    Json causes = Json::array(), events = Json::array();
    for (const auto& cause : each.causes)
      causes.push_back({{"what", cause.what}, {"remedy", cause.remedy}, {"fault", cause.is_fault}});
    for (const auto& event : each.events) events.push_back({{"agoMs", event.ago_ms}, {"what", event.what}});
    list.push_back({{"node", each.node},
                    {"kind", each.kind},
                    {"subject", each.subject},
                    {"state", each.state},
                    {"causes", std::move(causes)},
                    {"events", std::move(events)}});
  }
  return json_text(list, 2);
}

}  // namespace tranche::why
