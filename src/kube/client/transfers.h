#pragma once
// Private to kube/client: HTTP requests on the loop, through libcurl's multi interface: its sockets are watches, its
// timers are timers, there is no thread. (A host name is looked up on a thread of libcurl's own.) Loop thread only;
// callbacks run as turns, never inside another call, and may start and cancel requests, but not destroy this object.
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
  std::string path = {};  // with its query, below the server's own path
  std::vector<std::string> headers = {};
  std::string body = {};
  Duration deadline = std::chrono::seconds(10);
  bool compressed = false;  // the answer may be
  // Bytes of the body, unpacked, beyond which the answer breaks off. Of a stream: those that arrive in one callback.
  std::size_t largest = std::size_t{1} << 20;
  bool stream = false;
  bool own_connection = false;  // do not use one that is open
};

struct HttpEnd {
  int status = 0;      // 0: no answer
  std::string broken;  // why the answer is not whole, "" when it is
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
  ~Transfers();  // ends what is under way; no callback runs any more

  Id start(const HttpRequest& request, OnData on_data, OnEnd on_end);
  void cancel(Id id);  // no callback of it runs any more; unknown ids are ignored

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
  Timer soon_{loop_};  // delivers failures to start
  std::map<curl_socket_t, Loop::Id> watches_;
  std::map<Id, std::shared_ptr<Transfer>> transfers_;
  Id next_id_ = 1;
};

}  // namespace tranche::host
