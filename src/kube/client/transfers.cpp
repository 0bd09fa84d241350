#include "kube/client/transfers.h"

#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/version.h"

namespace tranche::host {
namespace {

constexpr long kConnectMs = 5000;
constexpr long kMostConnections = 8;  // without HTTP/2 each request in progress has its own
// A peer that vanished (a node behind a load balancer that lost power) sends nothing, not even a FIN: probe it
// regularly, and do not wait for data that it does not acknowledge.
constexpr long kIdleSeconds = 15;
constexpr long kProbeSeconds = 5;
constexpr unsigned kUnconfirmedMs = 30000;

curl_blob blob_of(const std::string& text) {
  // libcurl copies it and does not write to it.
  return {const_cast<char*>(text.data()), text.size(), CURL_BLOB_COPY};
}

}  // namespace

struct Transfers::Transfer {
  const CurlLibrary* curl = nullptr;
  Id id = 0;
  CURL* easy = nullptr;
  curl_slist* headers = nullptr;
  OnData on_data;
  OnEnd on_end;
  std::string arrived;
  std::size_t room = 0;  // how many more bytes of the body are accepted
  std::size_t largest = 0;
  bool stream = false;
  std::array<char, CURL_ERROR_SIZE> error{};
  bool failed = false;  // before it began
  bool too_large = false;

  int status() const {
    long code = 0;
    curl->easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &code);
    return static_cast<int>(code);
  }
};

Transfers::Transfers(Loop& loop, std::shared_ptr<const CurlLibrary> curl, const kube::Access& access)
    : loop_(loop), curl_(std::move(curl)), access_(access) {}

Result<std::unique_ptr<Transfers>> Transfers::open(Loop& loop, std::shared_ptr<const CurlLibrary> curl,
                                                   const kube::Access& access) {
  std::unique_ptr<Transfers> transfers(new Transfers(loop, std::move(curl), access));
  const CurlLibrary& api = *transfers->curl_;
  transfers->multi_ = api.multi_init();
  if (transfers->multi_ == nullptr) return fail(Kind::kUnavailable, "libcurl cannot be used: no memory");
  api.multi_setopt(transfers->multi_, CURLMOPT_SOCKETFUNCTION, &Transfers::on_socket);
  api.multi_setopt(transfers->multi_, CURLMOPT_SOCKETDATA, transfers.get());
  api.multi_setopt(transfers->multi_, CURLMOPT_TIMERFUNCTION, &Transfers::on_timer);
  api.multi_setopt(transfers->multi_, CURLMOPT_TIMERDATA, transfers.get());
  api.multi_setopt(transfers->multi_, CURLMOPT_MAX_TOTAL_CONNECTIONS, kMostConnections);
  kube::Server server = access.server;
  if (!access.tls_server_name.empty()) {
    // The certificate must have this name; the connection is to the server's address.
    const std::string to =
        fmt::format("{}:{}:{}:{}", access.tls_server_name, server.port, server.host_in_url(), server.port);
    transfers->connect_to_ = api.slist_append(nullptr, to.c_str());
    server.host = access.tls_server_name;
  }
  transfers->base_ = server.url();
  return transfers;
}

Transfers::~Transfers() {
  if (multi_ == nullptr) return;
  soon_.stop();
  for (auto& [id, transfer] : transfers_) end(*transfer);
  transfers_.clear();
  curl_->multi_cleanup(multi_);
  timer_.stop();
  for (const auto& [fd, watch] : watches_) loop_.cancel(watch);
  curl_->slist_free_all(connect_to_);
}

Transfers::Id Transfers::start(const HttpRequest& request, OnData on_data, OnEnd on_end) {
  const auto transfer = std::make_shared<Transfer>();
  transfer->curl = curl_.get();
  transfer->id = next_id_++;
  transfer->on_data = std::move(on_data);
  transfer->on_end = std::move(on_end);
  transfer->largest = transfer->room = request.largest;
  transfer->stream = request.stream;
  transfers_.emplace(transfer->id, transfer);
  if (!prepare(*transfer, request) || curl_->multi_add_handle(multi_, transfer->easy) != CURLM_OK) {
    transfer->failed = true;
    if (!soon_.running()) soon_.start(Duration::zero(), [this] { deliver(); });
  }
  return transfer->id;
}

