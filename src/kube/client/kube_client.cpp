#include "kube/client/kube_client.h"

#include <curl/curl.h>
#include <dlfcn.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <vector>

#include "base/text.h"
#include "base/version.h"
#include "kube/client/find_access.h"
#include "kube/object.h"
#include "os/files/files.h"
#include "os/library/shared_library.h"
#include "os/log/log.h"

// Each function of libcurl that is called.
#define TRANCHE_OF_CURL(each)                                                                                    \
  each(global_init) each(global_cleanup) each(version_info) each(easy_init) each(easy_cleanup) each(easy_setopt) \
      each(easy_getinfo) each(easy_strerror) each(slist_append) each(slist_free_all) each(multi_init)            \
          each(multi_cleanup) each(multi_setopt) each(multi_add_handle) each(multi_remove_handle)                \
              each(multi_socket_action) each(multi_info_read)
#define TRANCHE_DECLARE(name) decltype(&::curl_##name) name = nullptr;
#define TRANCHE_FIND(name) &&(library.name = os::find_symbol(handle, {"curl_" #name})) != nullptr

namespace tranche::kube {
namespace {

using namespace std::chrono_literals;

constexpr const char* kCurlSoname = "libcurl.so.4";
constexpr Duration kWatchGrace = 30s;  // the server ends it by itself before
// A page of 500 pods has 5 MiB as a rule. Reading one takes up to ten times its size, and the chart's limit is 256 MiB.
// Of a watch: what arrives in one callback.
constexpr std::size_t kLargestAnswer = std::size_t{16} << 20;
constexpr std::size_t kLargestRefusal = std::size_t{64} << 10;
constexpr std::size_t kLongestToken = 64 << 10;
constexpr long kConnectMs = 5000;
constexpr long kMostConnections = 8;  // without HTTP/2 each request in progress has its own
// A peer that vanished (a node behind a load balancer that lost power) sends nothing, not even a FIN: probe it
// regularly, and do not wait for data that it does not acknowledge.
constexpr long kIdleSeconds = 15;
constexpr long kProbeSeconds = 5;
constexpr unsigned kUnconfirmedMs = 30000;

int on_new_socket(void*, curl_socket_t fd, curlsocktype) {
  const unsigned most = kUnconfirmedMs;
  ::setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &most, sizeof most);  // an old kernel without it: keepalive remains
  return CURL_SOCKOPT_OK;
}

}  // namespace

// libcurl, opened at run time: it loads two dozen libraries that a node without a cluster does not need
// (docs/internals/decisions/0010-kubernetes-client.md). Any thread may use it. Never closed: OpenSSL, which comes
// along, leaves functions to be called at the end of the process.
struct CurlLibrary {
  TRANCHE_OF_CURL(TRANCHE_DECLARE)
};

