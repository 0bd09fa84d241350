#include "dra/slices.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "base/json_text.h"
#include "gpu/models/models.h"

namespace tranche::dra {
namespace slice_diff_test {

using Json = nlohmann::json;
using What = SliceWrite::What;

const Pool kPool{"gpu.tranche.io", "n1"};

std::vector<Slice> slices(const char* model, bool faulty = false) {
  config::Config config;
  config.dra.devices = config::DraDevices::kAll;
  const auto inventory = *gpu::inventory_of_model(model);
  std::map<std::string, gpu::Unhealthy> faults;
  if (faulty) faults[inventory.gpus[0].uuid] = {};
  return slices_of(devices_of(config, inventory, faults).list, kPool).list;
}

StoredSlice stored(const SliceWrite& write, int version) {
  Json object = json_of(body_of(write, "n1", "u1"));
  object["metadata"]["resourceVersion"] = std::to_string(version);
  return read_slice(object);
}

// Writes until nothing is left: what was written, in order.
std::vector<std::string> settle(SliceLedger& ledger, int version = 1) {
  std::vector<std::string> out;
  while (const auto write = ledger.next()) {
    const bool gone = write->what == What::kDelete;
    out.push_back((gone ? "-" : write->what == What::kCreate ? "+" : "=") + write->name.substr(0, 5));
    ledger.written(*write, gone ? std::nullopt : std::optional(stored(*write, version++)));
    if (out.size() > 100) break;
  }
  return out;
}

TEST(DraSliceLedger, CreatesWhatIsMissing) {
  SliceLedger ledger;
  ledger.want(slices("2xH200"));
  EXPECT_EQ(settle(ledger), (std::vector<std::string>{"+00000", "+00001"}));
  EXPECT_EQ(ledger.generation(), 1);
}

TEST(DraSliceLedger, ChangesOneSliceInItsGeneration) {
  SliceLedger ledger;
  ledger.want(slices("2xH200"));
  settle(ledger);
  ledger.want(slices("2xH200", true));
  EXPECT_EQ(settle(ledger, 10), std::vector<std::string>{"=00000"});
  EXPECT_EQ(ledger.generation(), 1);
}

TEST(DraSliceLedger, ChangesSeveralInANewOne) {
  SliceLedger ledger;
  ledger.want(slices("2xH200"));
  settle(ledger);
  ledger.want(slices("3xH200"));
  EXPECT_EQ(settle(ledger, 10), (std::vector<std::string>{"=00000", "=00001"}));
  EXPECT_EQ(ledger.generation(), 2);
  ledger.want(slices("9xH200"));
  EXPECT_EQ(settle(ledger, 20), (std::vector<std::string>{"=00000", "=00001", "+00002"}));
  EXPECT_EQ(ledger.generation(), 3);
  for (const auto& [name, slice] : ledger.stored()) EXPECT_EQ(slice.generation, 3) << name;
  ledger.want({});
  EXPECT_EQ(settle(ledger), (std::vector<std::string>{"-00000", "-00001", "-00002"}));
}

// Promise: dra/slices: Slices that another program deletes are published again.
TEST(DraSliceLedger, MakesAgainWhatAnotherProgramDeleted) {
  SliceLedger ledger;
  ledger.want(slices("2xH200"));
  settle(ledger);
  const auto gone = ledger.stored().begin()->second;
  ledger.apply(kube::Change::kDeleted, gone);
  EXPECT_EQ(settle(ledger, 10), std::vector<std::string>{"+00000"});
  EXPECT_EQ(ledger.generation(), 1);
  ledger.apply(kube::Change::kDeleted, gone);
  EXPECT_FALSE(ledger.next()) << "an event about the one that is gone is old";
}

TEST(DraSliceLedger, TimesThatTheServerAddsToTaintsAreNoChange) {
  SliceLedger ledger;
  ledger.want(slices("1xH200", true));
  const auto write = ledger.next();
  ASSERT_TRUE(write);
  Json object = json_of(body_of(*write, "n1", "u1"));
  object["metadata"]["resourceVersion"] = "50";
  object["spec"]["devices"][0]["taints"][0]["timeAdded"] = "2026-11-25T01:00:00Z";
  EXPECT_EQ(read_slice(object).spec, write->wanted);
}

TEST(DraSliceLedger, TakesWhatTheServerMakesOfASpecForThatSpec) {
  SliceLedger ledger;
  ledger.want(slices("1xH200"));
  auto write = ledger.next();
  ASSERT_TRUE(write);
  StoredSlice changed = stored(*write, 1);
  changed.spec = R"({"written":"in another way"})";
  ledger.written(*write, changed);
  write = ledger.next();
  ASSERT_TRUE(write);
  EXPECT_EQ(write->what, What::kCreate) << "the other slice, and not the first once more";
}

TEST(DraSliceLedger, BodiesBelongToTheNode) {
  SliceLedger ledger;
  ledger.want(slices("1xH200"));
  const Json body = json_of(body_of(*ledger.next(), "n1", "uid-1"));
  EXPECT_EQ(body["metadata"]["ownerReferences"],
            json_of(R"([{"apiVersion":"v1","kind":"Node","name":"n1","uid":"uid-1","controller":true}])"));
  EXPECT_EQ(body["spec"]["pool"], json_of(R"({"name":"n1","generation":1,"resourceSliceCount":2})"));
  EXPECT_FALSE(body["metadata"].contains("resourceVersion"));
}

}  // namespace slice_diff_test
}  // namespace tranche::dra
