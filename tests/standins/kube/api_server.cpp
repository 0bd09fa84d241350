#include "standins/kube/api_server.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <list>
#include <map>
#include <mutex>
#include <set>
#include <thread>

#include "standins/kube/http_wire.h"
#include "standins/kube/store.h"

namespace tranche::sim {
namespace {

using namespace std::chrono_literals;

constexpr const char* kPods = "/api/v1/pods";

struct Refusal {
  int left;
  int status;
  std::string body;
  std::function<bool(const ApiRequest&)> which;
};

class Server final : public ApiServer {
 public:
  explicit Server(int listener);
  ~Server() override;

  std::uint16_t port() const override { return port_; }
  void put_pod(const std::string& pod_namespace, const std::string& name, const std::string& more_json) override {
    change([&] { store_.put(kPods, {pod_namespace, name}, merged(more_json)); });
  }
  void delete_pod(const std::string& pod_namespace, const std::string& name) override {
    change([&] { store_.remove(kPods, {pod_namespace, name}); });
  }
  void serve_collection(const std::string& collection) override {
    change([&] { store_.serve(collection); });
  }
  void put(const std::string& collection, const std::string& name, const std::string& more_json) override {
    change([&] { store_.put(collection, {"", name}, merged(more_json)); });
  }
  void remove(const std::string& collection, const std::string& name) override {
    change([&] { store_.remove(collection, {"", name}); });
  }
  void drop_members(const std::set<std::string>& names) override {
    change([&] { store_.drop(names); });
  }
  std::string object(const std::string& collection, const std::string& name) const override {
    const std::lock_guard lock(mutex_);
    const Json* found = store_.find(collection, {"", name});
    return found == nullptr ? std::string() : found->dump();
  }
  std::vector<std::string> events() const override;
  void take_token(const std::string& token) override {
    change([&] { token_ = token; });
  }
  void bookmark() override {
    change([&] { store_.bookmark(); });
  }
  void forget_versions() override {
    change([&] { store_.forget(); });
  }
  void cut_watches() override {
    change([&] { ++cuts_; });
  }
  void end_watches() override {
    change([&] { ++ends_; });
  }
  void send_raw(const std::string& text) override {
    change([&] { raw_.push_back(text); });
  }
  void refuse(int count, int status, const std::string& body, std::function<bool(const ApiRequest&)> which) override {
    change([&] { refusals_.push_back({count, status, body, std::move(which)}); });
  }
  void slow(std::chrono::milliseconds delay) override {
    change([&] { delay_ = delay; });
  }
  void mute(bool on) override {
    change([&] { mute_ = on; });
  }
  void piece(std::size_t bytes) override {
    change([&] { piece_ = bytes; });
  }
  std::vector<ApiRequest> requests() const override {
    const std::lock_guard lock(mutex_);
    return requests_;
  }
  std::size_t watches() const override {
    const std::lock_guard lock(mutex_);
    return watches_;
  }

 private:
  void change(const std::function<void()>& what) {
    const std::lock_guard lock(mutex_);
    what();
    changed_.notify_all();
  }
  static Json merged(const std::string& more_json) {
    return more_json.empty() ? Json::object() : Json::parse(more_json);
  }
  void accept_all();
  void serve(int fd);
  bool answer(Wire& wire, const ApiRequest& request);
  bool list(Wire& wire, const ApiRequest& request);
  bool remove_all(Wire& wire, const ApiRequest& request);
  bool watch(Wire& wire, const ApiRequest& request);
  bool send_line(Wire& wire, const std::string& line);
  bool write_event(Wire& wire, const ApiRequest& request);
  bool one_object(Wire& wire, const ApiRequest& request);
  bool evict(Wire& wire, const std::string& pod_namespace, const std::string& name);

  const int listener_;
  std::uint16_t port_ = 0;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool stopping_ = false;
  std::set<int> open_;
  std::list<std::thread> threads_;
  std::thread acceptor_;