namespace {

Result<CurlLibrary> open_library() {
  void* handle = ::dlopen(kCurlSoname, RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr)
    return fail(Kind::kUnsupported, "libcurl is not there (Debian: libcurl4): " + os::loader_error(), kCurlSoname);
  CurlLibrary library;
  const bool whole = true TRANCHE_OF_CURL(TRANCHE_FIND);
  if (!whole) return fail(Kind::kUnsupported, "libcurl lacks functions that are needed", kCurlSoname);
  if (library.global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
    return fail(Kind::kUnsupported, "libcurl cannot be initialised", kCurlSoname);
  const auto* version = library.version_info(CURLVERSION_NOW);
  if (version == nullptr || version->version_num < 0x075700 || (version->features & CURL_VERSION_SSL) == 0)
    return fail(Kind::kUnsupported, "libcurl 7.87 or newer with TLS is needed", kCurlSoname);
  return library;
}

}  // namespace

Result<const CurlLibrary*> KubeClient::load() {
  static const auto library = open_library();
  if (!library) return std::unexpected(library.error());
  return &*library;
}

#undef TRANCHE_OF_CURL
#undef TRANCHE_DECLARE
#undef TRANCHE_FIND

struct KubeClient::Call {
  Verb verb;
  OnAnswer done;
  OnBytes stream;
  CURL* easy = nullptr;
  curl_slist* headers = nullptr;
  KubeAnswer answer = {};
  std::string arrived = {};
  std::size_t room = kLargestAnswer;  // how many more bytes of the body are accepted
  bool too_large = false;
  std::array<char, CURL_ERROR_SIZE> error = {};
  std::string not_begun = {};  // why
};

Result<std::unique_ptr<KubeClient>> KubeClient::open(os::Loop& loop, const Access& access) {
  TRY(const auto* const curl, load());
  std::unique_ptr<KubeClient> client(new KubeClient(loop, curl, access));
  const CurlLibrary& api = *client->curl_;
  client->multi_ = api.multi_init();
  if (client->multi_ == nullptr) return fail(Kind::kUnavailable, "libcurl cannot be used: no memory");
  api.multi_setopt(
      client->multi_, CURLMOPT_SOCKETFUNCTION, +[](CURL*, curl_socket_t fd, int what, void* self, void*) {
        return static_cast<KubeClient*>(self)->watch_socket(fd, what);
      });
  api.multi_setopt(client->multi_, CURLMOPT_SOCKETDATA, client.get());
  api.multi_setopt(
      client->multi_, CURLMOPT_TIMERFUNCTION, +[](CURLM*, long milliseconds, void* self) {
        auto& on = *static_cast<KubeClient*>(self);
        on.timer_.stop();
        if (milliseconds >= 0)
          on.timer_.start(std::chrono::milliseconds(milliseconds), [&on] { on.act(CURL_SOCKET_TIMEOUT, 0); });
        return 0;
      });
  api.multi_setopt(client->multi_, CURLMOPT_TIMERDATA, client.get());
  api.multi_setopt(client->multi_, CURLMOPT_MAX_TOTAL_CONNECTIONS, kMostConnections);
  Server server = access.server;
  if (!access.tls_server_name.empty()) {
    // The certificate must have this name; the connection is to the server's address.
    const std::string to = fmt::format("{}:{}:{}:{}", access.tls_server_name, server.port, server.host, server.port);
    client->connect_to_ = api.slist_append(nullptr, to.c_str());
    server.host = access.tls_server_name;
  }
  client->base_ = server.url();
  return client;
}

KubeClient::~KubeClient() {
  if (multi_ == nullptr) return;
  soon_.stop();
  for (auto& [id, call] : calls_) end(*call);
  calls_.clear();
  curl_->multi_cleanup(multi_);
  timer_.stop();
  for (const auto& [fd, watch] : watches_) loop_.cancel(watch);
  curl_->slist_free_all(connect_to_);
}

KubeClient::Id KubeClient::watch(const std::string& path, Duration lasts, OnBytes data, OnAnswer done) {
  return ask({.name = "watch", .deadline = lasts + kWatchGrace}, path, {}, std::move(done), std::move(data));
}

void KubeClient::cancel(Id id) {
  if (const auto call = calls_.extract(id)) end(*call.mapped());
}

KubeClient::Id KubeClient::ask(const Verb& verb, const std::string& path, const std::string& body, OnAnswer done,
                               OnBytes stream) {
  const Id id{this, next_number_++};
  const auto call = std::make_shared<Call>(verb, std::move(done), std::move(stream));
  calls_.emplace(id, call);
  if (const auto token = bearer_token(access_.token_file, access_.token); !token)
    call->not_begun = to_string(token.error());
  else if (!prepare(*call, path, body, *token) || curl_->multi_add_handle(multi_, call->easy) != CURLM_OK)
    call->not_begun = "libcurl does not take the request";
  if (!call->not_begun.empty() && !soon_.running()) soon_.start(Duration::zero(), [this] { deliver(); });
  return id;
}

bool KubeClient::prepare(Call& call, const std::string& path, const std::string& body, const std::string& token) {
  call.easy = curl_->easy_init();
  if (call.easy == nullptr) return false;
  std::vector<std::string> headers;
  if (!body.empty()) headers.push_back(fmt::format("Content-Type: application/{}", call.verb.content));
  if (!token.empty()) headers.push_back("Authorization: Bearer " + token);
  headers.emplace_back("Accept: application/json");
  for (const auto& header : headers) {
    auto* longer = curl_->slist_append(call.headers, header.c_str());
    if (longer == nullptr) return false;
    call.headers = longer;
  }
  const auto set = [this, &call](CURLoption option, auto value) {
    return curl_->easy_setopt(call.easy, option, value) == CURLE_OK;
  };
  // One libcurl call may unpack gigabytes, so the limit is enforced here and not where bytes are passed on.
  const auto on_write = +[](char* bytes, std::size_t one, std::size_t count, void* to) -> std::size_t {
    auto& writing = *static_cast<Call*>(to);
    writing.too_large = one * count > writing.room;
    if (writing.too_large) return CURL_WRITEFUNC_ERROR;
    writing.room -= one * count;
    writing.arrived.append(bytes, one * count);
    return one * count;
  };
  static const std::string kAgent = std::string("tranche/") + kVersion;
  bool good = set(CURLOPT_URL, (base_ + path).c_str()) && set(CURLOPT_CUSTOMREQUEST, call.verb.method) &&
              set(CURLOPT_HTTPHEADER, call.headers) && set(CURLOPT_USERAGENT, kAgent.c_str()) &&
              set(CURLOPT_PROTOCOLS_STR, "http,https") && set(CURLOPT_FOLLOWLOCATION, 0L) &&
              set(CURLOPT_PROXY, access_.proxy.c_str()) && set(CURLOPT_NOSIGNAL, 1L) && set(CURLOPT_QUICK_EXIT, 1L) &&
              set(CURLOPT_WRITEFUNCTION, on_write) && set(CURLOPT_WRITEDATA, &call) && set(CURLOPT_PRIVATE, &call) &&
              set(CURLOPT_ERRORBUFFER, call.error.data()) && set(CURLOPT_CONNECTTIMEOUT_MS, kConnectMs) &&
              set(CURLOPT_TCP_KEEPALIVE, 1L) && set(CURLOPT_TCP_KEEPIDLE, kIdleSeconds) &&
              set(CURLOPT_TCP_KEEPINTVL, kProbeSeconds) && set(CURLOPT_SOCKOPTFUNCTION, &on_new_socket);
  const auto deadline = std::chrono::ceil<std::chrono::milliseconds>(call.verb.deadline).count();
  good = good && set(CURLOPT_TIMEOUT_MS, static_cast<long>(deadline));
  if (!body.empty()) {
    good = good && set(CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(body.size())) &&
           set(CURLOPT_COPYPOSTFIELDS, body.c_str());
  }
  if (call.verb.compressed) good = good && set(CURLOPT_ACCEPT_ENCODING, "gzip");
  if (distrust_) good = good && set(CURLOPT_FRESH_CONNECT, 1L);
  if (connect_to_ != nullptr) good = good && set(CURLOPT_CONNECT_TO, connect_to_);
  return good && (!access_.server.tls || prepare_tls(call.easy));
}

bool KubeClient::prepare_tls(CURL* easy) {
  const auto set = [this, easy](CURLoption option, auto value) {
    return curl_->easy_setopt(easy, option, value) == CURLE_OK;
  };
  const auto material = [&](const Material& from, CURLoption blob, CURLoption file) {
    if (!from.pem.empty()) {
      // libcurl copies it and does not write to it.
      curl_blob copied{const_cast<char*>(from.pem.data()), from.pem.size(), CURL_BLOB_COPY};
      return set(blob, &copied);
    }
    return from.file.empty() || set(file, from.file.c_str());
  };
  bool good = set(CURLOPT_SSLVERSION, static_cast<long>(CURL_SSLVERSION_TLSv1_2)) &&
              set(CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_2TLS)) && set(CURLOPT_PIPEWAIT, 1L) &&
              set(CURLOPT_SSL_VERIFYPEER, access_.insecure ? 0L : 1L) &&
              set(CURLOPT_SSL_VERIFYHOST, access_.insecure ? 0L : 2L);
  if (access_.authorities.given()) {
    // Trusts only the cluster's own authorities, read from the file at every new connection, because it may be
    // replaced.
    good = good && set(CURLOPT_CAPATH, static_cast<const char*>(nullptr)) && set(CURLOPT_CA_CACHE_TIMEOUT, 0L) &&
           material(access_.authorities, CURLOPT_CAINFO_BLOB, CURLOPT_CAINFO);
  }
  return good && material(access_.certificate, CURLOPT_SSLCERT_BLOB, CURLOPT_SSLCERT) &&
         material(access_.key, CURLOPT_SSLKEY_BLOB, CURLOPT_SSLKEY);
}

