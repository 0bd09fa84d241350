#include "grants/shares.h"

#include <set>

#include "base/text.h"

namespace tranche::grants {
namespace {

constexpr std::string_view kNoTenant = "-";
constexpr std::string_view kTaken = "taken";
constexpr std::string_view kReportedWord = "told";
constexpr std::string_view kUnreportedWord = "untold";
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

// Up to the next space, which is taken away too; nothing at the end.
std::optional<std::string_view> take_word(std::string_view& line) {
  const auto end = line.find(' ');
  if (end == 0 || end == std::string_view::npos) return std::nullopt;
  const auto word = line.substr(0, end);
  line.remove_prefix(end + 1);
  return word;
}

std::string taken_line(const GrantOnDevice& key, const Taken& taken) {
  return key.first + ' ' + key.second + ' ' + std::string(taken.reported ? kReportedWord : kUnreportedWord) + ' ' +
         taken.text + '\n';
}

void parse_taken_line(std::string_view line, TakenShares& into) {
  const auto grant = take_word(line), device = take_word(line), reported = take_word(line);
  if (!grant || !device || !reported || (*reported != kReportedWord && *reported != kUnreportedWord)) return;
  into[{std::string(*grant), std::string(*device)}] = {std::string(trimmed(line)), *reported == kReportedWord};
}

}  // namespace

std::string render_kept(const Kept& kept) {
  std::string text;
  for (const auto& [key, share] : kept.shares) {
    text += key.first + ' ' + key.second + ' ' + share.pool + ' ' + share.resource + ' ' +
            std::to_string(share.memory.value) + ' ' + std::to_string(share.threads.hundredths) + ' ' +
            (share.tenant.empty() ? std::string(kNoTenant) : share.tenant) + '\n';
  }
  for (const auto& [key, taken] : kept.taken) text += std::string(kTaken) + ' ' + taken_line(key, taken);
  return text;
}

Kept parse_kept(std::string_view text) {
  Kept kept;
  for (std::string_view line : lines_of(text)) {
    const auto words = words_of(line);
    if (words.empty() || words.front() != kTaken) {
      parse_share(line, kept.shares);
    } else if (take_word(line) == kTaken) {
      parse_taken_line(line, kept.taken);
    }
  }
  return kept;
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
