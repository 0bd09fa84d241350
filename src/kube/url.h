#pragma once
// URLs of an API server and its objects. Pure.
#include <string>
#include <string_view>

#include "base/result.h"

namespace tranche::kube {

struct Server {
  bool tls = true;
  std::string host;  // without brackets
  std::string port;
  std::string path;  // "" or "/prefix", without a trailing slash

  std::string url() const;          // "https://[fd00::1]:6443/prefix"
  std::string host_in_url() const;  // "[fd00::1]"
  friend bool operator==(const Server&, const Server&) = default;
};

// "https://host[:port][/prefix]"; http is accepted only for loopback, because the token would be sent unencrypted. The
// error's text continues a sentence that begins with the name of the setting.
Result<Server> parse_server(std::string_view text);

// For one value in a query, or one segment of a path.
std::string percent_encoded(std::string_view text);

}  // namespace tranche::kube
