// The protocol of credential programs (https://kubernetes.io/docs/reference/access-authn-authz/authentication/
// #client-go-credential-plugins).
#include <algorithm>
#include <ctime>
#include <nlohmann/json.hpp>

#include "base/json_read.h"
#include "base/json_text.h"
#include "base/text.h"
#include "kube/access.h"

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

}  // namespace

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
  if (std::ranges::any_of(token, [](char c) { return c <= ' ' || c > '~'; }))
    return fail(Kind::kInvalid, "the token of its ExecCredential has characters that no token has");
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
