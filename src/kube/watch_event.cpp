#include "kube/watch_event.h"

#include <nlohmann/json.hpp>
#include <optional>

#include "base/json_read.h"
#include "base/json_text.h"
#include "base/text.h"

namespace tranche::kube {
namespace {

std::optional<Change> change_of(std::string_view word) {
  if (word == "ADDED") return Change::kAdded;
  if (word == "MODIFIED") return Change::kModified;
  if (word == "DELETED") return Change::kDeleted;
  if (word == "BOOKMARK") return Change::kBookmark;
  if (word == "ERROR") return Change::kError;
  return std::nullopt;
}

}  // namespace

Result<WatchEvent> parse_watch_line(std::string_view line,
                                    const std::function<Status(Change, const nlohmann::json&)>& object) {
  const auto document = json_of(line);
  if (!document.is_object())
    return fail(Kind::kInvalid, "a watch brought something that is no JSON object: " + in_quotes(line));
  const std::string type = text_at(document, "type");
  const auto change = change_of(type);
  if (!change) return fail(Kind::kInvalid, "a watch brought an event of an unknown type: " + in_quotes(type));
  const auto& held = member_at(document, "object");
  if (!held.is_object()) return fail(Kind::kInvalid, "a watch brought an event without an object: " + type);
  WatchEvent event{*change, {}, {}};
  if (*change == Change::kError) {
    event.error = read_status(held);
    return event;
  }
  event.resource_version = text_at(member_at(held, "metadata"), "resourceVersion");
  if (event.resource_version.empty())
    return fail(Kind::kInvalid, "a watch brought an object without a resourceVersion: " + type);
  if (*change != Change::kBookmark) TRY_STATUS(object(*change, held));
  return event;
}

}  // namespace tranche::kube
