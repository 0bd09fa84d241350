#include "kube/event_json.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/json_text.h"
#include "base/text.h"
#include "os/clock/clock.h"

namespace tranche::kube {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kLongestEventName = 253;

}  // namespace

std::string event_namespace(const ObjectRef& about) {
  return about.object_namespace.empty() ? "default" : about.object_namespace;
}

std::string event_name(const EventRecord& event, std::uint64_t salt) {
  const std::string seed = fmt::format("{}/{}/{}/{}/{}", event.about.uid, event.reason, event.message,
                                       event.first.time_since_epoch().count(), salt);
  return event.about.name.substr(0, kLongestEventName - 17) + "." + hex16(stable_hash(seed));
}

std::string event_body(const EventRecord& event, const std::string& name, const std::string& node) {
  const bool claim = event.about.kind == "ResourceClaim";
  Json about{{"apiVersion", claim ? "resource.k8s.io/v1" : "v1"},
             {"kind", event.about.kind},
             {"name", event.about.name},
             {"uid", event.about.uid}};
  if (!event.about.object_namespace.empty()) about["namespace"] = event.about.object_namespace;
  const Json body{{"apiVersion", "v1"},
                  {"kind", "Event"},
                  {"metadata", {{"name", name}, {"namespace", event_namespace(event.about)}}},
                  {"involvedObject", std::move(about)},
                  {"type", event.warning ? "Warning" : "Normal"},
                  {"reason", event.reason},
                  {"message", event.message},
                  {"count", event.count},
                  {"firstTimestamp", utc_seconds(event.first)},
                  {"lastTimestamp", utc_seconds(event.last)},
                  {"source", {{"component", kComponent}, {"host", node}}},
                  {"reportingComponent", kComponent},
                  {"reportingInstance", node}};
  return json_text(body);
}

std::string event_patch(const EventRecord& event) {
  return json_text(
      Json{{"count", event.count}, {"lastTimestamp", utc_seconds(event.last)}, {"message", event.message}});
}

std::string utc_seconds(WallTime time) {
  return os::utc_text(time).substr(0, std::string_view("2025-03-04T12:01:02").size()) + "Z";
}

}  // namespace tranche::kube
