#pragma once
// Where the API server is and how this node authenticates: from a kubeconfig file, or from a pod's service account.
// Parsing is pure and does not read the files that it refers to: kube/client opens them when it connects, because
// tokens and certificates are replaced while the program runs. Never print this value: it may hold a token.
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/enum_names.h"
#include "base/problem.h"
#include "base/result.h"
#include "base/time.h"
#include "config/resolve.h"

namespace tranche::kube {

struct Server {
  bool tls = true;
  std::string host;  // "[fd00::1]"
  std::string port;
  std::string path;  // "" or "/prefix", without a trailing slash

  std::string url() const;  // "https://[fd00::1]:6443/prefix"
  friend bool operator==(const Server&, const Server&) = default;
};

// "https://host[:port][/prefix]"; http is accepted only for loopback, because the token would be sent unencrypted. The
// error's text continues a sentence that begins with the name of the setting.
Result<Server> parse_server(std::string_view text);

// For one value in a query, or one segment of a path.
std::string percent_encoded(std::string_view text);

// A certificate, key or list of authorities: its text or the file with it; absent if both are empty.
struct Material {
  std::string pem;
  std::string file;
  bool given() const { return !pem.empty() || !file.empty(); }
  friend bool operator==(const Material&, const Material&) = default;
};

// A program of a kubeconfig's user that prints credentials (client.authentication.k8s.io).
struct CredentialProgram {
  enum class Input { kNever, kIfAvailable, kAlways };  // of its standard input, from a person
  std::string api_version;
  std::vector<std::string> argv;  // the program: a path, or a name that is looked up in PATH
  std::map<std::string, std::string> env;
  Input input = Input::kIfAvailable;
  bool cluster_info = false;  // it wants to know the cluster
  std::string install_hint;
  friend bool operator==(const CredentialProgram&, const CredentialProgram&) = default;
};

ENUM_NAMES(CredentialProgram::Input::kAlways, "Never", "IfAvailable", "Always")

struct Access {
  Server server;
  Material authorities;  // absent: the system's trusted authorities
  Material certificate;
  Material key;
  std::string token;       // used if there is no file
  std::string token_file;  // read again when it changes
  std::string tls_server_name;
  bool insecure = false;                     // do not verify the server's certificate
  std::string proxy;                         // "" = none, whatever the environment sets
  std::string source;                        // for people: the files, or "the service account of this pod"
  std::optional<CredentialProgram> program;  // has the credentials, if there is no token
  std::optional<WallTime> expires;           // of what the program printed
  friend bool operator==(const Access&, const Access&) = default;
};

struct ParsedKubeconfig {
  std::optional<Access> access;  // absent if one of the problems is an error
  std::vector<Problem> problems;
};

struct KubeconfigFile {
  std::string text;
  std::string path;
};

// As kubectl merges several files: the first `current-context` applies, and of entries with one name the first.
// Relative paths in a file are resolved against its folder. `context` "" = the current one.
ParsedKubeconfig parse_kubeconfig(const std::vector<KubeconfigFile>& files, const std::string& context = {});

// The value of KUBERNETES_EXEC_INFO for `program`, which is that of `access`. Certificates in files are not named in
// it.
std::string credential_request(const Access& access, const CredentialProgram& program, bool interactive);
// Puts what the program printed into `access`. kInvalid: not an ExecCredential of its version with a token or
// certificate.
Status read_credential(std::string_view printed, const CredentialProgram& program, Access& access);

inline constexpr const char* kServiceAccountFolder = "/var/run/secrets/kubernetes.io/serviceaccount";

// kNotFound, with the reason, if this process is not in a pod with access to the API server. `is_file` returns whether
// a path can be read.
Result<Access> access_in_pod(const config::Environment& environment,
                             const std::function<bool(const std::string& path)>& is_file,
                             const std::string& folder = kServiceAccountFolder);

// Base64 as in kubeconfig files: the standard alphabet, padding required, white space ignored when it is read.
std::optional<std::string> base64_decoded(std::string_view text);
std::string base64_encoded(std::string_view bytes);

// Whether it has only characters that a bearer token can have: a line end would begin another header.
bool is_token(std::string_view text);

}  // namespace tranche::kube