  Store store_;
  std::map<Key, Json> events_;
  std::vector<std::string> raw_;
  std::list<Refusal> refusals_;
  std::vector<ApiRequest> requests_;
  std::string token_;
  std::uint64_t cuts_ = 0, ends_ = 0;
  std::size_t watches_ = 0;
  std::size_t piece_ = 0;
  std::chrono::milliseconds delay_{0};
  bool mute_ = false;
};

Server::Server(int listener) : listener_(listener) {
  sockaddr_in address{};
  socklen_t length = sizeof address;
  ::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &length);
  port_ = ntohs(address.sin_port);
  acceptor_ = std::thread([this] { accept_all(); });
}

Server::~Server() {
  change([&] {
    stopping_ = true;
    for (const int fd : open_) ::shutdown(fd, SHUT_RDWR);
  });
  ::shutdown(listener_, SHUT_RDWR);
  acceptor_.join();
  for (auto& thread : threads_) thread.join();
  ::close(listener_);
}

void Server::accept_all() {
  while (true) {
    const int fd = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    const std::lock_guard lock(mutex_);
    if (fd < 0 || stopping_) {
      if (fd >= 0) ::close(fd);
      if (stopping_) return;
      continue;
    }
    const int one = 1;
    ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    open_.insert(fd);
    threads_.emplace_back([this, fd] { serve(fd); });
  }
}

void Server::serve(int fd) {
  Wire wire(fd);
  while (const auto request = wire.read_request()) {
    if (!answer(wire, *request)) break;
  }
  change([&] { open_.erase(fd); });
  ::close(fd);
}

bool Server::answer(Wire& wire, const ApiRequest& request) {
  std::unique_lock lock(mutex_);
  requests_.push_back(request);
  changed_.notify_all();
  if (mute_) {
    changed_.wait(lock, [&] { return stopping_ || !mute_; });
    return false;
  }
  if (delay_ > 0ms) changed_.wait_for(lock, delay_, [&] { return stopping_; });
  if (stopping_) return false;
  for (auto it = refusals_.begin(); it != refusals_.end(); ++it) {
    if (it->which && !it->which(request)) continue;
    const auto [status, body] = std::pair(it->status, it->body);
    if (--it->left == 0) refusals_.erase(it);
    if (status == 0) {
      changed_.wait(lock, [&] { return stopping_; });
      return false;
    }
    lock.unlock();
    return wire.write_answer(status, body);
  }
  if (!token_.empty() && request.token != token_) {
    lock.unlock();
    return wire.write_answer(401, status_json(401, "Unauthorized", "Unauthorized").dump());
  }
  const bool collection = store_.serves(request.path);
  lock.unlock();
  if (collection && request.method == "GET") return request.is_watch() ? watch(wire, request) : list(wire, request);
  if (collection && request.method == "DELETE") return remove_all(wire, request);
  if (request.path.starts_with("/api/v1/namespaces/") && request.path.find("/events") != std::string::npos)
    return write_event(wire, request);
  if (request.method == "POST" && request.path.ends_with("/eviction")) {
    const std::string path = request.path.substr(std::string("/api/v1/namespaces/").size());
    const auto first = path.find('/'), second = path.find('/', first + 1), third = path.find('/', second + 1);
    if (third != std::string::npos)
      return evict(wire, path.substr(0, first), path.substr(second + 1, third - second - 1));
  }
  return one_object(wire, request);
}

// The pod is deleted immediately: there is no kubelet to wait for, and a disruption budget is simulated by refuse().
bool Server::evict(Wire& wire, const std::string& pod_namespace, const std::string& name) {
  std::unique_lock lock(mutex_);
  const bool there = store_.find(kPods, {pod_namespace, name}) != nullptr;
  if (there) store_.remove(kPods, {pod_namespace, name});
  changed_.notify_all();
  lock.unlock();
  if (!there) return wire.write_answer(404, status_json(404, "NotFound", "pods \"" + name + "\" not found").dump());
  return wire.write_answer(201, Json{{"kind", "Status"}, {"apiVersion", "v1"}, {"status", "Success"}}.dump());
}

bool Server::one_object(Wire& wire, const ApiRequest& request) {
  std::unique_lock lock(mutex_);
  const auto [status, body] = store_.act(request);
  changed_.notify_all();
  lock.unlock();
  return wire.write_answer(status, body.dump());
}

bool Server::remove_all(Wire& wire, const ApiRequest& request) {
  std::unique_lock lock(mutex_);
  std::vector<Key> keys;
  for (const auto& [key, object] : store_.all(request.path))
    if (selected(query_value(request.query, "fieldSelector"), object) &&
        selected_by_label(query_value(request.query, "labelSelector"), object))
      keys.push_back(key);
  for (const Key& key : keys) store_.remove(request.path, key);
  changed_.notify_all();
  lock.unlock();
  return wire.write_answer(200, Json{{"kind", "Status"}, {"apiVersion", "v1"}, {"status", "Success"}}.dump());
}

bool Server::list(Wire& wire, const ApiRequest& request) {
  std::unique_lock lock(mutex_);
  const auto fields = query_value(request.query, "fieldSelector");
  const auto labels = query_value(request.query, "labelSelector");
  std::uint64_t from = 0, version = store_.version();
  std::sscanf(query_value(request.query, "continue").c_str(), "%lu/%lu", &from, &version);  // "" on the first page
  const std::uint64_t limit = std::strtoull(query_value(request.query, "limit").c_str(), nullptr, 10);
  Json items = Json::array();
  std::uint64_t index = 0;
  bool more = false;
  for (const auto& [key, object] : store_.all(request.path)) {
    if (!selected(fields, object) || !selected_by_label(labels, object)) continue;
    if (index++ < from) continue;
    if (limit > 0 && items.size() == limit) {
      more = true;
      break;
    }
    items.push_back(object);
  }
  Json metadata{{"resourceVersion", std::to_string(version)}};
  if (more) metadata["continue"] = std::to_string(from + limit) + "/" + std::to_string(version);
  lock.unlock();
  return wire.write_answer(
      200,
      Json{{"kind", kind_of(request.path) + "List"}, {"apiVersion", "v1"}, {"metadata", metadata}, {"items", items}}
          .dump());
}

bool Server::send_line(Wire& wire, const std::string& line) {
  std::size_t piece = 0;
  {
    const std::lock_guard lock(mutex_);
    piece = piece_;
  }
  if (piece == 0) piece = line.size();
  for (std::size_t at = 0; at < line.size(); at += piece)
    if (!wire.write_chunk(line.substr(at, piece))) return false;
  return true;
}

bool Server::watch(Wire& wire, const ApiRequest& request) {
  std::unique_lock lock(mutex_);
  const auto fields = query_value(request.query, "fieldSelector");
  std::uint64_t at = std::strtoull(query_value(request.query, "resourceVersion").c_str(), nullptr, 10);
  const auto end =
      std::chrono::steady_clock::now() +
      std::chrono::seconds(std::strtoull(query_value(request.query, "timeoutSeconds").c_str(), nullptr, 10));
  const auto cuts = cuts_, ends = ends_;
  std::size_t raw = raw_.size();
  ++watches_;
  changed_.notify_all();
  lock.unlock();
  bool good = wire.write_head();
  lock.lock();
  while (good && !stopping_ && cuts == cuts_) {
    const bool ending = ends != ends_;  // after what has happened is sent
    std::vector<std::string> lines;
    if (at < store_.oldest()) {
      lines.push_back(
          Json{{"type", "ERROR"}, {"object", status_json(410, "Expired", "too old resource version")}}.dump() + "\n");
    } else {
      for (const auto& event : store_.happened()) {
        if (event.version <= at) continue;
        at = event.version;
        const bool ours = event.collection == request.path && selected(fields, event.object);
        if (event.type != "BOOKMARK" && !ours) continue;
        lines.push_back(Json{{"type", event.type}, {"object", event.object}}.dump() + "\n");
      }
      for (; raw < raw_.size(); ++raw) lines.push_back(raw_[raw]);
    }
    const bool forgotten = at < store_.oldest();
    if (!lines.empty()) {
      lock.unlock();
      for (const auto& line : lines) good = good && send_line(wire, line);
      lock.lock();
    }
    if (forgotten || ending) break;
    const auto has_change = [&] {
      return stopping_ || cuts != cuts_ || ends != ends_ || raw < raw_.size() || at < store_.oldest() ||
             (!store_.happened().empty() && store_.happened().back().version > at);
    };
    // In short waits: a client that disconnects does not cause a wake-up.
    while (!has_change() && !wire.closed() && std::chrono::steady_clock::now() < end)
      changed_.wait_for(lock, 20ms, has_change);
    if (!has_change() && !wire.closed()) break;
    if (wire.closed()) good = false;
  }
  const bool cut = cuts != cuts_ || stopping_;
  --watches_;
  changed_.notify_all();
  lock.unlock();
  return good && !cut && wire.write_last_chunk();
}

bool Server::write_event(Wire& wire, const ApiRequest& request) {
  const Json body = Json::parse(request.body, nullptr, false);
  const auto name_at = request.path.find("/events/");
  const std::string pod_namespace = request.path.substr(19, request.path.find('/', 19) - 19);
  int status = 404;
  change([&] {
    if (request.method == "POST" && body.is_object()) {
      const Key key(pod_namespace, body.value(Json::json_pointer("/metadata/name"), std::string()));
      status = events_.emplace(key, body).second ? 201 : 409;
    } else if (request.method == "PATCH" && body.is_object() && name_at != std::string::npos) {
      const auto at = events_.find({pod_namespace, request.path.substr(name_at + 8)});
      if (at == events_.end()) return;
      at->second.merge_patch(body);
      status = request.content_type == "application/merge-patch+json" ? 200 : 415;
    }
  });
  return wire.write_answer(status, status < 300 ? body.dump() : status_json(status, "", "refused").dump());
}

std::vector<std::string> Server::events() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> list;
  for (const auto& [key, event] : events_) list.push_back(event.dump());
  return list;
}

}  // namespace

std::string ApiServer::kubeconfig(const std::string& token_file) const {
  const std::string user = token_file.empty() ? "{}" : "{tokenFile: " + token_file + "}";
  return "apiVersion: v1\nkind: Config\ncurrent-context: sim\nclusters:\n- {name: sim, cluster: {server: "
         "\"http://127.0.0.1:" +
         std::to_string(port()) + "\"}}\nusers:\n- {name: sim, user: " + user +
         "}\ncontexts:\n- {name: sim, context: {cluster: sim, user: sim}}\n";
}

std::unique_ptr<ApiServer> ApiServer::start() {
  const int listener = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (listener < 0 || ::bind(listener, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0 ||
      ::listen(listener, 64) != 0) {
    std::perror("a stand-in for the API server");
    std::abort();
  }
  return std::make_unique<Server>(listener);
}

}  // namespace tranche::sim
