#pragma once
// How the programs answer questions on the node: a unix stream socket, mode 0600. A client sends one line ("status",
// "plan", "watch") and gets one JSON document per line; "watch" keeps the connection and gets a line at every change,
// and an empty line twice a second, by which the client knows that the program still runs. Used by `tranche status`, by
// `tranche node` to follow `tranche mps`, and by tests. Loop thread only, except ask().
#include <functional>
#include <memory>
#include <string>

#include "base/result.h"
#include "base/time.h"
#include "os/loop/loop.h"

namespace tranche::host {

struct StatusLimits {
  Duration idle = std::chrono::seconds(30);  // a connection that neither watches nor asks is closed after this
  std::size_t connections = 4096;            // one more is told so and closed
  // Take the path from a program that answers there, instead of giving up: for a program whose newer instance starts
  // while the older still runs (a rolling update). The older leaves the file alone and closes its connections at
  // its next audit; should the path be free by then (the newer one failed), it listens there again.
  bool take_over = false;
  Duration audit = std::chrono::seconds(30);  // how often the older one looks
  Duration beat = std::chrono::seconds(1);    // how often a watcher is sent an empty line, the loop's sign of life
};

class StatusServer {
 public:
  // An answer that comes when it is there: once, in any turn; more than once, or after the client has gone, does
  // nothing. The client's further requests wait for it.
  using Reply = std::function<void(const Result<std::string>& json)>;
  // Requests in JSON ("{…") that are not answered at once. For a server that takes them.
  using Later = std::function<void(const std::string& request, Reply reply)>;

  // answer(request) gives the JSON for a request, or an Error that becomes {"error": "…"}. It runs as a part of turns,
  // and "watch" is asked again for every change. A socket file that nobody answers on is replaced; kConflict when
  // somebody does (without take_over), or when something else is in its place. The directory must exist.
  static Result<std::unique_ptr<StatusServer>> open(Loop& loop, const std::string& path,
                                                    std::function<Result<std::string>(const std::string&)> answer,
                                                    StatusLimits limits = {}, Later later = {});
  virtual ~StatusServer() = default;  // closes every connection, removes the socket
  // Sends answer("watch") to every watcher, in the next turn, however often it was called before that. A slow one is
  // sent the newest state when it reads again, not a backlog.
  virtual void changed() = 0;
};

// Follows a server's "watch": reconnects with back-off for as long as it lives, at once when the socket file appears.
// on_line gets every line, and "" once when there is no connection (also when there is none at first); a turn each,
// never inside open(), and it may drop the watcher. A server that accepts but stays mute for kFirstAnswer counts as no
// connection, and so does one that has sent a beat and then nothing for kSilence (it hangs or is stopped). A server of
// an older version sends no beats and is never silent.
class StatusWatcher {
 public:
  static constexpr Duration kFirstAnswer = std::chrono::seconds(5);
  static constexpr Duration kSilence = std::chrono::seconds(2);
  // Where our own loop was late by this much, the machine is busy, and the server has as long again.
  static constexpr Duration kBusy = std::chrono::milliseconds(250);

  static std::unique_ptr<StatusWatcher> open(Loop& loop, const std::string& path,
                                             std::function<void(const std::string& line)> on_line);
  virtual ~StatusWatcher() = default;
};

// Asks a server one thing after the other, in order, over a connection that is made when it is needed and again when it
// was lost. What was sent and lost is not sent again: it fails, and whoever asked knows whether to repeat it.
class StatusClient {
 public:
  static std::unique_ptr<StatusClient> open(Loop& loop, const std::string& path);
  virtual ~StatusClient() = default;  // drops what waits, without a word
  // done comes once, as a turn: the line as it came, or kUnavailable (nobody answers), kTimeout (from when it was
  // asked, its waiting included), kInvalid (a request is one line).
  virtual void request(std::string line, Duration deadline, std::function<void(const Result<std::string>&)> done) = 0;
};

// One question from a program that has no loop: blocks until the answer or the deadline. The line as it came, an
// {"error": "…"} too. kUnavailable when nobody answers there.
Result<std::string> ask(const std::string& path, const std::string& request, Duration deadline);

}  // namespace tranche::host