int KubeClient::watch_socket(int fd, int what) {
  if (const auto former = watches_.extract(fd)) loop_.cancel(former.mapped());
  if (what == CURL_POLL_REMOVE) return 0;
  std::uint32_t events = 0;
  if (what == CURL_POLL_IN || what == CURL_POLL_INOUT) events |= EPOLLIN;
  if (what == CURL_POLL_OUT || what == CURL_POLL_INOUT) events |= EPOLLOUT;
  const auto watch = loop_.watch(fd, events, [this, fd](std::uint32_t seen) {
    int ready = 0;
    if ((seen & EPOLLIN) != 0) ready |= CURL_CSELECT_IN;
    if ((seen & EPOLLOUT) != 0) ready |= CURL_CSELECT_OUT;
    if ((seen & (EPOLLERR | EPOLLHUP)) != 0) ready |= CURL_CSELECT_IN | CURL_CSELECT_OUT;
    act(fd, ready);
  });
  if (watch == 0) return -1;
  watches_.emplace(fd, watch);
  return 0;
}

void KubeClient::act(int fd, int what) {
  int running = 0;
  curl_->multi_socket_action(multi_, fd, what, &running);
  deliver();
}

// libcurl must not be called from inside its callbacks, so what arrived there is passed on here. A callback may cancel
// any call.
void KubeClient::deliver() {
  const auto status_of = [this](const Call& call) {
    long code = 0;
    curl_->easy_getinfo(call.easy, CURLINFO_RESPONSE_CODE, &code);
    return static_cast<int>(code);
  };
  std::map<const Call*, CURLcode> results;
  int left = 0;
  while (const CURLMsg* message = curl_->multi_info_read(multi_, &left)) {
    if (message->msg != CURLMSG_DONE) continue;
    Call* call = nullptr;
    curl_->easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &call);
    results[call] = message->data.result;
  }
  const auto now = calls_;
  for (const auto& [id, call] : now) {
    if (call->arrived.empty() || !calls_.contains(id)) continue;
    const std::string arrived = std::exchange(call->arrived, {});
    std::string_view bytes = arrived;
    distrust_ = false;
    if (call->stream) call->room = kLargestAnswer;
    if (call->stream && status_of(*call) == http::kOk) {
      call->stream(bytes);
      continue;
    }
    if (call->stream) bytes = bytes.substr(0, kLargestRefusal - std::min(kLargestRefusal, call->answer.body.size()));
    call->answer.body.append(bytes);
  }
  for (const auto& [id, call] : now) {
    const bool ended = !call->not_begun.empty() || results.contains(call.get());
    if (!ended || calls_.erase(id) == 0) continue;
    KubeAnswer& answer = call->answer;
    answer.why = call->not_begun;
    if (answer.why.empty()) {
      const CURLcode code = results.at(call.get());
      answer.status = status_of(*call);
      distrust_ = distrust_ || code == CURLE_OPERATION_TIMEDOUT;
      if (code != CURLE_OK) answer.why = call->error[0] != 0 ? call->error.data() : curl_->easy_strerror(code);
      if (call->too_large) answer.why = fmt::format("the API server answered with more than {} bytes", kLargestAnswer);
    }
    end(*call);
    if (!answer.why.empty())
      answer.status = 0;  // one that broke off is none, except for what a watch handed on already
    ++counts_[{call->verb.name, answer.status == 0 ? "error" : std::to_string(answer.status)}];
    call->done(std::move(answer));
  }
}

