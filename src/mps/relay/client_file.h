#pragma once
// `<mps-root>/pools/<pool>/clients.txt`: the clients of a pool's relay, for the next start of `tranche mps` while the
// daemon keeps running. It is written before a server can make a context for a connection, so that a crash of this
// program loses no context. The first line names the boot, because pids and pipe numbers are valid for one boot only;
// each further one is a client, its fields separated by tabs. Pure; fuzzed: parse ∘ render is the identity.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tranche::mps {

inline constexpr const char* kClientFile = "clients.txt";

// What ClientTable knows of a client and keeps as it is.
struct KnownClient {
  std::uint64_t started = 0;   // as in /proc/<pid>/stat; 0 = not known
  bool earlier = false;        // than this program: its contexts are not known
  bool has_own = false;        // connection
  unsigned tries = 0;          // to end what keeps it
  int place_with = 0;          // `heir`: the pid that inherited the place that a client has without a context; 0 = none
  std::string grant = {};      // "": of a former tenant
  std::string container = {};  // mps/endpoints/containers.h, container_of(); "": not known
  friend bool operator==(const KnownClient&, const KnownClient&) = default;
};
struct StoredClient : KnownClient {
  int pid = 0;
  std::vector<std::uint32_t> contexts = {};
  std::vector<std::vector<std::string>> connections = {};  // the channels of each; with has_own, that is the first
  friend bool operator==(const StoredClient&, const StoredClient&) = default;
};
struct StoredClients {
  std::string boot;  // "": the file names none, so its clients cannot be used
  std::vector<StoredClient> clients;
  friend bool operator==(const StoredClients&, const StoredClients&) = default;
};

std::string render_clients(const StoredClients& stored);
StoredClients parse_clients(std::string_view text);  // skips lines that it cannot read

}  // namespace tranche::mps
