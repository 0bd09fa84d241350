#pragma once
// The connection to the API server (HTTP/2 if offered) for reads, writes and watches, each with a deadline and the
// newest token. It does not retry and does not know kinds of objects: src/kube decides what to request and when.
// Without libcurl it cannot be opened. libcurl's sockets are watches and its timers are timers of the loop, without a
// thread (it resolves host names on a thread of its own).
//
// Loop thread only. Callbacks run separately on the loop, never inside the call that requested them, and may make and
// cancel requests; they must not destroy the client. Destroying it ends all requests immediately, and no callback runs
// afterwards.
#include <compare>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "kube/access.h"
#include "os/loop/loop.h"
#include "os/worker/worker.h"

struct curl_slist;

namespace tranche::kube {

struct CurlLibrary;

// The bearer token: that of the file, which is replaced while the program runs (kubelet renews a pod's at least every
// hour), else `fixed`; "" if there is neither. Never logged.
Result<std::string> bearer_token(const std::string& file, const std::string& fixed);

struct KubeAnswer {
  int status = 0;         // HTTP; 0: no answer
  std::string body = {};  // complete, at most 16 MiB unpacked; a longer body counts as no answer
  std::string why = {};   // why there is no complete answer, "" if there is
};

bool succeeded(const KubeAnswer& answer);
std::string why_not(const KubeAnswer& answer);  // of one that did not succeed
// The same as an Error with the status as its code. `what`: "the API server does not list pods". kDenied: missing
// permission, or a token that is refused; kNotFound, kConflict, kInvalid; kUnavailable: no answer, or another refusal.
Error refusal(const KubeAnswer& answer, const std::string& what, std::string where = {});

// Counts for the metrics: by verb ("list", "watch", "get", "create", "update", "delete", "patch") and HTTP status
// ("error": no answer).
using KubeCounts = std::map<std::pair<std::string, std::string>, std::uint64_t>;

class KubeClient {
 public:
  struct Id {  // of a request
    KubeClient* client = nullptr;
    std::uint64_t number = 0;
    auto operator<=>(const Id&) const = default;
  };
  using OnAnswer = std::function<void(KubeAnswer)>;
  using OnBytes = std::function<void(std::string_view bytes)>;

  // Loads libcurl, which takes 5 to 10 ms the first time, for open(); any thread, such as a worker.
  static Result<const CurlLibrary*> load();
  static Result<std::unique_ptr<KubeClient>> open(os::Loop& loop, const Access& access);
  ~KubeClient();
  KubeClient(const KubeClient&) = delete;
  KubeClient& operator=(const KubeClient&) = delete;

  // Paths begin with "/api" and include their query.
  Id get(const std::string& path, OnAnswer done) {
    return ask({.name = "get", .compressed = true}, path, {}, std::move(done));
  }
  Id list(const std::string& path, OnAnswer done) {
    return ask({.name = "list", .deadline = std::chrono::seconds(60), .compressed = true}, path, {}, std::move(done));
  }
  Id create(const std::string& path, const std::string& json, OnAnswer done) {
    return ask({"create", "POST"}, path, json, std::move(done));
  }
  Id replace(const std::string& path, const std::string& json, OnAnswer done) {  // a whole object
    return ask({"update", "PUT"}, path, json, std::move(done));
  }
  Id remove(const std::string& path, OnAnswer done) { return ask({"delete", "DELETE"}, path, {}, std::move(done)); }
  Id patch(const std::string& path, const std::string& merge_patch, OnAnswer done) {
    return ask({"patch", "PATCH", "merge-patch+json"}, path, merge_patch, std::move(done));
  }
  // Merges lists of the object by their keys (conditions by type); patch() replaces them.
  Id strategic_patch(const std::string& path, const std::string& body, OnAnswer done) {
    return ask({"patch", "PATCH", "strategic-merge-patch+json"}, path, body, std::move(done));
  }
  // Server-side apply: sets what `json` has, and removes what the same field manager (in the query) applied before.
  Id apply(const std::string& path, const std::string& json, OnAnswer done) {
    return ask({"patch", "PATCH", "apply-patch+yaml"}, path, json, std::move(done));
  }
  // Passes on bytes as they arrive, once the server returned 200. `done` receives the status; the body only with
  // another status.
  Id watch(const std::string& path, Duration lasts, OnBytes data, OnAnswer done);
  void cancel(Id id);  // no callback of it runs afterwards; unknown ids are ignored
  bool waits_for(Id id) const { return calls_.contains(id); }  // false in its last callback