bool Transfers::prepare(Transfer& transfer, const HttpRequest& request) {
  transfer.easy = curl_->easy_init();
  if (transfer.easy == nullptr) return false;
  CURL* easy = transfer.easy;
  for (const auto& header : request.headers) {
    auto* longer = curl_->slist_append(transfer.headers, header.c_str());
    if (longer == nullptr) return false;
    transfer.headers = longer;
  }
  const auto set = [this, easy](CURLoption option, auto value) {
    return curl_->easy_setopt(easy, option, value) == CURLE_OK;
  };
  static const std::string kAgent = std::string("tranche/") + kVersion;
  bool good = set(CURLOPT_URL, (base_ + request.path).c_str()) && set(CURLOPT_CUSTOMREQUEST, request.method) &&
              set(CURLOPT_HTTPHEADER, transfer.headers) && set(CURLOPT_USERAGENT, kAgent.c_str()) &&
              set(CURLOPT_PROTOCOLS_STR, "http,https") && set(CURLOPT_FOLLOWLOCATION, 0L) &&
              set(CURLOPT_PROXY, access_.proxy.c_str()) && set(CURLOPT_NOSIGNAL, 1L) && set(CURLOPT_QUICK_EXIT, 1L) &&
              set(CURLOPT_WRITEFUNCTION, &Transfers::on_write) && set(CURLOPT_WRITEDATA, &transfer) &&
              set(CURLOPT_PRIVATE, &transfer) && set(CURLOPT_ERRORBUFFER, transfer.error.data()) &&
              set(CURLOPT_CONNECTTIMEOUT_MS, kConnectMs) && set(CURLOPT_TCP_KEEPALIVE, 1L) &&
              set(CURLOPT_TCP_KEEPIDLE, kIdleSeconds) && set(CURLOPT_TCP_KEEPINTVL, kProbeSeconds) &&
              set(CURLOPT_SOCKOPTFUNCTION, &Transfers::on_new_socket);
  const auto deadline = std::chrono::ceil<std::chrono::milliseconds>(request.deadline).count();
  good = good && set(CURLOPT_TIMEOUT_MS, static_cast<long>(deadline));
  if (!request.body.empty()) {
    good = good && set(CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(request.body.size())) &&
           set(CURLOPT_COPYPOSTFIELDS, request.body.c_str());
  }
  if (request.compressed) good = good && set(CURLOPT_ACCEPT_ENCODING, "gzip");
  if (request.own_connection) good = good && set(CURLOPT_FRESH_CONNECT, 1L);
  if (connect_to_ != nullptr) good = good && set(CURLOPT_CONNECT_TO, connect_to_);
  return good && (!access_.server.tls || prepare_tls(easy));
}

