#include "kube/object.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/json_read.h"
#include "base/json_text.h"
#include "base/text.h"

namespace tranche::kube {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kLongestName = 253;  // of a DNS subdomain (RFC 1123), the format of object names

bool is_legal_name(std::string_view name) {
  const auto inner = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '.'; };
  const auto outer = [&](char c) { return inner(c) && c != '-' && c != '.'; };
  return !name.empty() && name.size() <= kLongestName && std::ranges::all_of(name, inner) && outer(name.front()) &&
         outer(name.back());
}

}  // namespace

std::string name_of(const Json& object) {
  return text_at(member_at(object, "metadata"), "name");
}

Result<ListHead> parse_list(std::string_view body, const std::function<Status(const Json&)>& item,
                            std::string_view what) {
  Status refused;
  const Json document = json_of_list(body, "items", [&](const Json& object) {
    if (refused) refused = item(object);
  });
  const Json& items = member_at(document, "items");
  // An empty list may have "items": null.
  if (!document.is_object() || !(items.is_array() || (items.is_null() && text_at(document, "kind").ends_with("List"))))
    return fail(Kind::kInvalid,
                "the API server answered with something that is no " + std::string(what) + ": " + in_quotes(body));
  const Json& metadata = member_at(document, "metadata");
  ListHead head{text_at(metadata, "resourceVersion"), text_at(metadata, "continue")};
  if (head.resource_version.empty())
    return fail(Kind::kInvalid, "the API server answered with a list that has no metadata.resourceVersion");
  TRY_STATUS(std::move(refused));
  return head;
}

Texts labels_of(const Json& object) {
  return text_map_at(member_at(object, "metadata"), "labels");
}

Texts data_of_config_map(const Json& object) {
  return text_map_at(object, "data");
}

Result<ObjectName> parse_object_name(std::string_view text) {
  const auto slash = text.find('/');
  if (slash != std::string_view::npos) {
    ObjectName found{std::string(text.substr(0, slash)), std::string(text.substr(slash + 1))};
    const bool label = found.in_namespace.find('.') == std::string::npos;
    if (label && is_legal_name(found.in_namespace) && is_legal_name(found.name)) return found;
  }
  return fail(Kind::kInvalid, in_quotes(text) + " is no NAMESPACE/NAME; write for example gpu-operator/gpu-configs");
}

}  // namespace tranche::kube
