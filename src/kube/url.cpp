#include "kube/url.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"

namespace tranche::kube {
namespace {

bool is_loopback(std::string_view host) {
  return host == "localhost" || host == "::1" || (host.starts_with("127.") && !host.ends_with('.'));
}

bool is_host(std::string_view host, bool in_brackets) {
  return !host.empty() && std::ranges::all_of(host, [in_brackets](char c) {
    return is_alnum(c) || c == '.' || c == '-' || c == '_' || (in_brackets && (c == ':' || c == '%'));
  });
}

std::unexpected<Error> refused(std::string what) {
  return fail(Kind::kInvalid, std::move(what));
}

}  // namespace

std::string Server::host_in_url() const {
  return host.find(':') == std::string::npos ? host : "[" + host + "]";
}

std::string Server::url() const {
  return fmt::format("{}://{}:{}{}", tls ? "https" : "http", host_in_url(), port, path);
}

Result<Server> parse_server(std::string_view text) {
  Server server;
  std::string_view rest = text;
  if (rest.starts_with("https://")) {
    rest.remove_prefix(8);
  } else if (rest.starts_with("http://")) {
    server.tls = false;
    rest.remove_prefix(7);
  } else {
    return refused("must begin with https://, but is " + in_quotes(text));
  }
  const auto slash = std::min(rest.find('/'), rest.size());
  std::string_view authority = rest.substr(0, slash);
  std::string_view path = rest.substr(slash);
  while (path.ends_with('/')) path.remove_suffix(1);
  const bool in_brackets = authority.starts_with('[');
  std::string_view host, port;
  if (in_brackets) {
    const auto end = authority.find(']');
    if (end == std::string_view::npos) return refused("has a bracket without its end: " + in_quotes(text));
    host = authority.substr(1, end - 1);
    port = authority.substr(end + 1);
  } else {
    const auto colon = std::min(authority.find(':'), authority.size());
    host = authority.substr(0, colon);
    port = authority.substr(colon);
  }
  if (!is_host(host, in_brackets)) return refused("names no host: " + in_quotes(text));
  if (!port.empty()) {
    const auto number = parse_unsigned(port.substr(1));
    if (!port.starts_with(':') || !number || *number == 0 || *number > 65535)
      return refused("has something else than a port after its host: " + in_quotes(text));
    port.remove_prefix(1);
  }
  if (!std::ranges::all_of(path, [](char c) { return is_alnum(c) || std::string_view("/-._~:%").contains(c); }))
    return refused("has a path that is none: " + in_quotes(text));
  if (!server.tls && !is_loopback(host))
    return refused("is not encrypted, which is taken for this machine's own loopback only: " + in_quotes(text));
  server.host = host;
  server.port = !port.empty() ? std::string(port) : server.tls ? "443" : "80";
  server.path = path;
  return server;
}

std::string percent_encoded(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (is_alnum(c) || std::string_view("-._~").contains(c)) {
      out += c;
    } else {
      out += fmt::format("%{:02X}", static_cast<unsigned char>(c));
    }
  }
  return out;
}

}  // namespace tranche::kube
