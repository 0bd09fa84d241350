// The v2 commands, answered as by driver 580 (transcripts/commands.txt).
#include <algorithm>
#include <chrono>

#include "standins/mps/control_daemon.h"
#include "standins/mps/help.h"

namespace tranche::sim {
namespace {

bool has_option(const ControlCommand& command, std::string_view option) {
  return std::ranges::find(command.args, option) != command.args.end();
}

}  // namespace

void ControlDaemon::run_commands(Session& session) {
  while (!session.closed && session.waits_for == 0 && !session.lines.empty()) {
    const auto command = parse_command(session.lines.front());
    session.lines.pop_front();
    log_.line("Cmd:" + command.line);
    execute(session, command);
  }
  if (session.closed || !session.ending || session.waits_for != 0) return;
  log_.line("UI closed");
  send_status(session.fd.get(), 0);
  session.closed = true;
}

void ControlDaemon::reply(Session& session, const std::string& text, const std::string& log_only) {
  log_.lines(log_only);
  log_.lines(text);
  if (!send_text(session.fd.get(), text)) session.closed = true;
}

void ControlDaemon::ask(Session& session, Server& server, const std::string& what,
                        std::map<std::string, std::string> fields) {
  const std::int64_t id = next_question_++;
  fields["id"] = std::to_string(id);
  fields["what"] = what;
  if (!send_message(server.channel.get(), {"ask", std::move(fields)})) {
    reply(session, "Server " + std::to_string(server.pid) + " not found\n");
    return;
  }
  questions_[id] = server.pid;
  session.waits_for = id;
}

bool ControlDaemon::allowed(const Session& session, CommandKind kind) const {
  const bool owner = session.peer.uid == 0 || session.peer.uid == owner_;
  switch (right_needed(kind)) {
    case Right::kAnyone:
      return true;
    case Right::kOwner:
      return owner;
    case Right::kOwnerDefault:
    case Right::kQuit:
      return owner && session.privileged;
  }
  return false;
}

void ControlDaemon::execute(Session& session, const ControlCommand& command) {
  if (command.kind == CommandKind::kUnknown) {
    return reply(session, "Unknown command \"" + command.name + "\"\n");
  }
  if (!allowed(session, command.kind)) return reply(session, refusal(command.kind, session.peer.uid));
  switch (command.kind) {
    case CommandKind::kGetServerList: {
      std::string text;
      for (const auto& server : servers_) {
        if (server->pid != 0) text += std::to_string(server->pid) + "\n";
      }
      return reply(session, text);
    }
    case CommandKind::kStartServer: {
      if (command.args.size() < 2 || command.args[0] != "-uid") {
        return reply(session, "A user id (UID) is required to start a new server\n");
      }
      const auto uid = options_.multi_user ? owner_ : static_cast<uid_t>(loose_number(command.args[1]));
      if (servers_.empty()) start_server(uid);
      return reply(session, "");
    }
    case CommandKind::kQuit:
      return quit(session, command);
    case CommandKind::kSetDefaultThreads:
    case CommandKind::kGetDefaultThreads:
    case CommandKind::kSetDefaultMemory:
    case CommandKind::kGetDefaultMemory:
    case CommandKind::kSetDefaultPriority:
    case CommandKind::kGetDefaultPriority:
      return execute_default(session, command);
    default:
      return execute_on_server(session, command);
  }
}

// The command client waits until the daemon has exited; without -t that is when the last client has disconnected.
void ControlDaemon::quit(Session& session, const ControlCommand& command) {
  quitting_ = true;
  session.quits = true;
  session.waits_for = -1;
  const auto option = std::ranges::find(command.args, "-t");
  if (option != command.args.end() && option + 1 != command.args.end()) {
    const std::int64_t seconds = std::clamp<std::int64_t>(loose_number(*(option + 1)), 0, 1'000'000);
    log_.line("quit command issued with timeout of " + std::to_string(seconds));
    const auto now = std::chrono::steady_clock::now().time_since_epoch();
    quit_by_ns_ = std::chrono::duration_cast<std::chrono::nanoseconds>(now).count() + seconds * 1'000'000'000;
  }
  for (const auto& server : servers_) {
    if (server->pid != 0) shut_down(*server, false);
  }
}

void ControlDaemon::execute_default(Session& session, const ControlCommand& command) {
  switch (command.kind) {
    case CommandKind::kSetDefaultThreads: {
      const auto value = parse_percentage(argument(command, 0));
      if (value) options_.threads = *value;
      return reply(session, percentage_text(options_.threads) + "\n",
                   value ? "" : "Invalid percentage, expected between (0.0, 100.0]");
    }
    case CommandKind::kGetDefaultThreads:
      return reply(session, percentage_text(options_.threads) + "\n");
    case CommandKind::kSetDefaultMemory: {
      if (command.args.size() < 2) return reply(session, "", "Invalid command format.");
      options_.memory.set(command.args[0], parse_daemon_memory(command.args[1]));
      return reply(session, "", command.name + " " + command.args[0] + " " + command.args[1] + ".");
    }
    case CommandKind::kGetDefaultMemory: {
      if (command.args.empty()) return reply(session, "", "Invalid command format.");
      const auto bytes = options_.memory.get(command.args[0]);
      return reply(session, bytes ? memory_text(*bytes) + "\n" : "",
                   bytes ? "" : "No default pinned memory limit set for the device!");
    }
    case CommandKind::kSetDefaultPriority: {
      const std::string value = argument(command, 0);
      if (value != "0" && value != "1") return reply(session, "Invalid priority value - must be 0 or 1!\n");
      priority_ = value == "1" ? 1 : 0;
      return reply(session, "");
    }
    default:
      return reply(session, std::to_string(priority_) + "\n");
  }
}

std::string ControlDaemon::device_query(bool csv) const {
  std::vector<QueriedDevice> devices;
  for (std::size_t i = 0; i < devices_.size(); ++i) {
    const auto& properties = devices_[i].properties;
    devices.push_back({static_cast<int>(i), properties.pci_bus_id, properties.uuid, properties.name});
  }
  std::string text = device_table("Default", devices, csv);
  for (const auto& server : servers_) {
    if (server->pid != 0) text += "\n" + device_table("Server " + std::to_string(server->pid), devices, csv);
  }
  return text;
}

// The server that the command's first argument names; nullptr, with the daemon's message, if there is none.
ControlDaemon::Server* ControlDaemon::server_named(const ControlCommand& command, std::string* missing) {
  const auto pid = loose_number(argument(command, 0));
  for (const auto& server : servers_) {
    if (server->pid != 0 && server->pid == pid) return server.get();
  }
  *missing = "Server " + std::to_string(pid) + " not found\n";
  return nullptr;
}

void ControlDaemon::execute_on_server(Session& session, const ControlCommand& command) {
  std::string missing;
  if (command.kind == CommandKind::kDeviceQuery) return reply(session, device_query(has_option(command, "--csv")));
  if (command.kind == CommandKind::kPs || command.kind == CommandKind::kGetDeviceClientList) {
    // Without a pid: the only server.
    const bool is_ps = command.kind == CommandKind::kPs;
    ControlCommand named = command;
    if (is_ps && argument(command, 0) == "-p") named.args.erase(named.args.begin());
    Server* server =
        named.args.empty() ? (servers_.empty() ? nullptr : servers_.front().get()) : server_named(named, &missing);
    if (server != nullptr) return ask(session, *server, is_ps ? "ps" : "devices");
    if (named.args.empty()) return reply(session, is_ps ? "Server not found\n" : "");
    return reply(session, is_ps ? missing + missing + "\n" : missing);
  }
  if (command.kind == CommandKind::kGetServerStatus && command.args.empty()) {
    return reply(session, "A server PID is required\n");
  }
  Server* server = server_named(command, &missing);
  if (server == nullptr) {
    if (command.kind != CommandKind::kTerminateClient) return reply(session, missing);
    missing.pop_back();
    return reply(session, missing + "\n" + missing + "!\n1\n");
  }
  switch (command.kind) {
    case CommandKind::kGetServerStatus:
      return server->ready ? ask(session, *server, "status") : reply(session, "INITIALIZING\n");
    case CommandKind::kGetClientList:
      return ask(session, *server, "clients");
    case CommandKind::kGetThreads:
      return ask(session, *server, "threads");
    case CommandKind::kSetThreads:
      return ask(session, *server, "set_threads", {{"value", argument(command, 1)}});
    case CommandKind::kGetMemory:
      return ask(session, *server, "memory", {{"key", argument(command, 1)}});
    case CommandKind::kSetMemory:
      return ask(session, *server, "set_memory", {{"key", argument(command, 1)}, {"value", argument(command, 2)}});
    case CommandKind::kTerminateClient:
      return ask(session, *server, "terminate", {{"pid", std::to_string(loose_number(argument(command, 1)))}});
    case CommandKind::kShutdownServer:
      server->forced = has_option(command, "-f");
      shut_down(*server, false);
      return reply(session, "");
    default:
      return reply(session, "");
  }
}

}  // namespace tranche::sim