void KubeClient::end(Call& call) {
  if (call.easy != nullptr) {
    curl_->multi_remove_handle(multi_, call.easy);  // harmless if it was never added
    curl_->easy_cleanup(std::exchange(call.easy, nullptr));
  }
  curl_->slist_free_all(std::exchange(call.headers, nullptr));
}

bool succeeded(const KubeAnswer& answer) {
  return answer.status >= 200 && answer.status < 300;
}

std::string why_not(const KubeAnswer& answer) {
  return answer.status == 0 ? answer.why : status_of_body(answer.status, answer.body).message;
}

Error refusal(const KubeAnswer& answer, const std::string& what, std::string where) {
  if (answer.status == 0)
    return {Kind::kUnavailable, "the API server does not answer: " + answer.why, std::move(where), 0};
  static const std::map<int, Kind> kKinds{{http::kBadRequest, Kind::kInvalid}, {http::kUnauthorized, Kind::kDenied},
                                          {http::kForbidden, Kind::kDenied},   {http::kNotFound, Kind::kNotFound},
                                          {http::kConflict, Kind::kConflict},  {http::kUnprocessable, Kind::kInvalid}};
  const auto known = kKinds.find(answer.status);
  return {known == kKinds.end() ? Kind::kUnavailable : known->second,
          fmt::format("{}: {} ({})", what, why_not(answer), answer.status), std::move(where), answer.status};
}

