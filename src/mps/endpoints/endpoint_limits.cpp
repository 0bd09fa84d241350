#include "mps/endpoints/endpoint_limits.h"

#include <algorithm>

#include "base/text.h"
#include "os/files/files.h"
#include "os/files/kept.h"

namespace tranche::agent {
namespace {

constexpr mode_t kOursAlone = 0700;
constexpr std::string_view kAnyPod = ".any-pod";
constexpr std::string_view kPod = ".pod";
constexpr std::size_t kLongestFile = 16 << 10;

std::string folder(const allocate::Paths& paths, const std::string& pool) {
  return paths.pool(pool) + "/limits";
}

std::string any_pod_file(const EndpointName& endpoint) {
  return endpoint.grant + std::string(kAnyPod);
}

std::string pod_file(const EndpointName& endpoint) {
  return endpoint.grant + std::string(kPod);
}

// Of a file about a grant.
std::string grant_of(const std::string& file) {
  for (const auto suffix : {kAnyPod, kPod})
    if (file.ends_with(suffix)) return file.substr(0, file.size() - suffix.size());
  return file;
}

}  // namespace

Result<std::optional<mps::GrantLimits>> read_endpoint_limits(const allocate::Paths& paths,
                                                             const EndpointName& endpoint) {
  const auto dir = host::Dir::open(folder(paths, endpoint.pool));
  const auto text = dir ? dir->read(endpoint.grant, kLongestFile) : Result<std::string>(std::unexpected(dir.error()));
  if (!text && text.error().kind == Kind::kNotFound) return std::optional<mps::GrantLimits>{};
  if (!text) return std::unexpected(within(text.error(), "the grant's limits cannot be read"));
  auto limits = mps::parse_limits(*text);
  if (!limits) return std::unexpected(within(limits.error(), "the grant's limits cannot be read"));
  return std::optional(*std::move(limits));
}

Status write_endpoint_limits(const allocate::Paths& paths, const EndpointName& endpoint,
                             const mps::GrantLimits& limits) {
  const auto dir = host::Dir::create(folder(paths, endpoint.pool), kOursAlone);
  if (!dir) return std::unexpected(within(dir.error(), "cannot make the directory of limits"));
  const auto written = host::write_kept(*dir, endpoint.grant, mps::render_limits(limits), 0600, host::Sync::kYes);
  if (!written) return std::unexpected(within(written.error(), "cannot keep the grant's limits"));
  return {};
}

bool kept_for_any_pod(const allocate::Paths& paths, const EndpointName& endpoint) {
  const auto dir = host::Dir::open(folder(paths, endpoint.pool));
  return dir && dir->exists(any_pod_file(endpoint));
}

Status keep_for_any_pod(const allocate::Paths& paths, const EndpointName& endpoint, bool any_pod) {
  if (kept_for_any_pod(paths, endpoint) == any_pod) return {};
  TRY(const auto dir, host::Dir::create(folder(paths, endpoint.pool), kOursAlone));
  return any_pod ? host::write_kept(dir, any_pod_file(endpoint), "", 0600, host::Sync::kYes)
                 : dir.remove_tree(any_pod_file(endpoint));
}

std::string kept_pod(const allocate::Paths& paths, const EndpointName& endpoint) {
  const auto dir = host::Dir::open(folder(paths, endpoint.pool));
  const auto text =
      dir ? dir->read(pod_file(endpoint), kLongestFile) : Result<std::string>(std::unexpected(dir.error()));
  const std::string uid(trimmed(text.value_or("")));
  return is_pod_uid(uid) ? uid : std::string();
}

Status keep_pod(const allocate::Paths& paths, const EndpointName& endpoint, const std::string& uid) {
  if (kept_pod(paths, endpoint) == uid) return {};
  TRY(const auto dir, host::Dir::create(folder(paths, endpoint.pool), kOursAlone));
  return uid.empty() ? dir.remove_tree(pod_file(endpoint))
                     : host::write_kept(dir, pod_file(endpoint), uid + "\n", 0600, host::Sync::kYes);
}

Status remove_endpoint_limits(const allocate::Paths& paths, const EndpointName& endpoint) {
  const auto dir = host::Dir::open(folder(paths, endpoint.pool));
  if (!dir && dir.error().kind == Kind::kNotFound) return {};
  if (!dir) return std::unexpected(dir.error());
  TRY_STATUS(dir->remove_tree(any_pod_file(endpoint)));
  TRY_STATUS(dir->remove_tree(pod_file(endpoint)));
  return dir->remove_tree(endpoint.grant);
}

Status sweep_endpoint_limits(const allocate::Paths& paths, const std::string& pool,
                             const std::vector<std::string>& endpoints) {
  const auto dir = host::Dir::open(folder(paths, pool));
  if (!dir && dir.error().kind == Kind::kNotFound) return {};
  if (!dir) return std::unexpected(dir.error());
  TRY(const auto names, dir->list());
  Status first;
  for (const auto& name : names) {
    const auto grant = grant_of(name);
    if (std::ranges::find(endpoints, grant) != endpoints.end()) continue;
    if (const auto removed = dir->remove_tree(name); !removed && first) first = removed;
  }
  return first;
}

}  // namespace tranche::agent
