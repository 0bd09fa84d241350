#pragma once
// A stand-in for the Kubernetes API server: pods, nodes, ConfigMaps, other objects and events over plain HTTP/1.1 on
// the loopback, with the behaviours of the real one that a client must survive: pages, bookmarks, an expired version
// (410, as an event of a watch or as a response), refused tokens, streams that are cut or end, responses that come late
// or never. It records requests, so that a test can check that no client polls. Has threads of its own; every function
// may be called from any thread.
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

namespace tranche::sim {

struct ApiRequest {
  std::string method;
  std::string path;   // without the query
  std::string query;  // as received
  std::string token;  // of "Authorization: Bearer"
  std::string agent;
  std::string content_type;
  std::string body;
  bool is_watch() const { return query.find("watch=1") != std::string::npos; }
};

class ApiServer {
 public:
  static std::unique_ptr<ApiServer> start();
  virtual ~ApiServer() = default;

  virtual std::uint16_t port() const = 0;
  std::string kubeconfig(const std::string& token_file) const;  // a kubeconfig; no token for ""

  // --- what it keeps: objects as JSON text ------------------------------------------------------------------------
  virtual void put_pod(const std::string& pod_namespace, const std::string& name, const std::string& more_json) = 0;
  virtual void delete_pod(const std::string& pod_namespace, const std::string& name) = 0;
  // Any collection by its path, such as "/api/v1/nodes" or "/api/v1/namespaces/gpu/configmaps"; unknown ones return 404
  // until they are served. `more_json` is merged into an existing object.
  virtual void serve_collection(const std::string& collection) = 0;
  virtual void put(const std::string& collection, const std::string& name, const std::string& more_json) = 0;
  virtual void remove(const std::string& collection, const std::string& name) = 0;
  virtual void drop_members(
      const std::set<std::string>& names) = 0;  // from written objects: as if their feature gate were off
  virtual std::string object(const std::string& collection, const std::string& name) const = 0;  // "" = none
  virtual std::vector<std::string> events() const = 0;  // as stored now, by namespace and name

  // --- what it does -------------------------------------------------------------------------------------------------
  virtual void take_token(const std::string& token) = 0;  // the only accepted one; "" = any
  virtual void bookmark() = 0;                            // to every watch
  virtual void forget_versions() = 0;  // older than now: a watch from one of them receives 410 in its stream
  virtual void cut_watches() = 0;      // in the middle of the stream
  virtual void end_watches() = 0;      // as at their timeout
  virtual void send_raw(const std::string& text) = 0;  // to every watch
  // Refuses the next `count` requests that match `which`; with status 0 they are never answered.
  virtual void refuse(int count, int status, const std::string& body, std::function<bool(const ApiRequest&)> which) = 0;
  virtual void slow(std::chrono::milliseconds delay) = 0;  // before every answer
  virtual void mute(bool on) = 0;                          // requests are read and never answered
  virtual void piece(std::size_t bytes) = 0;               // watches arrive in pieces of this size; 0 = whole lines

  // --- what it saw --------------------------------------------------------------------------------------------------
  virtual std::vector<ApiRequest> requests() const = 0;
  virtual std::size_t watches() const = 0;  // open now
};

}  // namespace tranche::sim
