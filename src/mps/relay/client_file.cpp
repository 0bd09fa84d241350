#include "mps/relay/client_file.h"

#include <algorithm>
#include <array>
#include <limits>
#include <optional>

#include "base/text.h"

namespace tranche::mps {
namespace {

constexpr std::size_t kBeforeContainer = 8;                                 // words
constexpr std::array<std::string_view, 3> kKinds{"new", "own", "earlier"};  // by ClientKind
constexpr std::string_view kBoot = "boot ";
constexpr std::string_view kNothing = "-";

bool is_plain(std::string_view text, std::string_view more) {
  return !text.empty() && text != kNothing && std::ranges::all_of(text, [&](char c) {
    return (c > ' ' && c < '\x7f' && c != ',' && c != ';') || more.contains(c);
  });
}

std::string word(std::string_view text) {
  return std::string(is_plain(text, "") ? text : kNothing);
}

// A container's name has single spaces within.
bool is_container(std::string_view text) {
  return is_plain(text, " ,;") && text.front() != ' ' && text.back() != ' ';
}

template <typename List, typename Text>
std::string listed(const List& all, Text text_of) {
  std::string text;
  for (const auto& one : all) {
    const std::string each = text_of(one);
    if (each != kNothing) text += (text.empty() ? "" : ",") + each;
  }
  return text.empty() ? std::string(kNothing) : text;
}

std::string connections_of(const StoredClient& client) {
  std::string text;
  for (const auto& channels : client.connections)
    text += (text.empty() ? "" : ";") + listed(channels, [](const std::string& each) { return word(each); });
  return text.empty() ? std::string(kNothing) : text;
}

std::optional<StoredClient> client_in(std::string_view line) {
  std::array<std::string_view, kBeforeContainer> words;
  for (auto& each : words) {
    const auto end = line.find(' ');
    if (end == std::string_view::npos) return std::nullopt;
    each = line.substr(0, end);
    line.remove_prefix(end + 1);
  }
  const auto pid = parse_unsigned(words[0]);
  const auto started = parse_unsigned(words[1]);
  const auto* const kind = std::ranges::find(kKinds, words[2]);
  const auto tries = parse_unsigned(words[3]);
  const auto heir = parse_unsigned(words[4]);
  if (!heir || *heir > std::numeric_limits<int>::max()) return std::nullopt;
  if (!pid || *pid == 0 || *pid > std::numeric_limits<int>::max() || !started || kind == kKinds.end() || !tries ||
      *tries > std::numeric_limits<std::uint32_t>::max())
    return std::nullopt;
  StoredClient client{.pid = static_cast<std::uint32_t>(*pid),
                      .started = *started,
                      .kind = static_cast<ClientKind>(kind - kKinds.begin()),
                      .tries = static_cast<std::uint32_t>(*tries),
                      .place_with = static_cast<std::uint32_t>(*heir)};
  if (is_plain(words[5], "")) client.grant = words[5];
  for (const auto each : split(words[6], ',')) {
    const auto context = parse_unsigned(each);
    if (context && *context <= std::numeric_limits<std::uint32_t>::max())
      client.contexts.push_back(static_cast<std::uint32_t>(*context));
  }
  if (words[7] != kNothing) {
    for (const auto connection : split(words[7], ';')) {
      auto& channels = client.connections.emplace_back();
      for (const auto each : split(connection, ','))
        if (is_plain(each, "")) channels.emplace_back(each);
    }
    if (client.connections.size() == 1 && client.connections.front().empty()) client.connections.clear();
  }
  if (is_container(line)) client.container = line;
  return client;
}

}  // namespace

std::string render_clients(const StoredClients& stored) {
  std::string text = std::string(kBoot) + word(stored.boot) + '\n';
  for (const auto& client : stored.clients) {
    text += std::to_string(client.pid) + ' ' + std::to_string(client.started) + ' ';
    text += std::string(kKinds[static_cast<std::size_t>(client.kind)]) + ' ' + std::to_string(client.tries) + ' ';
    text += std::to_string(client.place_with) + ' ';
    text += word(client.grant) + ' ';
    text += listed(client.contexts, [](std::uint32_t each) { return std::to_string(each); }) + ' ';
    text += connections_of(client) + ' ';
    text += is_container(client.container) ? client.container : std::string(kNothing);
    text += '\n';
  }
  return text;
}

StoredClients parse_clients(std::string_view text) {
  StoredClients stored;
  for (const auto line : lines_of(text)) {
    if (line.starts_with(kBoot)) {
      const auto boot = line.substr(kBoot.size());
      if (is_plain(boot, "")) stored.boot = boot;
    } else if (auto client = client_in(line)) {
      stored.clients.push_back(*std::move(client));
    }
  }
  return stored;
}

}  // namespace tranche::mps
