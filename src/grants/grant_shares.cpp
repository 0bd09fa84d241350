#include "grants/grant_shares.h"

#include <set>

#include "base/text.h"

namespace tranche::grants {
namespace {

constexpr std::string_view kNoTenant = "-";
constexpr std::size_t kWordsOfShare = 7;

std::optional<Percent> percent_of(std::string_view word) {
  const auto number = parse_unsigned(word);
  if (!number || *number > Percent::whole(100).hundredths) return std::nullopt;
  return Percent{static_cast<std::uint32_t>(*number)};
}

void parse_share(std::string_view line, Shares& into) {
  const auto words = words_of(line);
  if (words.size() != kWordsOfShare) return;
  const auto bytes = parse_unsigned(words[4]);
  const auto threads = percent_of(words[5]);
  if (!bytes || !threads) return;
  into[{std::string(words[0]), std::string(words[1])}] = {
      std::string(words[2]),
      std::string(words[3]),
      {*bytes},
      *threads,
      words[6] == kNoTenant ? std::string() : std::string(words[6])};
}

}  // namespace

std::string render_shares(const Shares& shares) {
  std::string text;
  for (const auto& [key, share] : shares) {
    text += key.first + ' ' + key.second + ' ' + share.pool + ' ' + share.resource + ' ' +
            std::to_string(share.memory.value) + ' ' + std::to_string(share.threads.hundredths) + ' ' +
            (share.tenant.empty() ? std::string(kNoTenant) : share.tenant) + '\n';
  }
  return text;
}

Shares parse_shares(std::string_view text) {
  Shares shares;
  for (const std::string_view line : lines_of(text)) parse_share(line, shares);
  return shares;
}

void join_grants(Shares& shares, const std::vector<TenantGrant>& held) {
  std::map<std::string, std::string> pool_of;
  for (const auto& [key, share] : shares) pool_of.try_emplace(key.first, share.pool);
  std::map<std::pair<std::string, std::string>, std::set<std::string>> groups;  // container, pool
  for (const auto& [container, grant] : held) {
    if (const auto pool = pool_of.find(grant); pool != pool_of.end()) groups[{container, pool->second}].insert(grant);
  }
  for (const auto& [key, grants] : groups) {
    for (auto& [on, share] : shares) {
      if (grants.contains(on.first)) {
        share.tenant = *grants.begin();
      } else if (share.tenant == *grants.begin()) {  // kubelet does not list it there any more
        share.tenant = on.first;
      }
    }
  }
}

void part_grant(Shares& shares, const std::string& grant) {
  std::set<std::string> tenants{grant};
  for (const auto& [key, share] : shares)
    if (key.first == grant && !share.tenant.empty()) tenants.insert(share.tenant);
  for (auto& [key, share] : shares) {
    if (key.first == grant) {
      share.tenant.clear();
    } else if (tenants.contains(share.tenant)) {
      share.tenant = key.first;
    }
  }
}

}  // namespace tranche::grants
