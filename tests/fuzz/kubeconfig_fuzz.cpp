// Any text: every problem says what to do; what is accepted leads to a server whose address reads back as itself, and
// has no token that could become a header of its own. The
// same of what a credential program prints.
#include <cstdint>
#include <cstdlib>
#include <string>

#include "kube/access.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tranche;
  using namespace tranche::kube;
  const std::string text(reinterpret_cast<const char*>(data), size);
  Access access;
  access.program = CredentialProgram{"client.authentication.k8s.io/v1", {"aws"}, {}, {}, true, ""};
  const bool credential = read_credential(text, *access.program, access).has_value();
  for (const char c : access.token)
    if (!credential || c <= ' ' || c > '~') std::abort();
  const auto parsed = parse_kubeconfig({{text, "/etc/fuzz"}, {"kind: Config", "second"}});
  for (const auto& problem : parsed.problems)
    if (problem.what.empty() || problem.remedy.empty()) std::abort();
  if (parsed.access.has_value() == has_error(parsed.problems)) std::abort();
  if (!parsed.access) return 0;
  const auto again = parse_server(parsed.access->server.url());
  if (!again || *again != parsed.access->server) std::abort();
  for (const char c : parsed.access->token)
    if (c <= ' ' || c > '~') std::abort();
  return 0;
}
