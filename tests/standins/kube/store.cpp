#include "standins/kube/store.h"

#include <algorithm>

#include "standins/kube/http_wire.h"

namespace tranche::sim {
namespace {

std::string last_part(const std::string& path) {
  return path.substr(path.rfind('/') + 1);
}

std::string namespace_of(const std::string& collection) {
  constexpr std::string_view kWord = "/namespaces/";
  const auto at = collection.find(kWord);
  if (at == std::string::npos) return {};
  const auto begin = at + kWord.size();
  return collection.substr(begin, collection.find('/', begin) - begin);
}

constexpr const char* kStrategic = "application/strategic-merge-patch+json";

// The field that identifies entries of the list; "" = the list is one value.
std::string merge_key_of(const std::string& list) {
  return list == "conditions" ? "type" : list == "taints" ? "key" : list == "containers" ? "name" : "";
}

void merge_entries(Json& list, const Json& patch, const std::string& key) {
  if (!list.is_array()) list = Json::array();
  for (const Json& entry : patch) {
    auto at = list.begin();
    while (at != list.end() && at->value(key, Json()) != entry.value(key, Json())) ++at;
    if (at == list.end())
      list.push_back(entry);
    else
      at->merge_patch(entry);
  }
}

void strategic_merge(Json& object, const Json& patch) {
  for (const auto& [name, value] : patch.items()) {
    if (value.is_object() && object.contains(name) && object[name].is_object())
      strategic_merge(object[name], value);
    else if (const std::string key = merge_key_of(name); value.is_array() && !key.empty())
      merge_entries(object[name], value, key);
    else
      object.merge_patch({{name, value}});
  }
}

constexpr const char* kApply = "application/apply-patch+yaml";

// What identifies an entry of a claim's status.devices.
std::string device_key(const Json& entry) {
  std::string key;
  for (const char* part : {"driver", "pool", "device", "shareID"}) key += entry.value(part, std::string()) + "|";
  return key;
}

}  // namespace

Json status_json(int code, const std::string& reason, const std::string& message) {
  return {{"kind", "Status"}, {"apiVersion", "v1"}, {"status", "Failure"},
          {"code", code},     {"reason", reason},   {"message", message}};
}

std::string kind_of(const std::string& collection) {
  const std::string plural = last_part(collection);
  if (plural == "pods") return "Pod";
  if (plural == "nodes") return "Node";
  if (plural == "configmaps") return "ConfigMap";
  if (plural == "nodefeatures") return "NodeFeature";
  if (plural == "resourceclaims") return "ResourceClaim";
  return "Object";
}

void drop_members(Json& value, const std::set<std::string>& names) {
  if (value.is_object())
    for (const std::string& name : names) value.erase(name);
  for (Json& held : value)
    if (held.is_structured()) drop_members(held, names);
}

bool selected(const std::string& field_selector, const Json& object) {
  if (field_selector.empty()) return true;
  if (const auto comma = field_selector.find(','); comma != std::string::npos)
    return selected(field_selector.substr(0, comma), object) && selected(field_selector.substr(comma + 1), object);
  const auto equals = field_selector.find('=');
  std::string pointer = "/" + field_selector.substr(0, equals);
  for (char& c : pointer) c = c == '.' ? '/' : c;
  return object.value(Json::json_pointer(pointer), std::string()) == field_selector.substr(equals + 1);
}

bool selected_by_label(const std::string& selector, const Json& object) {
  constexpr std::string_view kIn = " in (";
  if (selector.empty()) return true;
  const auto in = selector.find(kIn), equals = selector.find('=');
  const std::string value = object.value(Json::json_pointer("/metadata/labels"), Json::object())
                                .value(selector.substr(0, std::min(in, equals)), std::string());
  if (in == std::string::npos) return value == selector.substr(equals + 1);
  const std::string values = "," + selector.substr(in + kIn.size(), selector.size() - in - kIn.size() - 1) + ",";
  return !value.empty() && values.find("," + value + ",") != std::string::npos;
}

bool Store::serves(const std::string& collection) const {
  return collection == "/api/v1/pods" || collection == "/api/v1/nodes" ||
         (collection.starts_with("/api/v1/namespaces/") && last_part(collection) == "configmaps") ||
         objects_.contains(collection);
}

const std::map<Key, Json>& Store::all(const std::string& collection) const {
  static const std::map<Key, Json> kNone;
  const auto found = objects_.find(collection);
  return found == objects_.end() ? kNone : found->second;
}

const Json* Store::find(const std::string& collection, const Key& key) const {
  const auto& objects = all(collection);
  const auto found = objects.find(key);
  return found == objects.end() ? nullptr : &found->second;
}

void Store::happen(const std::string& type, const std::string& collection, Json object) {
  ++version_;
  object["metadata"]["resourceVersion"] = std::to_string(version_);
  happened_.push_back({version_, type, collection, std::move(object)});
}

void Store::put(const std::string& collection, const Key& key, const Json& more) {
  const Json* known = find(collection, key);
  Json object =
      known != nullptr
          ? *known
          : Json{{"kind", kind_of(collection)},
                 {"apiVersion", "v1"},
                 {"metadata", {{"name", key.second}, {"uid", "uid-" + key.second + "-" + std::to_string(version_)}}}};
  const std::string in = key.first.empty() ? namespace_of(collection) : key.first;
  if (!in.empty()) object["metadata"]["namespace"] = in;
  object.merge_patch(more);
  happen(known != nullptr ? "MODIFIED" : "ADDED", collection, std::move(object));
  objects_[collection][key] = happened_.back().object;
}

bool Store::remove(const std::string& collection, const Key& key) {
  const Json* known = find(collection, key);
  if (known == nullptr) return false;
  happen("DELETED", collection, *known);
  objects_[collection].erase(key);
  return true;
}

std::pair<int, Json> Store::act(const ApiRequest& request) {
  const std::pair<int, Json> none(404,
                                  status_json(404, "NotFound", "the server could not find the requested resource"));
  Json body = Json::parse(request.body, nullptr, false);
  if (body.is_structured()) drop_members(body, dropped_);
  if (request.method == "POST" && serves(request.path) && request.query.find("dryRun=All") != std::string::npos)
    return {201, body};
  if (request.method == "POST" && serves(request.path) && body.is_object()) {
    const Key key("", body.value(Json::json_pointer("/metadata/name"), std::string()));
    if (find(request.path, key) != nullptr)
      return {409, status_json(409, "AlreadyExists", key.second + " already exists")};
    put(request.path, key, body);
    return {201, *find(request.path, key)};
  }
  std::string path = request.path;
  if (path.ends_with("/status")) path.resize(path.rfind('/'));  // of a node: a part of the object
  const std::string collection = path.substr(0, path.rfind('/'));
  const Key key("", last_part(path));
  if (!serves(collection) || find(collection, key) == nullptr) return none;
  if (request.method == "DELETE") {
    remove(collection, key);
    return {200, {{"kind", "Status"}, {"status", "Success"}}};
  }
  if (request.method != "GET") return change(request, collection, key, body);
  return {200, *find(collection, key)};
}

// Of a claim's status.devices: each manager owns the entries that it applied last, and none may be of a device that is
// not allocated.
std::pair<int, Json> Store::apply(const ApiRequest& request, const std::string& collection, const Key& key,
                                  const Json& body) {
  Json object = *find(collection, key);
  const Json::json_pointer uid("/metadata/uid"), devices("/status/devices"),
      results("/status/allocation/devices/results");
  if (body.value(uid, std::string()) != object.value(uid, std::string()))
    return {409, status_json(409, "Conflict", "Precondition failed: UID in precondition")};
  std::set<std::string> allocated;
  for (const Json& result : object.value(results, Json::array())) allocated.insert(device_key(result));
  auto& owned = applied_[{collection, key.second, query_value(request.query, "fieldManager")}];
  Json entries = Json::array();
  for (const Json& entry : object.value(devices, Json::array()))
    if (!owned.contains(device_key(entry))) entries.push_back(entry);
  owned.clear();
  for (const Json& entry : body.value(devices, Json::array())) {
    if (!allocated.contains(device_key(entry)))
      return {422,
              status_json(422, "Invalid", "status.devices: " + device_key(entry) + " must be an allocated device")};
    owned.insert(device_key(entry));
    entries.push_back(entry);
  }
  put(collection, key, {{"status", {{"devices", std::move(entries)}}}});
  return {200, *find(collection, key)};
}

std::pair<int, Json> Store::change(const ApiRequest& request, const std::string& collection, const Key& key,
                                   const Json& body) {
  const bool whole = request.method == "PUT";
  if (!whole && request.method != "PATCH") return {405, status_json(405, "MethodNotAllowed", "not understood here")};
  if (request.content_type == kApply && request.path.ends_with("/status")) return apply(request, collection, key, body);
  const bool strategic = !whole && request.content_type == kStrategic;
  if (!body.is_object() || (!whole && !strategic && request.content_type != "application/merge-patch+json"))
    return {415, status_json(415, "UnsupportedMediaType", "an object or a merge patch is understood here")};
  const Json::json_pointer version("/metadata/resourceVersion");
  const std::string made_for = body.value(version, std::string());
  if (!made_for.empty() && made_for != find(collection, key)->value(version, std::string()))
    return {409, status_json(409, "Conflict", "another version is the newest")};
  if (whole) objects_[collection][key] = Json::object();  // removes fields that are not in the new object
  Json change = body;
  if (kind_of(collection) == "Node") {
    if (request.path.ends_with("/status"))
      change = {{"status", body.value("status", Json::object())}};
    else
      change.erase("status");
  }
  if (strategic) {
    Json merged = *find(collection, key);
    strategic_merge(merged, change);
    change = std::move(merged);
  }
  put(collection, key, change);
  return {200, *find(collection, key)};
}

void Store::bookmark() {
  happen("BOOKMARK", "", {{"kind", "Bookmark"}, {"metadata", Json::object()}});
}

}  // namespace tranche::sim
