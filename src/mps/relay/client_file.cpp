#include "mps/relay/client_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <optional>

#include "base/text.h"

namespace tranche::mps {
namespace {

constexpr std::string_view kBoot = "boot\t";

// "" if it would end a field or a line.
std::string plain(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return c >= ' ' && c <= '~'; }) ? std::string(text) : std::string();
}

std::optional<StoredClient> client_in(std::string_view line) {
  constexpr std::uint64_t kMost = std::numeric_limits<int>::max();
  const auto fields = split(line, '\t');
  if (fields.size() != 10) return std::nullopt;
  bool fits = true;
  const auto number = [&](std::string_view text, std::uint64_t most) {
    const auto value = parse_unsigned(text);
    fits = fits && value && *value <= most;
    return fits ? *value : 0;
  };
  StoredClient client{};
  client.pid = static_cast<int>(number(fields[0], kMost));
  client.started = number(fields[1], std::numeric_limits<std::uint64_t>::max());
  client.earlier = number(fields[2], 1) != 0;
  client.has_own = number(fields[3], 1) != 0;
  client.tries = static_cast<unsigned>(number(fields[4], kMost));
  client.place_with = static_cast<int>(number(fields[5], kMost));
  client.grant = plain(fields[6]);
  for (const auto context : words_of(fields[7]))
    client.contexts.push_back(static_cast<std::uint32_t>(number(context, std::numeric_limits<std::uint32_t>::max())));
  for (const auto connection : split(fields[8], ';')) {
    const auto channels = words_of(connection);
    client.connections.emplace_back(channels.begin(), channels.end());
  }
  if (client.connections.size() == 1 && client.connections.front().empty()) client.connections.clear();
  client.container = plain(fields[9]);
  return fits && client.pid != 0 ? std::optional(client) : std::nullopt;
}

}  // namespace

std::string render_clients(const StoredClients& stored) {
  std::string text = fmt::format("{}{}\n", kBoot, stored.boot);
  for (const auto& client : stored.clients) {
    std::vector<std::string> connections;
    for (const auto& channels : client.connections) connections.push_back(fmt::format("{}", fmt::join(channels, " ")));
    text += fmt::format("{}\t{}\t{:d}\t{:d}\t{}\t{}\t{}\t{}\t{}\t{}\n", client.pid, client.started, client.earlier,
                        client.has_own, client.tries, client.place_with, client.grant, fmt::join(client.contexts, " "),
                        fmt::join(connections, ";"), plain(client.container));
  }
  return text;
}

StoredClients parse_clients(std::string_view text) {
  StoredClients stored;
  for (const auto line : lines_of(text)) {
    if (line.starts_with(kBoot))
      stored.boot = plain(line.substr(kBoot.size()));
    else if (auto client = client_in(line))
      stored.clients.push_back(*std::move(client));
  }
  return stored;
}

}  // namespace tranche::mps
