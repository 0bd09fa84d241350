#include "mps/control/dialect_v3.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>

#include "base/text.h"
#include "mps/control/v3.h"

namespace tranche::mps {
namespace {

Run one_run(v3::Arguments words) {
  return {.words = std::move(words)};
}

Onward failed(QuestionId id, const Error& error) {
  return Event(QuestionFailed{id, error});
}

// The one state that the manual names, as version 2 spells it.
std::string status_of(const v3::Server& server) {
  return server.status == "Ready" ? "ACTIVE" : "INITIALIZING";
}

// Sends commands that print nothing on success, one after the other.
Onward send(QuestionId id, std::deque<v3::Arguments> commands) {
  if (commands.empty()) return Event(LimitsApplied{id});
  auto first = std::move(commands.front());
  commands.pop_front();
  const std::string what = join(first, " ");
  return Exchange{one_run(std::move(first)), [id, what, commands](const std::string& reply) -> Onward {
                    if (!trimmed(reply).empty())
                      return failed(id,
                                    {Kind::kInvalid, "the control daemon says " + in_quotes(trimmed(reply)), what, 0});
                    return send(id, commands);
                  }};
}

v3::Limits default_limits(const DaemonLimits& limits) {
  v3::Limits most{.memory = std::nullopt, .threads = limits.threads};
  if (!limits.memory.empty()) most.memory = limits.memory.front().second;
  return most;
}

// Sends only the differences: a namespace with clients refuses a command even if it already holds the value.
Onward send_differences(const ApplyLimits& action, const std::vector<v3::Namespace>& present) {
  std::deque<v3::Arguments> commands;
  const auto find = [&](const std::string& name) {
    const auto found = std::ranges::find(present, name, &v3::Namespace::name);
    return found == present.end() ? nullptr : &*found;
  };
  const auto most = default_limits(action.limits);
  if (const auto* own = find(v3::kDefaultNamespace); own == nullptr || !v3::disagreement(most, *own).empty())
    commands.push_back(v3::set_server(v3::kServer, most));
  for (const auto& wanted : action.limits.namespaces) {
    const auto* own = find(wanted.name);
    if (own == nullptr) commands.push_back(v3::create_namespace(v3::kServer, wanted.name));
    if (own == nullptr || !v3::disagreement(wanted.limits, *own).empty())
      commands.push_back(v3::set_namespace(v3::kServer, wanted.name, wanted.limits));
  }
  return send(action.id, std::move(commands));
}

Onward list_and_send(const ApplyLimits& action) {
  return Exchange{one_run(v3::list_namespaces(v3::kServer)), [action](const std::string& reply) -> Onward {
                    const auto present = v3::parse_namespaces(reply);
                    if (!present) return failed(action.id, present.error());
                    return send_differences(action, *present);
                  }};
}

LimitsReadBack read_back(const DaemonLimits& expected, std::vector<v3::Namespace> namespaces) {
  LimitsReadBack read;
  const auto own = std::ranges::find(namespaces, v3::kDefaultNamespace, &v3::Namespace::name);
  if (own != namespaces.end()) {
    // In the format of version 2, in which limits are compared and shown.
    if (const auto held = own->memory) {
      const std::string text =
          *held >= gib(1) ? fmt::format("{}G", held->value >> 30) : fmt::format("{}M", held->in_mib());
      for (const auto& [uuid, memory] : expected.memory) read.memory.emplace_back(uuid, text);
    }
    read.threads = to_string(own->threads.value_or(Percent::whole(100)));
  }
  read.namespaces = std::move(namespaces);
  return read;
}

std::vector<std::string> names_of(const DaemonLimits& limits) {
  std::vector<std::string> names;
  for (const auto& wanted : limits.namespaces) names.push_back(wanted.name);
  return names;
}

std::string first_missing(const std::vector<std::string>& names, const std::vector<v3::Namespace>& present) {
  for (const auto& name : names) {
    if (std::ranges::find(present, name, &v3::Namespace::name) == present.end())
      return "the daemon has no namespace " + name;
  }
  return {};
}

Onward ask_for_clients(Answered so_far) {
  return Exchange{one_run(v3::list_clients()), [so_far = std::move(so_far)](const std::string& list) -> Onward {
                    const auto clients = v3::parse_clients(list);
                    if (!clients) return failed(so_far.id, clients.error());
                    auto answered = so_far;
                    for (const auto& client : *clients) {
                      if (client.server == v3::kServer) answered.servers.front().clients.push_back(client.pid);
                    }
                    return Event(std::move(answered));
                  }};
}

}  // namespace

Exchange delete_namespace(const std::string& name) {
  return std::get<Exchange>(send(0, {v3::delete_namespace(v3::kServer, name)}));
}

std::vector<std::string> V3Dialect::daemon_options(bool multiuser) const {
  std::vector<std::string> options{"-f", "-p", "3"};
  if (multiuser) options.emplace_back("-m");
  return options;
}

Exchange V3Dialect::ask(QuestionId id, const DaemonLimits& desired) const {
  return {one_run(v3::list_servers()), [id, names = names_of(desired)](const std::string& reply) -> Onward {
            const auto servers = v3::parse_servers(reply);
            if (!servers) return failed(id, servers.error());
            const auto own = std::ranges::find(*servers, v3::kServer, &v3::Server::name);
            if (own == servers->end()) return Event(Answered{id, {}, "the daemon has no server for this pool"});
            Answered so_far{id, {{.pid = own->pid, .status = status_of(*own), .clients = {}}}};
            if (names.empty()) return ask_for_clients(std::move(so_far));
            return Exchange{one_run(v3::list_namespaces(v3::kServer)),
                            [id, names, so_far](const std::string& list) -> Onward {
                              const auto namespaces = v3::parse_namespaces(list);
                              if (!namespaces) return failed(id, namespaces.error());
                              auto answered = so_far;
                              answered.missing = first_missing(names, *namespaces);
                              return ask_for_clients(std::move(answered));
                            }};
          }};
}

Exchange V3Dialect::apply(const ApplyLimits& action) const {
  return {one_run(v3::list_servers()), [action](const std::string& reply) -> Onward {
            const auto servers = v3::parse_servers(reply);
            if (!servers) return failed(action.id, servers.error());
            if (std::ranges::find(*servers, v3::kServer, &v3::Server::name) != servers->end())
              return list_and_send(action);
            return Exchange{
                one_run(v3::create_server(v3::kServer, {})), [action](const std::string& output) -> Onward {
                  if (!trimmed(output).empty())
                    return failed(action.id,
                                  {Kind::kInvalid, "the control daemon says " + in_quotes(output), "server create", 0});
                  return list_and_send(action);
                }};
          }};
}

Exchange V3Dialect::read(const ReadLimits& action) const {
  return {one_run(v3::list_namespaces(v3::kServer)), [action](const std::string& reply) -> Onward {
            auto namespaces = v3::parse_namespaces(reply);
            if (!namespaces) return failed(action.id, namespaces.error());
            return Event(LimitsRead{action.id, read_back(action.limits, *std::move(namespaces))});
          }};
}

// A server's limits are its namespaces'; the supervisor never calls this, because ask() reports no server's limits.
Exchange V3Dialect::apply_server(const ApplyServerLimits& action) const {
  return {one_run(v3::list_servers()),
          [id = action.id](const std::string&) -> Onward { return Event(ServerLimitsApplied{id}); }};
}

Run V3Dialect::quit(Duration) const {
  return one_run(v3::quit());
}

}  // namespace tranche::mps
