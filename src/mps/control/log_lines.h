#pragma once
// Parses the log lines of an MPS control daemon and its servers: "[YYYY-MM-DD HH:MM:SS.mmm ROLE PID] text". A daemon in
// the foreground prints both logs on its standard output; otherwise they are control.log and server.log. Only lines
// that change the known state have a kind of their own; all others are kOther. Source: docs/internals/mps-contract.md,
// "Log lines". Pure; fuzzed.
#include <optional>
#include <string>
#include <string_view>

namespace tranche::mps {

enum class LogRole { kControl, kServer, kOther };

enum class LogWhat {
  kOther,
  kNewClient,          // pid, uid: a client asks to connect; pid 0 = the daemon does not see the host's process ids
  kServerStarting,     // pid, uid
  kServerReady,        // pid
  kServerExited,       // pid, number = exit status
  kClientTaken,        // pid, number = its context: the server has connected it; 0 is the process's own connection
  kContextBegan,       // pid, number = its context: it has a place of the server
  kContextEnded,       // pid, number = its context
  kClientLeft,         // pid
  kClientRefused,      // pid, number = CUDA error, such as 807
  kClientAskedToExit,  // pid: MPS asks it to exit (terminate_client)
  kClientLost,    // pid, number = its context: it ended without closing the context; 0 is the process's own connection
  kFatalCulprit,  // pid: its kernel broke the GPU for all clients; after a death, the client that noticed the error
  kFatalHandled,  // the server is in FAULT from this line on
  kFatalVictim,   // pid: torn down with the culprit, which the line also names
  kFatalException,  // the server ends
};

struct LogLine {
  LogRole role = LogRole::kOther;
  int writer = 0;         // process that wrote the line
  std::string_view when;  // "2026-11-21 17:27:39.177", by the node's clock
  std::string_view text;
  LogWhat what = LogWhat::kOther;
  int pid = 0;
  int number = 0;
  long uid = -1;
};

// nullopt: not a log line (the continuation of a table, an empty line).
std::optional<LogLine> parse_log_line(std::string_view line);

}  // namespace tranche::mps
