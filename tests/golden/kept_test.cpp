// Files that a program keeps for its next start, as each released version writes them: this version reads all of them
// (docs/internals/release.md, "Version skew"). A recorded file is never changed. A version that writes one differently
// gets a folder of its own, and the earlier one loses only the comparison of what is written.
#include <gmock/gmock.h>

#include "config/choose.h"
#include "dra/prepare.h"
#include "golden/golden.h"
#include "grants/grant_shares.h"
#include "guard/judge.h"
#include "mps/daemon/compute_modes.h"
#include "mps/keeper/keeper_status.h"
#include "mps/pool/client_ending.h"
#include "mps/protocol/requests.h"
#include "mps/relay/relay.h"

namespace tranche {
namespace {

std::string claims(std::string_view text) {
  const auto read = dra::parse_prepared(text);
  EXPECT_THAT(read.lost, ::testing::IsEmpty());
  std::string written;
  for (const auto& [uid, claim] : read.claims) written += dra::render_prepared(claim);
  return written;
}

struct Kept {
  const char* name;
  std::string (*again)(std::string_view text);  // read and written
};
constexpr Kept kKept[] = {
    {"grants.txt", [](std::string_view text) { return grants::render_shares(grants::parse_shares(text)); }},
    {"claims.txt", claims},
    {"stopped.txt", [](std::string_view text) { return guard::render_stopped(guard::parse_stopped(text)); }},
    {"config-in-force.json",
     [](std::string_view text) { return config::render_chosen(config::parse_chosen(text).value()); }},
    {"clients.txt", [](std::string_view text) { return mps::render_clients(mps::parse_clients(text)); }},
    {"limits.json", [](std::string_view text) { return mps::render_terms(mps::parse_terms(text).value()); }},
    {"ending.txt", [](std::string_view text) { return mps::render_ending(mps::parse_ending(text)); }},
    {"other-holders", [](std::string_view text) { return mps::render_other_holders(mps::parse_other_holders(text)); }},
    {"compute-mode.json",
     [](std::string_view text) { return mps::render_earlier_modes(mps::parse_earlier_modes(text).value()); }},
    {"keeper-status.json", [](std::string_view text) { return mps::to_json(mps::read_keeper_status(text).value()); }},
};

// Promise: upgrade: Files that an earlier version kept are read.
TEST(Kept, FilesOfEachVersionAreRead) {
  const auto versions = golden::source("tests/golden/kept");
  for (const auto& version : std::filesystem::directory_iterator(versions))
    for (const auto& kept : kKept) {
      const auto text = golden::read(version.path() / kept.name);
      EXPECT_EQ(kept.again(text), text) << version.path() / kept.name;
    }
}

}  // namespace
}  // namespace tranche
