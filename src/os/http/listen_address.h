#pragma once
// Private to os/http: parses the address to listen on. Pure.
#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace tranche::os {

struct ListenAddress {
  std::string host;  // an IP address, IPv6 without brackets; "" = every address
  std::uint16_t port = 0;

  friend bool operator==(const ListenAddress&, const ListenAddress&) = default;
};
Result<ListenAddress> parse_listen_address(std::string_view text);
std::string to_string(const ListenAddress& address);  // "127.0.0.1:9400", "[::1]:9400", ":9400"

}  // namespace tranche::os
