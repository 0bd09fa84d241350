#pragma once
// Private to kube/client: HTTP requests on the loop, through libcurl's multi interface: its sockets are watches and its
// timers are timers of the loop, without a thread. (libcurl resolves host names on a thread of its own.) Loop thread
// only; callbacks run separately on the loop, never inside another call, and may start and cancel requests, but must
// not destroy this object.
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "kube/access.h"
#include "kube/client/curl_library.h"
#include "os/loop/loop.h"
#include "os/loop/timer.h"

namespace tranche::host {

struct HttpRequest {
  const char* method = "GET";
  std::string path = {};  // with its query, relative to the server's own path
  std::vector<std::string> headers = {};
  std::string body = {};
  Duration deadline = std::chrono::seconds(10);
  bool compressed = false;  // accept a compressed response
  // Largest body, unpacked; a longer response is aborted. For a stream: the bytes that arrive in one callback.
  std::size_t largest = std::size_t{1} << 20;
  bool stream = false;
  bool own_connection = false;  // do not use one that is open
};

struct HttpEnd {
  int status = 0;      // 0: no answer
  std::string broken;  // why the response is incomplete, "" if it is complete
  bool timed_out = false;
};

class Transfers {
 public:
  using Id = std::uint64_t;  // 0 = none
  using OnData = std::function<void(int status, std::string_view bytes)>;
  using OnEnd = std::function<void(const HttpEnd&)>;

  static Result<std::unique_ptr<Transfers>> open(Loop& loop, std::shared_ptr<const CurlLibrary> curl,
                                                 const kube::Access& access);
  Transfers(const Transfers&) = delete;
  Transfers& operator=(const Transfers&) = delete;
  ~Transfers();  // ends requests in progress; no callback runs afterwards

  Id start(const HttpRequest& request, OnData on_data, OnEnd on_end);
  void cancel(Id id);  // no callback of it runs afterwards; unknown ids are ignored

 private:
  struct Transfer;
  Transfers(Loop& loop, std::shared_ptr<const CurlLibrary> curl, const kube::Access& access);
  bool prepare(Transfer& transfer, const HttpRequest& request);
  bool prepare_tls(CURL* easy);
  void end(Transfer& transfer);
  void act(curl_socket_t fd, int what);
  void deliver();

  static int on_socket(CURL* easy, curl_socket_t fd, int what, void* self, void* unused);
  static int on_timer(CURLM* multi, long milliseconds, void* self);
  static std::size_t on_write(char* bytes, std::size_t one, std::size_t count, void* transfer);
  static int on_new_socket(void* self, curl_socket_t fd, curlsocktype purpose);

  Loop& loop_;
  std::shared_ptr<const CurlLibrary> curl_;
  const kube::Access access_;
  std::string base_;  // "https://10.0.0.1:6443"
  curl_slist* connect_to_ = nullptr;
  CURLM* multi_ = nullptr;
  Timer timer_{loop_};
  Timer soon_{loop_};  // delivers failures to start a request
  std::map<curl_socket_t, Loop::Id> watches_;
  std::map<Id, std::shared_ptr<Transfer>> transfers_;
  Id next_id_ = 1;
};

}  // namespace tranche::host