bool Transfers::prepare_tls(CURL* easy) {
  const auto set = [this, easy](CURLoption option, auto value) {
    return curl_->easy_setopt(easy, option, value) == CURLE_OK;
  };
  const auto material = [&](const kube::Material& from, CURLoption blob, CURLoption file) {
    if (!from.pem.empty()) {
      curl_blob copied = blob_of(from.pem);
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

void Transfers::cancel(Id id) {
  const auto at = transfers_.find(id);
  if (at == transfers_.end()) return;
  const auto transfer = std::move(at->second);
  transfers_.erase(at);
  end(*transfer);
}

void Transfers::end(Transfer& transfer) {
  if (transfer.easy != nullptr) {
    curl_->multi_remove_handle(multi_, transfer.easy);  // harmless if it was never added
    curl_->easy_cleanup(std::exchange(transfer.easy, nullptr));
  }
  curl_->slist_free_all(std::exchange(transfer.headers, nullptr));
}

void Transfers::act(curl_socket_t fd, int what) {
  int running = 0;
  curl_->multi_socket_action(multi_, fd, what, &running);
  deliver();
}

// libcurl must not be called from inside its callbacks, so what arrived there is passed on here.
void Transfers::deliver() {
  std::vector<std::pair<Id, HttpEnd>> ended;
  std::vector<Id> fed;
  for (const auto& [id, transfer] : transfers_) {
    if (!transfer->arrived.empty()) fed.push_back(id);
    if (transfer->failed) ended.emplace_back(id, HttpEnd{0, "libcurl does not take the request", false});
  }
  int left = 0;
  while (const CURLMsg* message = curl_->multi_info_read(multi_, &left)) {
    if (message->msg != CURLMSG_DONE) continue;
    Transfer* transfer = nullptr;
    curl_->easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &transfer);
    const CURLcode code = message->data.result;
    HttpEnd how{transfer->status(), {}, code == CURLE_OPERATION_TIMEDOUT};
    if (code != CURLE_OK) how.broken = transfer->error[0] != 0 ? transfer->error.data() : curl_->easy_strerror(code);
    if (transfer->too_large)
      how.broken = fmt::format("the API server answered with more than {} bytes", transfer->largest);
    ended.emplace_back(transfer->id, std::move(how));
  }
  for (const Id id : fed) {
    const auto at = transfers_.find(id);
    if (at == transfers_.end()) continue;  // cancelled by an earlier callback
    const auto transfer = at->second;
    const std::string bytes = std::exchange(transfer->arrived, {});
    if (transfer->stream) transfer->room = transfer->largest;
    transfer->on_data(transfer->status(), bytes);
  }
  for (const auto& [id, how] : ended) {
    const auto at = transfers_.find(id);
    if (at == transfers_.end()) continue;
    const auto transfer = std::move(at->second);
    transfers_.erase(at);
    end(*transfer);
    transfer->on_end(how);
  }
}

int Transfers::on_socket(CURL*, curl_socket_t fd, int what, void* self, void*) {
  auto& transfers = *static_cast<Transfers*>(self);
  if (const auto at = transfers.watches_.find(fd); at != transfers.watches_.end()) {
    transfers.loop_.cancel(at->second);
    transfers.watches_.erase(at);
  }
  if (what == CURL_POLL_REMOVE) return 0;
  std::uint32_t events = 0;
  if (what == CURL_POLL_IN || what == CURL_POLL_INOUT) events |= EPOLLIN;
  if (what == CURL_POLL_OUT || what == CURL_POLL_INOUT) events |= EPOLLOUT;
  const auto watch = transfers.loop_.watch(fd, events, [&transfers, fd](std::uint32_t seen) {
    int ready = 0;
    if ((seen & EPOLLIN) != 0) ready |= CURL_CSELECT_IN;
    if ((seen & EPOLLOUT) != 0) ready |= CURL_CSELECT_OUT;
    if ((seen & (EPOLLERR | EPOLLHUP)) != 0) ready |= CURL_CSELECT_IN | CURL_CSELECT_OUT;
    transfers.act(fd, ready);
  });
  if (watch == 0) return -1;
  transfers.watches_.emplace(fd, watch);
  return 0;
}

int Transfers::on_timer(CURLM*, long milliseconds, void* self) {
  auto& transfers = *static_cast<Transfers*>(self);
  transfers.timer_.stop();
  if (milliseconds < 0) return 0;
  transfers.timer_.start(std::chrono::milliseconds(milliseconds),
                         [&transfers] { transfers.act(CURL_SOCKET_TIMEOUT, 0); });
  return 0;
}

// One libcurl call may unpack gigabytes, so the limit is enforced here and not where bytes are passed on.
std::size_t Transfers::on_write(char* bytes, std::size_t one, std::size_t count, void* self) {
  auto& transfer = *static_cast<Transfer*>(self);
  if (one * count > transfer.room) {
    transfer.too_large = true;
    return CURL_WRITEFUNC_ERROR;
  }
  transfer.room -= one * count;
  transfer.arrived.append(bytes, one * count);
  return one * count;
}

int Transfers::on_new_socket(void*, curl_socket_t fd, curlsocktype) {
  const unsigned most = kUnconfirmedMs;
  ::setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &most, sizeof most);  // an old kernel without it: keepalive remains
  return CURL_SOCKOPT_OK;
}

}  // namespace tranche::host
