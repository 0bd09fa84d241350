#pragma once
// The status socket of the programs on the node: a unix stream socket, mode 0600. A client sends one line ("status",
// "plan", "watch") and gets one JSON document per line. "watch" keeps the connection and gets a line at every change,
// and an empty line at every beat, which shows that the program still runs. Used by `tranche status`, by `tranche node`
// to follow `tranche mps`, and by tests. Loop thread only, except ask().
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>

#include "base/result.h"
#include "base/text.h"
#include "base/time.h"
#include "os/files/files.h"
#include "os/files/watch.h"
#include "os/loop/fd.h"
#include "os/loop/loop.h"
#include "os/socket/unix_socket.h"

namespace tranche::os {

struct StatusLimits {
  // Takes the path from a program that answers there, instead of failing: for a program whose newer instance starts
  // while the older one still runs (a rolling update). The older one leaves the file alone and closes its connections
  // at its next audit; if the path is free by then (the newer one failed), it listens there again.
  bool take_over = false;
  Duration audit = std::chrono::seconds(30);  // how often the older one checks
  Duration beat = std::chrono::seconds(1);    // how often a watcher is sent an empty line, the loop's sign of life
  std::string later{};                        // a word that is answered later, as requests in JSON are
};

inline constexpr std::size_t kLongestRequest = 8192;  // two hundred process ids and a reason
inline constexpr std::size_t kLongestAnswer = 16 << 20;

// A request from its line, without surrounding blanks. kInvalid for a line that is too long or holds anything except
// printable ASCII; the connection is unusable after that. Pure; fuzzed.
Result<std::string> read_request(std::string_view line);

class StatusConnection;

class StatusServer {
 public:
  using Answer = std::function<Result<std::string>(const std::string& request)>;
  // Answers a request later: once, in any callback. Further calls, and calls after the client hung up, do nothing. The
  // client's next requests wait for it.
  using Reply = std::function<void(const Result<std::string>& json)>;
  // Handles requests in JSON ("{…}"), and StatusLimits::later, which are not answered at once.
  using Later = std::function<void(const std::string& request, Reply reply)>;

  // answer(request) returns the JSON for a request, or an Error that becomes {"error": "…"}. It runs inside callbacks
  // of the loop, and again for "watch" at every change. A socket file on which no program answers is replaced;
  // kConflict if a program answers (without take_over), or if the path is not a socket. The directory must exist.
  static Result<std::unique_ptr<StatusServer>> open(Loop& loop, const std::string& path, Answer answer,
                                                    StatusLimits limits = {}, Later later = {});
  ~StatusServer();  // closes every connection, removes the socket
  StatusServer(const StatusServer&) = delete;
  StatusServer& operator=(const StatusServer&) = delete;
  // Sends answer("watch") to every watcher in the next callback, once for any number of calls before that. A slow
  // watcher gets the newest state when it reads again, not a backlog.
  void changed();
  // Sends this JSON inside the call, in place of answer("watch"), to the watchers that have read everything before.
  void changed(const std::string& json);

 private:
  StatusServer(Loop& loop, std::string path, Fd listening, Answer answer, StatusLimits limits, Later later);
  bool begin();
  void arm_audit();
  void listen_again();
  void accept_some();
  void add(Fd fd);
  void notify_watchers(const Answer& answer);
  friend class StatusConnection;

  Loop& loop_;
  std::string path_;
  Fd listening_;
  Answer answer_;
  Later later_;
  StatusLimits limits_;
  std::optional<SocketFile> file_;
  Loop::Id watch_ = 0;
  Timer pause_{loop_};
  Timer notifying_{loop_};
  Timer audit_{loop_};
  std::uint64_t next_key_ = 1;
  std::unordered_map<std::uint64_t, std::shared_ptr<StatusConnection>> connections_;
};

// Follows a server's "watch": reconnects with back-off as long as this object exists, at once when the socket file
// appears. on_line gets every line, and "" once when there is no connection (also if there is none at first). It runs
// in a callback of its own, never inside the constructor, and may destroy the watcher. A server that accepts but sends
// nothing for kFirstAnswer counts as no connection, and so does one that sends nothing for kSilence after that (it
// hangs or is stopped).
class StatusWatcher {
 public:
  static constexpr Duration kFirstAnswer = std::chrono::seconds(5);
  static constexpr Duration kSilence = std::chrono::seconds(2);
  // If our own loop was late by this much, the machine is busy, and the server gets as long again.
  static constexpr Duration kBusy = std::chrono::milliseconds(250);

  StatusWatcher(Loop& loop, const std::string& path, std::function<void(const std::string& line)> on_line);
  ~StatusWatcher() { loop_.cancel(watch_); }
  StatusWatcher(const StatusWatcher&) = delete;
  StatusWatcher& operator=(const StatusWatcher&) = delete;

 private:
  void connect();
  void disconnected();
  void read_some();
  void deliver(const std::string& line);
  void watch_directory();
  void expect_more();

  Loop& loop_;
  std::string path_;
  PathParts parts_;
  std::function<void(const std::string&)> on_line_;
  std::unique_ptr<DirWatch> appears_;
  Fd fd_;
  Loop::Id watch_ = 0;
  Timer timer_{loop_};  // until the next attempt, for the first answer, or for the next beat
  Duration pause_;
  LineReader lines_{kLongestAnswer};
  bool reported_gone_ = false;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>();  // expires with this object
};

// Sends requests to a server, each on a connection of its own. A request whose connection was lost is not repeated: it
// fails, and the caller decides whether to repeat it. Destroying it drops pending requests without calling `done`.
class StatusClient {
 public:
  // Runs once, in a callback of its own, and may destroy the client: the line as received, also an {"error": "…"};
  // kUnavailable (no program answers), kTimeout (counts from request(), waiting included), kInvalid (the request is not
  // one line, or the answer is too long).
  using Done = std::function<void(const Result<std::string>& line)>;

  StatusClient(Loop& loop, std::string path) : loop_(loop), path_(std::move(path)) {}
  ~StatusClient();
  StatusClient(const StatusClient&) = delete;
  StatusClient& operator=(const StatusClient&) = delete;

  void request(std::string line, Duration deadline, Done done);          // after the earlier ones, in their order
  void request_at_once(std::string line, Duration deadline, Done done);  // beside all others

 private:
  struct Asked {
    explicit Asked(Loop& loop) : deadline(loop), again(loop) {}
    std::string line;
    Done done;
    bool in_turn = false;
    bool begun = false;
    Fd fd;
    Loop::Id watch = 0;
    LineReader lines{kLongestAnswer};
    Timer deadline;
    Timer again;  // the next attempt to connect
  };
  using Place = std::list<Asked>::iterator;

  Place add(std::string line, Duration deadline, Done done);
  void begin_next();
  void begin(Place asked);
  void read_some(Place asked);
  void finish(Place asked, const Result<std::string>& result);

  Loop& loop_;
  std::string path_;
  std::list<Asked> asked_;
};

// One request from a program without a loop: blocks until the answer or the deadline. As StatusClient; any thread.
Result<std::string> ask(const std::string& path, const std::string& request, Duration deadline);

}  // namespace tranche::os
