#include "mps/endpoints/endpoints.h"

#include <algorithm>

#include "base/text.h"
#include "mps/protocol/requests.h"
#include "os/files/files.h"
#include "os/files/kept.h"

namespace tranche::mps {
namespace {

constexpr mode_t kOursAlone = 0700;
constexpr const char* kAnyPod = ".any-pod";
constexpr const char* kPod = ".pod";
constexpr std::size_t kLongestFile = 16 << 10;

// Of a file about a grant.
std::string grant_of(const std::string& file) {
  for (const std::string_view suffix : {kAnyPod, kPod})
    if (file.ends_with(suffix)) return file.substr(0, file.size() - suffix.size());
  return file;
}

}  // namespace

Result<std::string> GrantFiles::read(const std::string& name) const {
  TRY(const auto dir, os::Dir::open(folder_));
  return dir.read(name, kLongestFile);
}

Status GrantFiles::write(const std::string& name, const std::string& text) const {
  TRY(const auto dir, os::Dir::create(folder_, kOursAlone));
  return os::write_kept(dir, name, text, 0600, os::Sync::kYes);
}

Status GrantFiles::remove_file(const std::string& name) const {
  const auto dir = os::Dir::open(folder_);
  if (!dir && dir.error().kind == Kind::kNotFound) return {};
  if (!dir) return std::unexpected(dir.error());
  return dir->remove_tree(name);
}

Result<std::optional<GrantLimits>> GrantFiles::limits(const std::string& grant) const {
  const auto text = read(grant);
  if (!text && text.error().kind == Kind::kNotFound) return std::optional<GrantLimits>{};
  auto limits = text ? parse_limits(*text) : std::unexpected(text.error());
  if (!limits) return std::unexpected(within(limits.error(), "the grant's limits cannot be read"));
  return std::optional(*std::move(limits));
}

Status GrantFiles::write_limits(const std::string& grant, const GrantLimits& limits) const {
  const auto written = write(grant, render_limits(limits));
  if (!written) return std::unexpected(within(written.error(), "cannot keep the grant's limits"));
  return {};
}

bool GrantFiles::any_pod(const std::string& grant) const {
  const auto dir = os::Dir::open(folder_);
  return dir && dir->exists(grant + kAnyPod);
}

std::string GrantFiles::pod(const std::string& grant) const {
  const std::string uid(trimmed(read(grant + kPod).value_or("")));
  return is_pod_uid(uid) ? uid : std::string();
}

// What does not hold any more goes first.
Status GrantFiles::set_pods(const std::string& grant, bool any, const std::string& uid) const {
  if (!any && any_pod(grant)) TRY_STATUS(remove_file(grant + kAnyPod));
  if (pod(grant) != uid) TRY_STATUS(uid.empty() ? remove_file(grant + kPod) : write(grant + kPod, uid + "\n"));
  return any && !any_pod(grant) ? write(grant + kAnyPod, "") : Status();
}

Status GrantFiles::remove(const std::string& grant) const {
  TRY_STATUS(remove_file(grant + kAnyPod));
  TRY_STATUS(remove_file(grant + kPod));
  return remove_file(grant);
}

Status GrantFiles::sweep(const std::vector<std::string>& endpoints) const {
  const auto dir = os::Dir::open(folder_);
  if (!dir && dir.error().kind == Kind::kNotFound) return {};
  if (!dir) return std::unexpected(dir.error());
  TRY(const auto names, dir->list());
  Status first;
  for (const auto& name : names) {
    if (std::ranges::find(endpoints, grant_of(name)) != endpoints.end()) continue;
    if (const auto removed = dir->remove_tree(name); !removed && first) first = removed;
  }
  return first;
}

}  // namespace tranche::mps
