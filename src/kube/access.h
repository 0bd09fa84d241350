#pragma once
// Where the API server is and how this node proves who it is: from a kubeconfig file, or from what every pod is given.
// Parsing is pure and reads no further file: paths in it are opened by whoever connects (kube/client), since tokens and
// certificates are replaced while we run. Never printed: it may hold a token.
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/problem.h"
#include "config/resolve.h"
#include "kube/url.h"

namespace tranche::kube {

// A certificate, key or list of authorities: its text or the file that holds it; neither means none.
struct Material {
  std::string pem;
  std::string file;
  bool given() const { return !pem.empty() || !file.empty(); }
  friend bool operator==(const Material&, const Material&) = default;
};

struct Access {
  Server server;
  Material authorities;  // none: those that this system trusts
  Material certificate;
  Material key;
  std::string token;       // used when there is no file
  std::string token_file;  // read again when it changes
  std::string tls_server_name;
  bool insecure = false;  // the server's certificate is not looked at
  std::string proxy;      // "" = none, whatever the environment says
  std::string source;     // for people: the file, or "the service account of this pod"
  friend bool operator==(const Access&, const Access&) = default;
};

struct ParsedKubeconfig {
  std::optional<Access> access;  // absent when there is an error among the problems
  std::vector<Problem> problems;
};

// `source` is the path for messages; relative paths in the file are below `directory`. Credential plugins are not run:
// a user that needs one is a Problem.
ParsedKubeconfig parse_kubeconfig(std::string_view text, std::string_view source, std::string_view directory);

inline constexpr const char* kServiceAccountFolder = "/var/run/secrets/kubernetes.io/serviceaccount";

// kNotFound, with the reason, when this process is not in a pod that may talk to the API server. `is_file` says whether
// a path can be read.
Result<Access> access_in_pod(const config::Environment& environment,
                             const std::function<bool(const std::string& path)>& is_file,
                             const std::string& folder = kServiceAccountFolder);

}  // namespace tranche::kube
