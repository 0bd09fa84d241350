#pragma once
// The status socket of the programs on the node: a unix stream socket, mode 0600. A client sends one line ("status",
// "plan", "watch") and gets one JSON document per line. "watch" keeps the connection and gets a line at every change,
// and an empty line at every beat, which shows that the program still runs. Used by `tranche status`, by `tranche node`
// to follow `tranche mps`, and by tests. Loop thread only, except ask().
#include <functional>
#include <memory>
#include <string>

#include "base/result.h"
#include "base/time.h"
#include "os/loop/loop.h"

namespace tranche::os {

struct StatusLimits {
  Duration idle = std::chrono::seconds(30);  // a connection that neither watches nor asks is closed after this
  std::size_t connections = 4096;            // one more gets an error and is closed
  // Takes the path from a program that answers there, instead of failing: for a program whose newer instance starts
  // while the older one still runs (a rolling update). The older one leaves the file alone and closes its connections
  // at its next audit; if the path is free by then (the newer one failed), it listens there again.
  bool take_over = false;
  Duration audit = std::chrono::seconds(30);  // how often the older one checks
  Duration beat = std::chrono::seconds(1);    // how often a watcher is sent an empty line, the loop's sign of life
  std::string later{};                        // a word that is answered later, as requests in JSON are
};

class StatusServer {
 public:
  // Answers a request later: once, in any callback. Further calls, and calls after the client hung up, do nothing. The
  // client's next requests wait for it.
  using Reply = std::function<void(const Result<std::string>& json)>;
  // Handles requests in JSON ("{…}"), and StatusLimits::later, which are not answered at once.
  using Later = std::function<void(const std::string& request, Reply reply)>;

  // answer(request) returns the JSON for a request, or an Error that becomes {"error": "…"}. It runs inside callbacks
  // of the loop, and again for "watch" at every change. A socket file on which no program answers is replaced;
  // kConflict if a program answers (without take_over), or if the path is not a socket. The directory must exist.
  static Result<std::unique_ptr<StatusServer>> open(Loop& loop, const std::string& path,
                                                    std::function<Result<std::string>(const std::string&)> answer,
                                                    StatusLimits limits = {}, Later later = {});
  virtual ~StatusServer() = default;  // closes every connection, removes the socket
  // Sends answer("watch") to every watcher in the next callback, once for any number of calls before that. A slow
  // watcher gets the newest state when it reads again, not a backlog.
  virtual void changed() = 0;
};

// Follows a server's "watch": reconnects with back-off as long as this object exists, at once when the socket file
// appears. on_line gets every line, and "" once when there is no connection (also if there is none at first). It runs
// in a callback of its own, never inside open(), and may destroy the watcher. A server that accepts but sends nothing
// for kFirstAnswer counts as no connection, and so does one that sends nothing for kSilence after that (it hangs or is
// stopped).
class StatusWatcher {
 public:
  static constexpr Duration kFirstAnswer = std::chrono::seconds(5);
  static constexpr Duration kSilence = std::chrono::seconds(2);
  // If our own loop was late by this much, the machine is busy, and the server gets as long again.
  static constexpr Duration kBusy = std::chrono::milliseconds(250);

  static std::unique_ptr<StatusWatcher> open(Loop& loop, const std::string& path,
                                             std::function<void(const std::string& line)> on_line);
  virtual ~StatusWatcher() = default;
};

// Sends requests to a server one after the other. Connects on demand, and again after a lost connection. A request
// whose connection was lost is not repeated: it fails, and the caller decides whether to repeat it.
class StatusClient {
 public:
  static std::unique_ptr<StatusClient> open(Loop& loop, const std::string& path);
  virtual ~StatusClient() = default;  // drops pending requests without calling `done`
  // `done` runs once, in a callback of its own: the line as received, or kUnavailable (no program answers), kTimeout
  // (counts from request(), waiting included), kInvalid (the request is not one line).
  virtual void request(std::string line, Duration deadline, std::function<void(const Result<std::string>&)> done) = 0;
};

// One request from a program without a loop: blocks until the answer or the deadline. Returns the line as received,
// also an {"error": "…"}. kUnavailable if no program answers.
Result<std::string> ask(const std::string& path, const std::string& request, Duration deadline);

}  // namespace tranche::os
