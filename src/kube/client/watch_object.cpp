#include "kube/client/watch_object.h"

#include <nlohmann/json.hpp>

#include "kube/url.h"

namespace tranche::kube {

WatchObject::WatchObject(os::Loop& loop, KubeClient& client, WatchedObject what,
                         std::function<void(const nlohmann::json*)> on_object, std::function<void()> on_turn)
    : name_(what.name),
      on_object_(std::move(on_object)),
      watch_(loop, client, what.collection,
             {.selector = "fieldSelector=" + percent_encoded("metadata.name=" + what.name),
              .seed = what.seed,
              .role = what.role},
             {.on_page = [this](std::string_view body, bool first) { return on_page(body, first); },
              .on_line = [this](std::string_view line) { return on_line(line); },
              .on_turn = std::move(on_turn)}) {}

std::optional<std::string> WatchObject::unknown_because() const {
  if (reflector().known()) return std::nullopt;
  if (reflector().reason().empty()) return "the API server has not answered yet";
  return reflector().reason();
}

Result<ListHead> WatchObject::on_page(std::string_view body, bool first) {
  if (first) listed_ = false;
  std::optional<nlohmann::json> found;  // not reported before the page is known to be valid
  TRY(auto head, parse_list(body, [&](const nlohmann::json& object) -> Status {
        if (name_of(object) == name_) found = object;
        return {};
      }));
  if (found) {
    listed_ = true;
    on_object_(&*found);
  }
  if (head.next.empty() && !listed_) on_object_(nullptr);
  return head;
}

Result<WatchEvent> WatchObject::on_line(std::string_view line) {
  return parse_watch_line(line, [this](Change change, const nlohmann::json& object) -> Status {
    if (name_of(object) == name_) on_object_(change == Change::kDeleted ? nullptr : &object);
    return {};
  });
}

}  // namespace tranche::kube
