#pragma once
// The connection to the API server (HTTP/2 if offered) for reads, writes and watches, each with a deadline and the
// newest token. It does not retry and does not know kinds of objects: src/kube decides what to request and when.
// Without libcurl it cannot be opened.
//
// Loop thread only. Callbacks run separately on the loop, never inside the call that requested them, and may make and
// cancel requests; they must not destroy the client. Destroying it ends all requests immediately, and no callback runs
// afterwards.
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "base/result.h"
#include "kube/access.h"
#include "os/loop/loop.h"

namespace tranche::host {

class CurlLibrary;

struct KubeAnswer {
  int status = 0;    // HTTP; 0: no answer
  std::string body;  // complete, at most 16 MiB unpacked; a longer body counts as no answer
  std::string why;   // why there is no complete answer, "" if there is
};

bool succeeded(const KubeAnswer& answer);
std::string why_not(const KubeAnswer& answer);  // of one that did not succeed

// Counts for the metrics: by verb ("list", "watch", "get", "create", "update", "delete", "patch") and HTTP status
// ("error": no answer).
using KubeCounts = std::map<std::pair<std::string, std::string>, std::uint64_t>;

class KubeClient {
 public:
  using Id = std::uint64_t;  // 0 = none
  using OnAnswer = std::function<void(KubeAnswer)>;

  // Loads libcurl, which takes 5 to 10 ms; any thread, such as a worker.
  static Result<std::shared_ptr<const CurlLibrary>> load();
  static Result<std::unique_ptr<KubeClient>> open(Loop& loop, std::shared_ptr<const CurlLibrary> curl,
                                                  const kube::Access& access);
  virtual ~KubeClient() = default;

  // Paths begin with "/api" and include their query.
  virtual Id get(const std::string& path, OnAnswer done) = 0;
  virtual Id list(const std::string& path, OnAnswer done) = 0;
  virtual Id create(const std::string& path, const std::string& json, OnAnswer done) = 0;
  virtual Id replace(const std::string& path, const std::string& json,
                     OnAnswer done) = 0;  // replaces a whole object: PUT
  virtual Id remove(const std::string& path, OnAnswer done) = 0;
  virtual Id patch(const std::string& path, const std::string& merge_patch, OnAnswer done) = 0;
  // Merges lists of the object by their keys (conditions by type); patch() replaces them.
  virtual Id strategic_patch(const std::string& path, const std::string& body, OnAnswer done) = 0;
  // Server-side apply: sets what `json` has, and removes what the same field manager (in the query) applied before.
  virtual Id apply(const std::string& path, const std::string& json, OnAnswer done) = 0;
  // Passes on bytes as they arrive, once the server returned 200. `done` receives the status; the body only with
  // another status.
  virtual Id watch(const std::string& path, Duration lasts, std::function<void(std::string_view bytes)> data,
                   OnAnswer done) = 0;
  virtual void cancel(Id id) = 0;  // no callback of it runs afterwards; unknown ids are ignored

  virtual const KubeCounts& counts() const = 0;
};

}  // namespace tranche::host
