#pragma once
// `<mps-root>/pools/<pool>/clients.txt`: the clients of a pool's relay, for the next start of `tranche mps` while the
// daemon keeps running. It is written before a server can make a context for a connection, so that a crash of this
// program loses no context. The first line is `boot <id>`, because pids and pipe numbers are valid for one boot only.
// Then there is one line for each client:
// `<pid> <start ticks> new|own|earlier <tries> <heir> <grant> <contexts> <connections> <container>`. "-" is an empty
// value, commas separate the values of a list (of a connection: its channels), semicolons the connections, and the
// container is the rest of the line. Pure; fuzzed: parse ∘ render is the identity.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tranche::mps {

inline constexpr const char* kClientFile = "clients.txt";

// What is known of the client's connections: none yet; its own; or only that it had some before an earlier start of
// this program (ClientTable).
enum class ClientKind { kNew, kOwn, kEarlier };
struct StoredClient {
  std::uint32_t pid = 0;
  std::uint64_t started = 0;
  ClientKind kind = ClientKind::kNew;
  std::uint32_t tries = 0;
  std::uint32_t place_with = 0;  // `heir`: the pid of the entry that has this client's place; 0 = none
  std::string grant = {};        // "": of a former tenant
  std::vector<std::uint32_t> contexts = {};
  std::vector<std::vector<std::string>> connections = {};  // the channels of each; with kOwn, the own one is the first
  std::string container = {};
  friend bool operator==(const StoredClient&, const StoredClient&) = default;
};
struct StoredClients {
  std::string boot;  // "": the file names none, so its clients cannot be used
  std::vector<StoredClient> clients;
  friend bool operator==(const StoredClients&, const StoredClients&) = default;
};

// Values that do not fit the format (a space in a channel, a line end) are written as "-".
std::string render_clients(const StoredClients& stored);
StoredClients parse_clients(std::string_view text);  // skips lines with an unknown format

}  // namespace tranche::mps
