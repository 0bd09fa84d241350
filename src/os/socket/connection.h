#pragma once
// Private to os/socket: one client of a StatusServer. Requests are answered in order, one at a time: while an answer is
// pending or not read by the client, the connection reads no more requests. Holds at most one answer and one piece of
// input.
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "os/loop/fd.h"
#include "os/loop/loop.h"
#include "os/socket/status_socket.h"

namespace tranche::os {

// Splits the bytes of a connection into requests. Pure.
class RequestReader {
 public:
  static constexpr std::size_t kLongest = 8192;  // two hundred process ids and a reason

  void take(std::string_view bytes);
  // The next whole line, without surrounding blanks; empty lines are skipped. kInvalid for a line that is too long
  // (even if incomplete) or holds anything except printable ASCII; the connection is unusable after that.
  std::optional<Result<std::string>> next();

 private:
  std::string waiting_;
};

class StatusConnection : public std::enable_shared_from_this<StatusConnection> {
 public:
  StatusConnection(Loop& loop, Fd fd, const StatusServer::Answer& answer, const StatusServer::Later& later,
                   const StatusLimits& limits, std::function<void()> on_closed);

  void begin();
  void refuse(const Error& why);            // sends the error and closes
  void changed(const std::string& newest);  // for a watcher; ignored by others. `newest` is a whole line
  void close();                             // idempotent; calls on_closed
  bool watching() const { return watching_; }

 private:
  void on_event(std::uint32_t events);
  void read_some();
  void advance();
  bool flush();  // false: closed
  void answer(const Result<std::string>& request);
  void answer_later(const std::string& request);
  void answered(std::uint64_t number, const Result<std::string>& json);
  void want(std::uint32_t events);
  void check_idle();
  void begin_to_watch();
  void beat();

  Loop& loop_;
  Fd fd_;
  const StatusServer::Answer& answer_;
  const StatusServer::Later& later_;
  const std::string later_word_;
  Duration idle_;
  Duration beat_every_;
  std::function<void()> on_closed_;
  Loop::Id watch_ = 0;
  Timer idle_timer_{loop_};
  Timer beat_timer_{loop_};
  std::uint32_t wanted_ = 0;
  MonoTime last_activity_;
  RequestReader requests_;
  std::string out_;
  std::size_t out_at_ = 0;
  bool watching_ = false;
  bool stale_ = false;        // a watcher that has not been sent the newest state
  bool half_closed_ = false;  // the client sends no more
  bool last_answer_ = false;  // close once it is sent
  std::uint64_t asked_ = 0;   // number of requests answered later
  bool waiting_ = false;      // for the last of these answers
  bool answering_ = false;    // inside advance()
};

// The JSON, or {"error":"…"}: without line ends inside, with one at its end.
std::string answer_line(const Result<std::string>& json);

}  // namespace tranche::os