Result<std::string> bearer_token(const std::string& file, const std::string& fixed) {
  if (file.empty()) return fixed;
  auto content = os::read_file(file, kLongestToken);
  if (!content) return std::unexpected(within(std::move(content).error(), "cannot read the token for the API server"));
  const auto token = trimmed(*content);
  if (token.empty() || !is_token(token))
    return fail(Kind::kInvalid, "the token for the API server is empty or has characters that no token has", file);
  return std::string(token);
}

KubeLink::KubeLink(os::Loop& loop, os::Worker& worker, std::string kubeconfig, config::Environment environment)
    : loop_(loop) {
  worker.run([this, &loop, alive = std::weak_ptr(alive_), kubeconfig = std::move(kubeconfig),
              environment = std::move(environment)] {
    std::vector<Problem> problems;
    auto access = find_access(kubeconfig, environment, problems);
    if (access) (void)KubeClient::load();  // open() has its error
    loop.post([this, alive, problems = std::move(problems), access = std::move(access)] {
      if (!alive.expired()) settle(problems, access);
    });
  });
}

void KubeLink::settle(const std::vector<Problem>& problems, const Result<Access>& access) {
  settled_ = true;
  for (const auto& problem : problems) log::warning("kube.problem", {{"text", to_string(problem)}});
  if (!access) {
    why_ = to_string(access.error());
  } else if (auto client = KubeClient::open(loop_, *access)) {
    client_ = *std::move(client);
    server_ = access->server.url();
    source_ = access->source;
  } else {
    why_ = to_string(client.error());
  }
  for (const auto& callback : std::exchange(waiting_, {})) callback();
}

void KubeLink::when_settled(std::function<void()> callback) {
  if (!settled_) return waiting_.push_back(std::move(callback));
  loop_.post([alive = std::weak_ptr(alive_), callback = std::move(callback)] {
    if (!alive.expired()) callback();
  });
}

}  // namespace tranche::kube
