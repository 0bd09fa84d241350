#pragma once
// Private to this stand-in: its objects, by collection ("/api/v1/pods"), and all their changes, by version. No threads
// of its own: the owner locks.
#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>

#include "standins/kube/api_server.h"

namespace tranche::sim {

using Json = nlohmann::json;
using Key = std::pair<std::string, std::string>;  // namespace, name

struct Happened {
  std::uint64_t version = 0;
  std::string type;        // "ADDED", …
  std::string collection;  // "" = all of them (a bookmark)
  Json object;
};

class Store {
 public:
  void serve(const std::string& collection) { objects_[collection]; }
  bool serves(const std::string& collection) const;

  // `more` is merged into the existing object.
  void put(const std::string& collection, const Key& key, const Json& more);
  bool remove(const std::string& collection, const Key& key);
  const Json* find(const std::string& collection, const Key& key) const;
  const std::map<Key, Json>& all(const std::string& collection) const;

  // Does not store members of these names, like fields of a feature gate that is off.
  void drop(std::set<std::string> names) { dropped_ = std::move(names); }

  // GET, PUT, DELETE and PATCH (merge, strategic merge of the known lists, server-side apply of a claim's
  // status.devices) of one object, POST to its collection:
  // the HTTP status and the body. A change for a version other than the newest is refused. For a node, /status changes
  // only the status, and the object everything else.
  std::pair<int, Json> act(const ApiRequest& request);

  void bookmark();
  void forget() { oldest_ = ++version_; }
  std::uint64_t version() const { return version_; }
  std::uint64_t oldest() const { return oldest_; }
  const std::deque<Happened>& happened() const { return happened_; }

 private:
  std::pair<int, Json> change(const ApiRequest& request, const std::string& collection, const Key& key,
                              const Json& body);
  std::pair<int, Json> apply(const ApiRequest& request, const std::string& collection, const Key& key,
                             const Json& body);
  void happen(const std::string& type, const std::string& collection, Json object);

  std::uint64_t version_ = 100;
  std::uint64_t oldest_ = 1;
  std::map<std::string, std::map<Key, Json>> objects_;
  std::deque<Happened> happened_;
  std::set<std::string> dropped_;
  // By collection, name and field manager: keys of the entries in status.devices.
  std::map<std::array<std::string, 3>, std::set<std::string>> applied_;
};

// "spec.nodeName=n1", "metadata.name=n1"; "" selects everything.
bool selected(const std::string& field_selector, const Json& object);
bool selected_by_label(const std::string& selector, const Json& object);  // "KEY in (A,B)" alone
Json status_json(int code, const std::string& reason, const std::string& message);
std::string kind_of(const std::string& collection);  // "Pod"

}  // namespace tranche::sim
