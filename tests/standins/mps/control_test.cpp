// The daemon as a program: its files, its options, permissions of commands, the effects of its settings.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "other_user.h"
#include "standins/mps/mps_world.h"

namespace tranche::sim {
namespace control_test {

using testing::HasSubstr;
using testing::StartsWith;

constexpr uid_t kOther = 1001;

std::string file_text(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

unsigned mode_of(const std::string& path) {
  struct stat status{};
  return ::stat(path.c_str(), &status) == 0 ? status.st_mode : 0;
}

Reply run(const MpsWorld& world, std::vector<std::string> options) {
  options.insert(options.begin(), "nvidia-cuda-mps-control");
  TestProcess process({.argv = options, .env = world.env()});
  Reply reply;
  reply.text = process.rest();
  reply.status = process.wait();
  return reply;
}

TEST(MpsControl, FilesOfThePipeDirectory) {
  MpsWorld world;
  const auto& daemon = world.start_daemon();
  EXPECT_EQ(mode_of(world.pipe() + "/control"), S_IFSOCK | 0666u);
  EXPECT_EQ(mode_of(world.pipe() + "/control_privileged"), S_IFSOCK | 0755u);
  EXPECT_EQ(mode_of(world.pipe() + "/log"), S_IFIFO | 0777u);
  EXPECT_EQ(mode_of(world.pipe() + "/control_lock"), S_IFREG | 0666u);
  EXPECT_EQ(mode_of(world.pipe() + "/nvidia-cuda-mps-control.pid"), S_IFREG | 0666u);
  EXPECT_EQ(file_text(world.pipe() + "/nvidia-cuda-mps-control.pid"), std::to_string(daemon.pid()));
  EXPECT_FALSE(std::filesystem::exists(world.dir() + "/log")) << "in the foreground everything goes to stdout";
}

TEST(MpsControl, NoDaemonIsSaidOnStderrWithStatusOne) {
  MpsWorld world;
  const Reply reply = world.command("get_server_list");
  EXPECT_EQ(reply.status, 1);
  EXPECT_EQ(reply.text, "Cannot find MPS control daemon process\n");
}

TEST(MpsControl, ASecondDaemonInTheDirectoryIsRefused) {
  MpsWorld world;
  world.start_daemon();
  for (const char* option : {"-f", "-d"}) {
    const Reply reply = run(world, {option});
    EXPECT_EQ(reply.status, 1);
    EXPECT_EQ(reply.text, "An instance of this daemon is already running\n");
  }
  EXPECT_EQ(world.ask("get_default_active_thread_percentage"), "100.0\n");
}

TEST(MpsControl, OptionsOfOtherReleasesAreAnsweredWithTheHelp) {
  MpsWorld world;
  for (const char* option : {"-S", "-p", "--bogus", "-x", "-a"}) {
    const Reply reply = run(world, {option});
    EXPECT_EQ(reply.status, 0);
    EXPECT_THAT(reply.text, StartsWith("Unrecognized option "));
    EXPECT_THAT(reply.text, HasSubstr("OPTIONS:"));
  }
  EXPECT_THAT(run(world, {"-v"}).text, HasSubstr("Binary version: 13000"));
  EXPECT_THAT(run(world, {"-h"}).text, HasSubstr("terminate_client <server PID> <client PID>"));
}

TEST(MpsControl, TheForegroundDaemonLivesOnWhenItsStdinEnds) {
  MpsWorld world;
  auto& daemon = world.start_daemon();
  daemon.close_stdin();
  EXPECT_EQ(world.ask("get_default_active_thread_percentage"), "100.0\n");
  EXPECT_FALSE(daemon.ended_within(std::chrono::milliseconds(0)));
}

TEST(MpsControl, TheBackgroundDaemonLogsToFilesAndQuitLeavesTheSockets) {
  MpsWorld world;
  EXPECT_EQ(run(world, {"-d"}).status, 0);
  const pid_t daemon = std::stoi(file_text(world.pipe() + "/nvidia-cuda-mps-control.pid"));
  EXPECT_EQ(mode_of(world.dir() + "/log"), S_IFDIR | 0700u);
  EXPECT_EQ(mode_of(world.dir() + "/log/control.log"), S_IFREG | 0644u);
  const auto client = world.client();
  EXPECT_THAT(
      file_text(world.dir() + "/log/control.log"),
      testing::ContainsRegex("\\[20[0-9]{2}-[0-9]{2}-[0-9]{2} [0-9:]{8}\\.[0-9]{3} Control +" + std::to_string(daemon) +
                             "\\] Starting control daemon using socket " + world.pipe() + "/control\n"));
  EXPECT_THAT(file_text(world.dir() + "/log/server.log"), HasSubstr("] Server has started\n"));
  client.process->signal(SIGKILL);
  client.process->wait();
  EXPECT_EQ(world.command("quit").status, 0);  // answers once the daemon has exited
  for (const char* stays : {"control", "control_lock", "control_privileged"}) {
    EXPECT_TRUE(std::filesystem::exists(world.pipe() + "/" + stays)) << stays;
  }
  for (const char* goes : {"log", "nvidia-cuda-mps-control.pid"}) {
    EXPECT_FALSE(std::filesystem::exists(world.pipe() + "/" + goes)) << goes;
  }
  EXPECT_EQ(world.command("get_server_list").status, 1);
}

TEST(MpsControl, AFreshDaemonStartsOverTheSocketsOfAKilledOne) {
  MpsWorld world;
  world.start_daemon();
  const auto client = world.client();
  const pid_t server = world.server();
  world.daemon().signal(SIGKILL);
  world.daemon().wait();
  EXPECT_EQ(client.process->line_with("\"error\"").find("CUDA_ERROR_MPS_RPC_FAILURE") == std::string::npos, false);
  EXPECT_TRUE(std::filesystem::exists(world.pipe() + "/control")) << "the stale socket stays";
  EXPECT_EQ(world.command("get_server_list").status, 1);
  world.start_daemon();
  EXPECT_EQ(world.ask("get_server_list"), "") << "server " << server << " died with its daemon";
  EXPECT_TRUE(world.client().mps());
}

TEST(MpsControl, QuitWithATimeoutKillsWhoStays) {
  MpsWorld world;
  world.start_daemon();
  const auto client = world.client();
  EXPECT_EQ(world.command("quit -t 0").status, 0);
  EXPECT_EQ(world.daemon().wait(), 0);
  EXPECT_EQ(client.process->wait(), 86);
}

TEST(MpsControl, QuitWithoutATimeoutWaitsForTheClients) {
  MpsWorld world;
  world.start_daemon();
  const auto client = world.client();
  TestProcess quit({.argv = {"nvidia-cuda-mps-control", "quit"}, .env = world.env()});
  EXPECT_NE(world.daemon().line_with("Server will not shutdown."), "");
  EXPECT_FALSE(quit.ended_within(std::chrono::milliseconds(0)));
  client.process->say("exit");
  EXPECT_EQ(client.process->wait(), 0);
  EXPECT_EQ(world.daemon().wait(), 0);
  EXPECT_EQ(quit.wait(), 0);
}

TEST(MpsControl, DefaultsAreFrozenForALiveServer) {
  MpsWorld world;
  world.start_daemon();
  world.ask("set_default_active_thread_percentage 10");
  const auto before = world.client();
  const std::string server = std::to_string(world.server());
  EXPECT_EQ(world.ask("set_default_active_thread_percentage 50"), "50.0\n");
  world.ask("set_default_device_pinned_mem_limit 0 4G");
  EXPECT_EQ(world.client().number("sms"), 12u);
  EXPECT_EQ(world.ask("get_active_thread_percentage " + server), "10.0\n");
  EXPECT_EQ(world.ask("get_device_pinned_mem_limit " + server + " 0"), "");
}

TEST(MpsControl, ServerSettingsReachNewClientsOnlyAndDieWithTheServer) {
  MpsWorld world;
  world.start_daemon();
  world.ask("set_default_active_thread_percentage 10");
  world.ask("set_default_device_pinned_mem_limit 0 4096M");
  auto before = world.client();
  const pid_t server = world.server();
  const std::string pid = std::to_string(server);
  EXPECT_EQ(world.ask("set_active_thread_percentage " + pid + " 100"), "100.0\n");
  EXPECT_EQ(world.ask("set_device_pinned_mem_limit " + pid + " 0 100G"), "");
  auto after = world.client();
  EXPECT_EQ(after.number("sms"), 132u);
  EXPECT_EQ(after.number("limit"), 100ull << 30);
  EXPECT_THAT(before.obey("alloc 5000M", "allocate"), HasSubstr("CUDA_ERROR_OUT_OF_MEMORY"));
  ::kill(server, SIGKILL);
  EXPECT_NE(world.daemon().line_with("Server " + pid + " exited with status"), "");
  const auto next = world.client();
  EXPECT_NE(world.server(), server);
  EXPECT_EQ(next.number("sms"), 12u);
  EXPECT_EQ(next.number("limit"), 4096ull << 20);
}

TEST(MpsControl, TheDaemonsVariableSetsThePercentageAndNotTheMemory) {
  MpsWorld world;
  world.start_daemon({}, {{"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "30"}, {"CUDA_MPS_PINNED_DEVICE_MEM_LIMIT", "0=3G"}});
  EXPECT_EQ(world.ask("get_default_active_thread_percentage"), "30.0\n");
  EXPECT_EQ(world.ask("get_default_device_pinned_mem_limit 0"), "");
  const auto client = world.client();
  EXPECT_EQ(client.number("sms"), 38u);
  EXPECT_THAT(client.first, HasSubstr("\"limit\":null"));
}

TEST(MpsControl, TheDaemonsVisibleDevicesRenumberTheClients) {
  MpsWorld world("gpus: {profile: H200, count: 2}\n");
  world.start_daemon({}, {{"CUDA_VISIBLE_DEVICES", world.uuid(1)}});
  const auto client = world.client({}, {{"CUDA_VISIBLE_DEVICES", "0"}});
  EXPECT_THAT(client.first, HasSubstr(world.uuid(1)));
  EXPECT_FALSE(world.client({}, {{"CUDA_VISIBLE_DEVICES", world.uuid(0)}}).attached());
}

TEST(MpsControl, AnotherUserIsRefused) {
  if (const auto why = why_no_other_user(); !why.empty()) GTEST_SKIP() << why;
  MpsWorld world;
  world.start_daemon({"-M"});
  const auto client = world.client();
  const std::string server = std::to_string(world.server());
  const std::string refused =
      "Insufficient privileges for UID 1001. Control deamon settings can only be modified by the user who started it "
      "or by the root user.\n";
  const auto as_other = [&](const std::string& line) { return world.command(line, "", kOther).text; };
  EXPECT_EQ(as_other("get_server_list"), server + "\n");
  const std::vector<std::string> changes{"set_default_active_thread_percentage 20",
                                         "set_default_device_pinned_mem_limit 0 1G", "start_server -uid 0",
                                         "shutdown_server " + server, "set_active_thread_percentage " + server + " 10"};
  for (const auto& line : changes) {
    EXPECT_EQ(as_other(line), refused) << line;
  }
  EXPECT_EQ(as_other("terminate_client " + server + " " + std::to_string(client.process->pid())), refused + "800\n");
  EXPECT_EQ(as_other("quit"), "Not enough privilege to execute quit command\n");
}

TEST(MpsControl, AMuteServerMakesTheDaemonMute) {
  MpsWorld world;
  world.start_daemon();
  const auto client = world.client();
  const pid_t server = world.server();
  ::kill(server, SIGSTOP);
  TestProcess status(
      {.argv = {"nvidia-cuda-mps-control", "get_server_status " + std::to_string(server)}, .env = world.env()});
  EXPECT_NE(world.daemon().line_with("Cmd:get_server_status"), "");
  TestProcess list({.argv = {"nvidia-cuda-mps-control", "get_server_list"}, .env = world.env()});
  EXPECT_FALSE(list.ended_within(std::chrono::milliseconds(50)));
  ::kill(server, SIGCONT);
  EXPECT_EQ(status.rest(), "ACTIVE\n");
  // Whether it was still the second of two sessions depends on timing.
  EXPECT_THAT(list.rest(), testing::AnyOf(std::to_string(server) + "\n", HasSubstr("Cannot send command")));
  EXPECT_EQ(world.ask("get_server_list"), std::to_string(server) + "\n");
}

}  // namespace control_test
}  // namespace tranche::sim
