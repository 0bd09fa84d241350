// Interface version 3: named servers, their namespaces with sockets and limits of their own, and their clients.
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "standins/mps/control_daemon.h"
#include "standins/mps/v3.h"

namespace tranche::sim {
namespace {

constexpr const char* kDefault = "default";

std::string first(const V3Command& command) {
  return command.words.empty() ? std::string() : command.words.front();
}

std::vector<std::string> pieces(const std::string& list) {
  std::vector<std::string> out;
  for (std::size_t at = 0; at < list.size();) {
    const auto end = std::min(list.find(',', at), list.size());
    out.push_back(list.substr(at, end - at));
    at = end + 1;
  }
  return out;
}

}  // namespace

ControlDaemon::Server* ControlDaemon::server_called(const std::string& name) {
  for (const auto& server : servers_) {
    if (server->pid != 0 && !server->forced && server->name == name) return server.get();
  }
  return nullptr;
}

ControlDaemon::Namespace* ControlDaemon::namespace_called(const std::string& server, const std::string& name) {
  const auto found =
      std::ranges::find_if(namespaces_, [&](const auto& one) { return one->server == server && one->name == name; });
  return found == namespaces_.end() ? nullptr : found->get();
}

// A server's own directory is its default namespace.
bool ControlDaemon::open_namespace(const std::string& server, const std::string& name) {
  auto made = std::make_unique<Namespace>();
  made->server = server;
  made->name = name;
  made->directory = options_.pipe_directory + "/" + server + (name == kDefault ? "" : "/" + name);
  ::mkdir(made->directory.c_str(), 0755);
  made->listener = listen_at(made->directory + "/control", 0666);
  if (!made->listener.valid()) return false;
  namespaces_.push_back(std::move(made));
  return true;
}

void ControlDaemon::close_namespace(const Namespace& one) {
  ::unlink((one.directory + "/control").c_str());
  ::rmdir(one.directory.c_str());
  std::erase_if(namespaces_, [&](const auto& other) { return other.get() == &one; });
}

// The server of a client: by the socket that it connected through; through the daemon's own, a server of its user.
ControlDaemon::Server* ControlDaemon::v3_server_for(Session& session) {
  if (session.server.empty()) {
    session.server = "uid_" + std::to_string(session.peer.uid);
    session.name_space = kDefault;
    if (server_called(session.server) == nullptr) v3_create_server(session.server, session.peer.uid, {});
  }
  return server_called(session.server);
}

bool ControlDaemon::v3_create_server(const std::string& name, uid_t uid, const std::vector<std::string>& devices) {
  if (!open_namespace(name, kDefault)) return false;
  Server* server = start_server(uid, devices);
  if (server == nullptr) return false;
  server->name = name;
  return true;
}

void ControlDaemon::v3_reply(Session& session, const std::string& text, bool failed) {
  log_.lines(text);
  session.failed |= failed;
  if (!send_text(session.fd.get(), text)) session.closed = true;
}

void ControlDaemon::execute_v3(Session& session, const std::string& line) {
  const auto command = parse_v3(line);
  const auto refuse = [&](const std::string& why) { v3_reply(session, why + "\n", true); };
  const bool reads = command.verb == "list" || command.verb == "get" || command.verb == "describe";
  if (!reads && session.peer.uid != 0 && session.peer.uid != owner_)
    return refuse("Insufficient privileges: " + command.module + " " + command.verb + " requires server owner");
  if (command.module == "quit")
    return quit(session, {.kind = CommandKind::kQuit, .line = line, .name = "quit", .args = {}});
  if (command.module == "server") return execute_server_v3(session, command);
  if (command.module == "namespace") return execute_namespace_v3(session, command);
  if (command.module == "client") return execute_client_v3(session, command);
  refuse("Unknown module \"" + command.module + "\"");
}

void ControlDaemon::execute_server_v3(Session& session, const V3Command& command) {
  const auto refuse = [&](const std::string& why) { v3_reply(session, why + "\n", true); };
  const std::string name = first(command);
  if (command.verb == "list") {
    std::vector<std::vector<std::string>> rows;
    for (const auto& one : servers_) {
      if (one->pid == 0 || (!name.empty() && one->name != name)) continue;
      rows.push_back({one->name, std::to_string(one->uid), std::to_string(one->pid), one->ready ? "Ready" : "Starting",
                      options_.pipe_directory + "/" + one->name, one->devices, ""});
    }
    return v3_reply(session,
                    v3_table({"name", "uid", "pid", "status", "pipe-directory", "allowed-devices", "context-ids"}, rows,
                             command.option("format")));
  }
  if (command.verb == "create") {
    if (!is_v3_name(name)) return refuse("Invalid server name \"" + name + "\"");
    if (server_called(name) != nullptr) return refuse("Server " + name + " already exists");
    const auto uid = command.has("uid") ? static_cast<uid_t>(loose_number(command.option("uid"))) : session.peer.uid;
    if (options_.multi_user && uid != 0) return refuse("Only --uid=0 is allowed in multiuser mode");
    if (!v3_create_server(name, uid, pieces(command.option("allowed-devices"))))
      return refuse("Server " + name + " cannot be created");
    return v3_reply(session, "");
  }
  Server* server = server_called(name);
  if (server == nullptr) return refuse("Server " + name + " not found");
  if (command.verb == "set") return set_namespace_v3(session, *namespace_called(name, kDefault), command);
  if (command.verb == "delete") {
    if (!server->v3_clients.empty() && !command.has("force")) return refuse("Server " + name + " has clients");
    server->forced = command.has("force");
    shut_down(*server, false);
    return v3_reply(session, "");
  }
  refuse("Unknown verb \"" + command.verb + "\"");
}

void ControlDaemon::execute_namespace_v3(Session& session, const V3Command& command) {
  const auto refuse = [&](const std::string& why) { v3_reply(session, why + "\n", true); };
  const std::string name = first(command), server = command.option("server");
  if (command.verb == "list") {
    std::vector<std::vector<std::string>> rows;
    for (const auto& one : namespaces_) {
      if ((!server.empty() && one->server != server) || (!name.empty() && one->name != name)) continue;
      rows.push_back({one->name, one->server, "Ready", one->memory ? v3_size_text(*one->memory) : "",
                      one->threads ? std::to_string(static_cast<int>(*one->threads)) : "", "0", one->directory});
    }
    return v3_reply(session, v3_table({"name", "server", "server-status", "pinned-memory-limit",
                                       "active-thread-percentage", "client-priority", "pipe-directory"},
                                      rows, command.option("format")));
  }
  if (server_called(server) == nullptr) return refuse("Server " + server + " not found");
  Namespace* one = namespace_called(server, name);
  if (command.verb == "create") {
    if (!is_v3_name(name)) return refuse("Invalid namespace name \"" + name + "\"");
    if (one != nullptr) return refuse("Namespace " + name + " already exists");
    if (!open_namespace(server, name)) return refuse("Namespace " + name + " cannot be created");
    return v3_reply(session, "");
  }
  if (one == nullptr) return refuse("Namespace " + name + " not found");
  if (command.verb == "set") return set_namespace_v3(session, *one, command);
  if (command.verb == "delete") {
    if (has_clients_v3(*one) && !command.has("force")) return refuse("Namespace " + name + " has clients");
    close_namespace(*one);
    return v3_reply(session, "");
  }
  refuse("Unknown verb \"" + command.verb + "\"");
}

bool ControlDaemon::has_clients_v3(const Namespace& one) {
  const Server* server = server_called(one.server);
  return server != nullptr &&
         std::ranges::any_of(server->v3_clients, [&](const auto& client) { return client.second == one.name; });
}

void ControlDaemon::set_namespace_v3(Session& session, Namespace& one, const V3Command& command) {
  const auto refuse = [&](const std::string& why) { v3_reply(session, why + "\n", true); };
  if (has_clients_v3(one)) return refuse("Namespace " + one.name + " has clients");
  const auto memory = v3_size(command.option("pinned-memory-limit"));
  const auto threads = v3_percentage(command.option("active-thread-percentage"));
  if (command.has("pinned-memory-limit") && !memory) return refuse("Invalid pinned-memory-limit");
  if (command.has("active-thread-percentage") && !threads) return refuse("Invalid active-thread-percentage");
  if (memory) one.memory = memory;
  if (threads) one.threads = threads;
  v3_reply(session, "");
}

void ControlDaemon::execute_client_v3(Session& session, const V3Command& command) {
  const auto refuse = [&](const std::string& why) { v3_reply(session, why + "\n", true); };
  if (command.verb == "list") {
    std::vector<std::vector<std::string>> rows;
    for (const auto& server : servers_) {
      if (server->pid == 0 || (command.has("server") && server->name != command.option("server"))) continue;
      for (const auto& [pid, name_space] : server->v3_clients)
        rows.push_back({std::to_string(pid), server->name, server->devices, name_space, "client"});
    }
    return v3_reply(session,
                    v3_table({"pid", "server", "device", "namespace", "command"}, rows, command.option("format")));
  }
  if (command.verb != "terminate") return refuse("Unknown verb \"" + command.verb + "\"");
  const auto pid = static_cast<pid_t>(loose_number(first(command)));
  for (const auto& server : servers_) {
    if (server->pid == 0 || !server->v3_clients.contains(pid)) continue;
    return ask(session, *server, "terminate", {{"pid", std::to_string(pid)}});
  }
  refuse("Client " + first(command) + " not found");
}

}  // namespace tranche::sim
