#include <algorithm>

#include "mps/endpoints/endpoints.h"
#include "os/files/files.h"
#include "os/files/kept.h"

namespace tranche::mps {
namespace {

constexpr mode_t kOursAlone = 0700;
constexpr std::size_t kLongestFile = 16 << 10;

}  // namespace

Result<EndpointTerms> GrantFiles::read(const std::string& grant) const {
  const auto dir = os::Dir::open(folder_);
  const auto text = dir ? dir->read(grant, kLongestFile) : std::unexpected(dir.error());
  if (!text && text.error().kind == Kind::kNotFound) return EndpointTerms{};
  auto terms = text ? parse_terms(*text) : std::unexpected(text.error());
  if (!terms) return std::unexpected(within(terms.error(), "the grant's limits cannot be read"));
  return terms;
}

// Not synced to the disk: a power failure ends the clients too, and kubelet asks for their shares again.
Status GrantFiles::keep(const std::string& grant, const EndpointTerms& terms) const {
  const bool none = terms == EndpointTerms();
  const auto dir = none ? os::Dir::open(folder_) : os::Dir::create(folder_, kOursAlone);
  if (none && !dir && dir.error().kind == Kind::kNotFound) return {};
  const Status kept = !dir   ? Status(std::unexpected(dir.error()))
                      : none ? dir->remove_tree(grant)
                             : os::write_kept(*dir, grant, render_terms(terms), 0600);
  if (!kept) return std::unexpected(within(kept.error(), "cannot keep the grant's limits"));
  return {};
}

Status GrantFiles::sweep(const std::vector<std::string>& endpoints) const {
  const auto dir = os::Dir::open(folder_);
  if (!dir && dir.error().kind == Kind::kNotFound) return {};
  if (!dir) return std::unexpected(dir.error());
  TRY(const auto names, dir->list());
  Status first;
  for (const auto& name : names) {
    if (std::ranges::find(endpoints, name) != endpoints.end()) continue;
    if (const auto removed = dir->remove_tree(name); !removed && first) first = removed;
  }
  return first;
}

}  // namespace tranche::mps
