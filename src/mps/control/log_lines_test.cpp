// The lines are captured from a real daemon and server: NVIDIA H200, driver 580.159.04, 2026-11-21.
#include "mps/control/log_lines.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace tranche::mps {
namespace log_lines_test {

struct Row {
  const char* text;
  LogWhat what;
  int pid;
  int number;
};

TEST(LogLines, ThatMatterAreDistinguished) {
  const std::string control = "[2026-11-21 17:27:37.537 Control   502] ";
  const std::string server = "[2026-11-21 17:27:39.177 Server   532] ";
  const std::vector<std::pair<std::string, Row>> rows{
      {control,
       {"NEW CLIENT 527 from user 0: Server is not ready, push client to pending list", LogWhat::kNewClient, 527, 0}},
      {control, {"NEW CLIENT 0 from user 1001: Server already exists", LogWhat::kNewClient, 0, 0}},
      {control, {"Starting new server 532 for user 0", LogWhat::kServerStarting, 532, 0}},
      {control, {"NEW SERVER 532: Ready", LogWhat::kServerReady, 532, 0}},
      {control, {"Server 532 exited with status 0", LogWhat::kServerExited, 532, 0}},
      {control, {"Server 1 not found", LogWhat::kOther, 0, 0}},
      {control, {"Cmd:get_server_list", LogWhat::kOther, 0, 0}},
      {control, {"", LogWhat::kOther, 0, 0}},
      {server, {"Client {PID: 527, Context ID: 0} connected", LogWhat::kClientTaken, 527, 0}},
      {server, {"Client {PID: 527, Context ID: 1} connected", LogWhat::kClientTaken, 527, 1}},
      {server, {"Status of client {PID: 527, Context ID: 2} is ACTIVE", LogWhat::kContextBegan, 527, 2}},
      {server,
       {"Client {PID: 527, Context ID: 2} exiting. Number of active client contexts is 11.", LogWhat::kContextEnded,
        527, 2}},
      {server,
       {"Status of client {PID: 527, Context ID: -2147483647} is ACTIVE", LogWhat::kContextBegan, 527, -2147483647}},
      {server, {"Client process 527 disconnected", LogWhat::kClientLeft, 527, 0}},
      {server, {"Client {PID: 554, Context: 1} encountered a fatal GPU error.", LogWhat::kFatalCulprit, 554, 0}},
      {server,
       {"All clients belonging to error trigging process 609 will be torn down", LogWhat::kFatalVictim, 609, 0}},
      {server,
       {"Failed to accept client {PID: 648, Context ID: 0} with status 807", LogWhat::kClientRefused, 648, 807}},
      {server, {"MPS server requesting client {PID: 527, Context ID: 1} to exit", LogWhat::kOther, 0, 0}},
      {server,
       {"Server failed to recevie command with status 806, assuming client {PID: 767, Context ID: 1} exit",
        LogWhat::kClientLost, 767, 1}},
      {server,
       {"Server failed to recevie command with status 806, assuming client {PID: 767, Context ID: 0} exit",
        LogWhat::kClientLost, 767, 0}},
      {server, {"Server is handling a fatal GPU error.", LogWhat::kFatalHandled, 0, 0}},
      {server, {"Server encountered a fatal exception. Shutting down", LogWhat::kFatalException, 0, 0}},
      {"[2026-11-21 17:27:37.540 Other   532] ", {"Startup", LogWhat::kOther, 0, 0}},
  };
  for (const auto& [prefix, want] : rows) {
    const std::string text = prefix + want.text;  // the line refers to it
    const auto line = parse_log_line(text);
    ASSERT_TRUE(line) << want.text;
    EXPECT_EQ(line->text.substr(0, 8), std::string_view(want.text).substr(0, 8));
    EXPECT_EQ(line->what, want.what) << want.text;
    EXPECT_EQ(line->pid, want.pid) << want.text;
    EXPECT_EQ(line->number, want.number) << want.text;
  }
}

TEST(LogLines, SayWhoWroteThem) {
  const std::string text = "[2026-11-21 17:27:37.719 Server   532] Creating server context on device 0 (NVIDIA H200)";
  const auto line = parse_log_line(text);
  ASSERT_TRUE(line);
  EXPECT_EQ(line->writer, 532);
  const auto other = parse_log_line("[2026-11-21 17:27:37.719 Legacy Server 7] Client process 527 disconnected");
  EXPECT_EQ(other->what, LogWhat::kOther);
}

TEST(LogLines, ThatAreNoneAreSaidToBeNone) {
  for (const char* text :
       {"", "0", "554", "[", "[] x", "[2026-11-21 17:27:37.719] x", "[2026-11-21 17:27:37.719 Server] x",
        "[2026-11-21 17:27:37.719 Server 5x] x", "[not a time at all, no no Server 5] x"}) {
    EXPECT_FALSE(parse_log_line(text)) << text;
  }
}

}  // namespace log_lines_test
}  // namespace tranche::mps
