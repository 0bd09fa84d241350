#pragma once
// Interface version 3 of nvidia-cuda-mps-control (release 615): one run of the program for each command, with arguments
// in and a CSV table out. Written from NVIDIA's manual; not tested on hardware. Pure; fuzzed.
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/units.h"

namespace tranche::mps::v3 {

using Arguments = std::vector<std::string>;  // without the program's name

// Names of servers and namespaces are [a-z0-9_], at most 64: grants and pools fit once "-" is "_". kInvalid for what
// cannot be made to fit, so that two names never become one: "_" itself is refused.
Result<std::string> encoded_name(std::string_view name);

struct Limits {
  std::optional<Bytes> memory;     // whole MiB
  std::optional<Percent> threads;  // whole percent, rounded down, at least 1
  friend bool operator==(const Limits&, const Limits&) = default;
};
struct WantedNamespace {
  std::string name;  // a grant's
  Limits limits;
  friend bool operator==(const WantedNamespace&, const WantedNamespace&) = default;
};
inline constexpr const char* kServer = "pool";  // the one server of a pool's daemon
inline constexpr const char* kDefaultNamespace = "default";
Percent whole_percent(Percent threads);  // in the unit of a namespace

Arguments create_server(const std::string& name,
                        const std::vector<std::string>& uuids);       // owned by root; no UUIDs = all devices
Arguments set_server(const std::string& name, const Limits& limits);  // of its default namespace only
Arguments list_servers();
Arguments create_namespace(const std::string& server, const std::string& name);
Arguments set_namespace(const std::string& server, const std::string& name, const Limits& limits);
Arguments delete_namespace(const std::string& server, const std::string& name);
Arguments list_namespaces(const std::string& server);
Arguments list_clients();
Arguments quit();

struct Server {
  std::string name;
  int pid = 0;
  std::string status;  // "Ready"
  friend bool operator==(const Server&, const Server&) = default;
};
struct Namespace {
  std::string name, server;
  std::optional<Bytes> memory;
  std::optional<Percent> threads;
  std::string pipe;
  friend bool operator==(const Namespace&, const Namespace&) = default;
};
struct Client {
  int pid = 0;
  std::string server, name_space;
  friend bool operator==(const Client&, const Client&) = default;
};
// Finds columns by their names in the heading, in any order; unknown columns are ignored. A row whose number of fields
// differs from the heading is refused.
Result<std::vector<Server>> parse_servers(std::string_view csv);
Result<std::vector<Namespace>> parse_namespaces(std::string_view csv);
Result<std::vector<Client>> parse_clients(std::string_view csv);

// "" when the namespace holds the limits that were set.
std::string disagreement(const Limits& expected, const Namespace& read);

}  // namespace tranche::mps::v3
