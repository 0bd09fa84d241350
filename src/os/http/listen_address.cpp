#include "os/http/listen_address.h"

#include <arpa/inet.h>

#include <limits>

#include "base/text.h"

namespace tranche::os {
namespace {

bool is_ip(int family, const std::string& text) {
  if (text.find('\0') != std::string::npos) return false;  // inet_pton would stop at the NUL
  in6_addr address{};                                      // large enough for both families
  return ::inet_pton(family, text.c_str(), &address) == 1;
}

}  // namespace

Result<ListenAddress> parse_listen_address(std::string_view text) {
  const auto refuse = [&](const std::string& why) {
    return fail(Kind::kInvalid,
                why + "; write an IP address and a port, for example 127.0.0.1:9400, [::1]:9400 or :9400",
                in_quotes(text));
  };
  ListenAddress address;
  const auto colon = text.rfind(':');
  const auto port = parse_unsigned(colon == std::string_view::npos ? text : text.substr(colon + 1));
  if (!port || *port > std::numeric_limits<std::uint16_t>::max()) return refuse("not a port from 0 to 65535");
  address.port = static_cast<std::uint16_t>(*port);
  if (colon == std::string_view::npos || colon == 0) return address;
  auto host = text.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']') && host.size() > 2) {
    address.host = host.substr(1, host.size() - 2);
    if (!is_ip(AF_INET6, address.host)) return refuse("not an IPv6 address");
    return address;
  }
  address.host = host;
  if (!is_ip(AF_INET, address.host)) return refuse("not an IPv4 address");
  return address;
}

std::string to_string(const ListenAddress& address) {
  const bool v6 = address.host.find(':') != std::string::npos;
  return (v6 ? "[" + address.host + "]" : address.host) + ":" + std::to_string(address.port);
}

}  // namespace tranche::os
