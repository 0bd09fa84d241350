#include "kube/client/find_access.h"

#include <unistd.h>

#include "os/files/files.h"

namespace tranche::host {
namespace {

std::string folder_of(const std::string& path) {
  const auto slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

Result<kube::Access> access_of_file(const std::string& path, std::vector<Problem>& problems) {
  auto text = read_file(path);
  if (!text) return std::unexpected(within(std::move(text).error(), "the kubeconfig cannot be read (--kubeconfig)"));
  auto parsed = kube::parse_kubeconfig(*text, path, folder_of(path));
  problems.insert(problems.end(), parsed.problems.begin(), parsed.problems.end());
  if (parsed.access) return *std::move(parsed.access);
  for (const auto& problem : parsed.problems)
    if (problem.severity == Severity::kError) return fail(Kind::kInvalid, to_string(problem));
  return fail(Kind::kInvalid, "the kubeconfig cannot be used", path);
}

bool can_read(const std::string& path) {
  return ::access(path.c_str(), R_OK) == 0;
}

}  // namespace

Result<kube::Access> find_access(const std::string& kubeconfig, const config::Environment& environment,
                                 std::vector<Problem>& problems) {
  return kubeconfig.empty() ? kube::access_in_pod(environment, can_read) : access_of_file(kubeconfig, problems);
}

}  // namespace tranche::host