  const KubeCounts& counts() const { return counts_; }

 private:
  struct Verb {
    const char* name;
    const char* method = "GET";
    const char* content = "json";  // type of a body
    Duration deadline = std::chrono::seconds(15);
    bool compressed = false;  // the response may be
  };
  struct Call;
  KubeClient(os::Loop& loop, const CurlLibrary* curl, const Access& access)
      : loop_(loop), curl_(curl), access_(access) {}
  Id ask(const Verb& verb, const std::string& path, const std::string& body, OnAnswer done, OnBytes stream = {});
  bool prepare(Call& call, const std::string& path, const std::string& body, const std::string& token);
  bool prepare_tls(void* easy);
  int watch_socket(int fd, int what);
  void act(int fd, int what);
  void deliver();
  void end(Call& call);

  os::Loop& loop_;
  const CurlLibrary* const curl_;
  const Access access_;
  std::string base_;  // "https://10.0.0.1:6443"
  curl_slist* connect_to_ = nullptr;
  void* multi_ = nullptr;
  os::Timer timer_{loop_};
  os::Timer soon_{loop_};  // delivers failures to start a request
  std::map<int, os::Loop::Id> watches_;
  std::map<Id, std::shared_ptr<Call>> calls_;
  std::uint64_t next_number_ = 1;
  // After a deadline the state of the connection is unknown, and libcurl would use an HTTP/2 connection again.
  bool distrust_ = false;
  KubeCounts counts_;
};

// One request at a time: the end of this object, and a later request, cancel it. Its client must outlive it.
class PendingRequest {
 public:
  PendingRequest() = default;
  PendingRequest(PendingRequest&& other) noexcept : id_(std::exchange(other.id_, {})) {}
  ~PendingRequest() { cancel(); }
  PendingRequest& operator=(KubeClient::Id id) {
    cancel();
    id_ = id;
    return *this;
  }

  bool waits() const { return id_.client != nullptr && id_.client->waits_for(id_); }
  void cancel() {
    if (const auto id = std::exchange(id_, {}); id.client != nullptr) id.client->cancel(id);
  }

 private:
  KubeClient::Id id_;
};

// A program's single connection to the API server, shared by all its parts. The access is looked up and libcurl loaded
// on the worker, so the loop does not wait. Without an API server it stays closed, with the reason. Loop thread only.
// Users of the client must be destroyed before the link.
class KubeLink {
 public:
  // `kubeconfig` "" = the service account of this pod.
  KubeLink(os::Loop& loop, os::Worker& worker, std::string kubeconfig, config::Environment environment);
  KubeLink(const KubeLink&) = delete;
  KubeLink& operator=(const KubeLink&) = delete;

  // Runs the callback separately on the loop once the link is open or finally closed, also if it already is.
  void when_settled(std::function<void()> callback);

  bool settled() const { return settled_; }
  KubeClient* client() { return client_.get(); }              // nullptr: not open
  const std::string& closed_because() const { return why_; }  // set once settled without a client
  const std::string& server() const { return server_; }       // "https://…"
  const std::string& source() const { return source_; }       // where the access was found

 private:
  void settle(const std::vector<Problem>& problems, const Result<Access>& access);

  os::Loop& loop_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>();  // expires with this object
  bool settled_ = false;
  std::string why_, server_, source_;
  std::unique_ptr<KubeClient> client_;
  std::vector<std::function<void()>> waiting_;
};

}  // namespace tranche::kube
