#pragma once
// How the programs answer questions on the node: a unix stream socket, mode 0600. A client sends one line ("status",
// "plan", "watch") and gets one JSON document per line; "watch" keeps the connection and gets a line at every change.
// Used by `tranche status`, by `tranche node` to follow `tranche mps`, and by tests. Loop thread only, except ask().
#include <functional>
#include <memory>
#include <string>

#include "base/result.h"
#include "base/time.h"
#include "host/loop/loop.h"

namespace tranche::host {

class StatusServer {
 public:
  // answer(request) gives the one-line JSON for a request, or an Error that becomes {"error": "…"}.
  static Result<std::unique_ptr<StatusServer>> open(Loop& loop, const std::string& path,
                                                    std::function<Result<std::string>(const std::string&)> answer);
  virtual ~StatusServer() = default;
  // Sends answer("watch") to every watcher. A slow one is sent the newest state when it reads again, not a backlog.
  virtual void changed() = 0;
};

// Follows a server's "watch": reconnects with back-off for as long as it lives. on_line("") means: no connection now.
class StatusWatcher {
 public:
  static std::unique_ptr<StatusWatcher> open(Loop& loop, const std::string& path,
                                             std::function<void(const std::string& line)> on_line);
  virtual ~StatusWatcher() = default;
};

// One question from a program that has no loop: blocks until the answer or the deadline.
Result<std::string> ask(const std::string& path, const std::string& request, Duration deadline);

}  // namespace tranche::host
