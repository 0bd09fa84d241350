#include "kube/access.h"

#include <fmt/format.h>
#include <yaml-cpp/binary.h>

#include <algorithm>
#include <cstdint>
#include <ctime>
#include <nlohmann/json.hpp>

#include "base/json_text.h"
#include "base/text.h"

namespace tranche::kube {
namespace {

constexpr std::int64_t kLast = 9'000'000'000;  // seconds since 1970: a WallTime ends in 2262

// RFC 3339; a fraction of a second is ignored.
std::optional<WallTime> time_of(const std::string& text) {
  tm parts{};
  const char* rest = ::strptime(text.c_str(), "%Y-%m-%dT%H:%M:%S", &parts);
  if (rest != nullptr && *rest == '.')
    while (*++rest >= '0' && *rest <= '9') continue;
  if (rest != nullptr) rest = ::strptime(rest, "%z", &parts);
  if (rest == nullptr || *rest != '\0') return std::nullopt;
  const auto offset = parts.tm_gmtoff;  // timegm() overwrites it
  return WallTime{} + std::chrono::seconds(std::clamp<std::int64_t>(::timegm(&parts) - offset, 0, kLast));
}

bool is_loopback(std::string_view host) {
  return host == "localhost" || host == "[::1]" || (host.starts_with("127.") && !host.ends_with('.'));
}

bool is_host(std::string_view host) {
  const bool in_brackets = host.starts_with('[');
  if (in_brackets) host = host.substr(1, host.size() - 2);
  return !host.empty() && std::ranges::all_of(host, [in_brackets](char c) {
    return is_alnum(c) || c == '.' || c == '-' || c == '_' || (in_brackets && (c == ':' || c == '%'));
  });
}

std::unexpected<Error> refused(std::string what) {
  return fail(Kind::kInvalid, std::move(what));
}

}  // namespace

std::string Server::url() const {
  return fmt::format("{}://{}:{}{}", tls ? "https" : "http", host, port, path);
}

Result<Server> parse_server(std::string_view text) {
  Server server;
  server.tls = !text.starts_with("http://");
  if (server.tls && !text.starts_with("https://"))
    return refused("must begin with https://, but is " + in_quotes(text));
  const auto rest = text.substr(server.tls ? 8 : 7);
  const auto slash = std::min(rest.find('/'), rest.size());
  const auto authority = rest.substr(0, slash);
  std::string_view path = rest.substr(slash);
  while (path.ends_with('/')) path.remove_suffix(1);
  const bool in_brackets = authority.starts_with('[');
  const auto end = authority.find(in_brackets ? ']' : ':');
  if (in_brackets && end == authority.npos) return refused("has a bracket without its end: " + in_quotes(text));
  const auto host = authority.substr(0, in_brackets ? end + 1 : end);
  auto port = authority.substr(host.size());
  if (!is_host(host)) return refused("names no host: " + in_quotes(text));
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
  for (const char c : text)
    out += is_alnum(c) || std::string_view("-._~").contains(c) ? std::string(1, c)
                                                               : fmt::format("%{:02X}", static_cast<unsigned char>(c));
  return out;
}

// The variables and files are those that kubelet gives every pod with a service account (Kubernetes' documentation,
// "Accessing the Kubernetes API from a Pod"). The host may be an IPv6 address without brackets.
Result<Access> access_in_pod(const config::Environment& environment,
                             const std::function<bool(const std::string& path)>& is_file, const std::string& folder) {
  const std::string host = config::variable(environment, "KUBERNETES_SERVICE_HOST");
  std::string port = config::variable(environment, "KUBERNETES_SERVICE_PORT");
  if (host.empty()) return fail(Kind::kNotFound, "not in a pod, and no kubeconfig was named (--kubeconfig)");
  if (port.empty()) port = "443";
  Access access;
  access.token_file = folder + "/token";
  if (!is_file(access.token_file))
    return fail(Kind::kNotFound, "this pod has no service account token (automountServiceAccountToken)",
                access.token_file);
  const bool bare_ipv6 = host.find(':') != std::string::npos && !host.starts_with('[');
  const std::string url = "https://" + (bare_ipv6 ? "[" + host + "]" : host) + ":" + port;
  auto server = parse_server(url);
  if (server && !server->path.empty()) server = fail(Kind::kInvalid, "is none: " + url);
  if (!server)
    return std::unexpected(
        within(std::move(server).error(), "the address of $KUBERNETES_SERVICE_HOST and $KUBERNETES_SERVICE_PORT"));
  access.server = *std::move(server);
  access.authorities.file = folder + "/ca.crt";
  if (!is_file(access.authorities.file))
    return fail(Kind::kNotFound, "this pod has no certificate authority for the API server", access.authorities.file);
  access.source = "the service account of this pod";
  return access;
}

std::optional<std::string> base64_decoded(std::string_view text) {
  std::string packed(text);
  std::erase_if(packed, [](char c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; });
  // Bytes above ASCII are beyond the reader's table.
  if (std::ranges::any_of(packed, [](char c) { return static_cast<unsigned char>(c) > '~'; })) return std::nullopt;
  const auto bytes = YAML::DecodeBase64(packed);
  std::string decoded(bytes.begin(), bytes.end());
  return base64_encoded(decoded) == packed ? std::optional(std::move(decoded)) : std::nullopt;
}

std::string base64_encoded(std::string_view bytes) {
  return YAML::EncodeBase64(reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
}

bool is_token(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return c > ' ' && c <= '~'; });
}

