#pragma once
// Where the API server is and how this node authenticates: from a kubeconfig file, or from a pod's service account.
// Parsing is pure and does not read the files that it refers to: kube/client opens them when it connects, because
// tokens and certificates are replaced while the program runs. Never print this value: it may hold a token.
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/problem.h"
#include "config/resolve.h"
#include "kube/url.h"

namespace tranche::kube {

// A certificate, key or list of authorities: its text or the file with it; absent if both are empty.
struct Material {
  std::string pem;
  std::string file;
  bool given() const { return !pem.empty() || !file.empty(); }
  friend bool operator==(const Material&, const Material&) = default;
};

struct Access {
  Server server;
  Material authorities;  // absent: the system's trusted authorities
  Material certificate;
  Material key;
  std::string token;       // used if there is no file
  std::string token_file;  // read again when it changes
  std::string tls_server_name;
  bool insecure = false;  // do not verify the server's certificate
  std::string proxy;      // "" = none, whatever the environment sets
  std::string source;     // for people: the file, or "the service account of this pod"
  friend bool operator==(const Access&, const Access&) = default;
};

struct ParsedKubeconfig {
  std::optional<Access> access;  // absent if one of the problems is an error
  std::vector<Problem> problems;
};

// `source` is the path for messages; relative paths in the file are resolved against `directory`. Credential plugins
// are not run: a user that needs one is a Problem.
ParsedKubeconfig parse_kubeconfig(std::string_view text, std::string_view source, std::string_view directory);

inline constexpr const char* kServiceAccountFolder = "/var/run/secrets/kubernetes.io/serviceaccount";

// kNotFound, with the reason, if this process is not in a pod with access to the API server. `is_file` returns whether
// a path can be read.
Result<Access> access_in_pod(const config::Environment& environment,
                             const std::function<bool(const std::string& path)>& is_file,
                             const std::string& folder = kServiceAccountFolder);

}  // namespace tranche::kube
