#include "kube/access.h"

namespace tranche::kube {

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

}  // namespace tranche::kube
