#pragma once
// The API server for the rest of the program: one connection (HTTP/2 where it is offered) for questions, writes and
// watches, each with a deadline and the newest token. It retries nothing and knows no kind of object: what to ask and
// when is decided by src/kube. Without libcurl it cannot be opened.
//
// Loop thread only. Callbacks run as turns of their own, never inside the call that asked for them, and may ask and
// cancel; they must not destroy the client. Destroying it ends everything at once, and no callback runs any more.
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
  std::string body;  // whole, at most 16 MiB unpacked; a longer one is no answer
  std::string why;   // why there is no (whole) answer, "" when there is
};

// What the metrics count: by verb ("list", "watch", "get", "create", "update", "delete", "patch") and HTTP status
// ("error": no answer).
using KubeCounts = std::map<std::pair<std::string, std::string>, std::uint64_t>;

class KubeClient {
 public:
  using Id = std::uint64_t;  // 0 = none
  using OnAnswer = std::function<void(KubeAnswer)>;

  // Loads libcurl, which takes 5 to 10 ms: any thread, such as a worker.
  static Result<std::shared_ptr<const CurlLibrary>> load();
  static Result<std::unique_ptr<KubeClient>> open(Loop& loop, std::shared_ptr<const CurlLibrary> curl,
                                                  const kube::Access& access);
  virtual ~KubeClient() = default;

  // Paths begin with "/api" and have their query.
  virtual Id get(const std::string& path, OnAnswer done) = 0;
  virtual Id list(const std::string& path, OnAnswer done) = 0;
  virtual Id create(const std::string& path, const std::string& json, OnAnswer done) = 0;
  virtual Id replace(const std::string& path, const std::string& json, OnAnswer done) = 0;  // of a whole object: PUT
  virtual Id remove(const std::string& path, OnAnswer done) = 0;
  virtual Id patch(const std::string& path, const std::string& merge_patch, OnAnswer done) = 0;
  // Lists of the object are merged by their keys (conditions by type), where patch() replaces them.
  virtual Id strategic_patch(const std::string& path, const std::string& body, OnAnswer done) = 0;
  // Its bytes as they come, once the server said 200. `done` gets the status; its body only of another status.
  virtual Id watch(const std::string& path, Duration lasts, std::function<void(std::string_view bytes)> data,
                   OnAnswer done) = 0;
  virtual void cancel(Id id) = 0;  // no callback of it runs any more; unknown ids are ignored

  virtual const KubeCounts& counts() const = 0;
};

}  // namespace tranche::host