// --- the protocol of credential programs ---------------------------------------------------------------------------
// https://kubernetes.io/docs/reference/access-authn-authz/authentication/#client-go-credential-plugins

std::string credential_request(const Access& access, const CredentialProgram& program, bool interactive) {
  nlohmann::ordered_json spec{{"interactive", interactive}};
  if (program.cluster_info) {
    auto& cluster = spec["cluster"] = {{"server", access.server.url()}};
    if (!access.tls_server_name.empty()) cluster["tls-server-name"] = access.tls_server_name;
    if (access.insecure) cluster["insecure-skip-tls-verify"] = true;
    if (!access.authorities.pem.empty()) cluster["certificate-authority-data"] = base64_encoded(access.authorities.pem);
    if (!access.proxy.empty()) cluster["proxy-url"] = access.proxy;
  }
  return json_text(nlohmann::ordered_json{
      {"apiVersion", program.api_version}, {"kind", "ExecCredential"}, {"spec", std::move(spec)}});
}

Status read_credential(std::string_view printed, const CredentialProgram& program, Access& access) {
  const auto json = json_of(printed);
  if (text_at(json, "kind") != "ExecCredential" || text_at(json, "apiVersion") != program.api_version)
    return fail(Kind::kInvalid, "it did not print an ExecCredential of " + program.api_version);
  const auto& status = member_at(json, "status");
  const auto token = text_at(status, "token");
  const auto certificate = text_at(status, "clientCertificateData");
  const auto key = text_at(status, "clientKeyData");
  if (token.empty() && certificate.empty())
    return fail(Kind::kInvalid, "its ExecCredential has neither a token nor a client certificate");
  if (certificate.empty() != key.empty())
    return fail(Kind::kInvalid, "its ExecCredential has a client certificate without its key, or the other way round");
  if (!is_token(token)) return fail(Kind::kInvalid, "the token of its ExecCredential has characters that no token has");
  const auto expires = text_at(status, "expirationTimestamp");
  access.expires = time_of(expires);
  if (!expires.empty() && !access.expires)
    return fail(Kind::kInvalid, "its ExecCredential expires at " + in_quotes(expires) + ", which is not a time");
  access.token = token;
  if (!certificate.empty()) access.certificate = {certificate, ""};
  if (!key.empty()) access.key = {key, ""};
  return {};
}

}  // namespace tranche::kube
