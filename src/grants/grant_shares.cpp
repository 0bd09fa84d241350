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
  std::map<std::string_view, std::string_view> container_of;
  for (const auto& [container, grant] : held) container_of[grant] = container;
  std::map<std::pair<std::string_view, std::string_view>, std::string_view> first;  // by container and pool
  std::set<std::string_view> tenants;
  for (auto& [on, share] : shares) {
    const auto container = container_of.find(on.first);
    if (container == container_of.end()) continue;
    share.tenant = first.try_emplace({container->second, share.pool}, on.first).first->second;
    tenants.insert(share.tenant);
  }
  for (auto& [on, share] : shares)  // kubelet does not list it there any more
    if (!container_of.contains(on.first) && tenants.contains(share.tenant)) share.tenant = on.first;
}

void part_grant(Shares& shares, const std::string& grant) {
  for (auto& [on, share] : shares) {
    if (on.first == grant) {
      share.tenant.clear();
    } else if (share.tenant == grant) {
      share.tenant = on.first;
    }
  }
}

}  // namespace tranche::grants
