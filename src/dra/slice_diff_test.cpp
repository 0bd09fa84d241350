#include "dra/slice_diff.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "base/json_text.h"
#include "gpu/inventory/models.h"

namespace tranche::dra {
namespace slice_diff_test {

using Json = nlohmann::json;
using What = SliceWrite::What;

const Pool kPool{"gpu.tranche.io", "n1"};

std::vector<Slice> slices(const char* model, bool faulty = false) {
  config::Config config;
  config.dra.devices = config::DraDevices::kAll;
  const auto inventory = *inventory::inventory_of_model(model);
  std::map<std::string, health::Unhealthy> faults;
  if (faulty) faults[inventory.gpus[0].uuid] = {};
  return slices_of(devices_of(config, inventory, faults).list, kPool).list;
}

StoredSlice stored(const SliceWrite& write, int version) {
  Json object = json_of(body_of(write, "n1", "u1"));
  object["metadata"]["resourceVersion"] = std::to_string(version);
  return *read_slice(object);
}

// Writes until nothing is left: what was written, in order.
std::vector<std::string> settle(SliceBook& book, int version = 1) {
  std::vector<std::string> out;
  while (const auto write = book.next()) {
    const bool gone = write->what == What::kDelete;
    out.push_back((gone ? "-" : write->what == What::kCreate ? "+" : "=") + write->name.substr(0, 5));
    book.written(*write, gone ? std::nullopt : std::optional(stored(*write, version++)));
    if (out.size() > 100) break;
  }
  return out;
}

TEST(DraSliceBook, CreatesWhatIsMissing) {
  SliceBook book;
  book.want(slices("2xH200"));
  EXPECT_EQ(settle(book), (std::vector<std::string>{"+00000", "+00001"}));
  EXPECT_EQ(book.generation(), 1);
}

TEST(DraSliceBook, ChangesOneSliceInItsGeneration) {
  SliceBook book;
  book.want(slices("2xH200"));
  settle(book);
  book.want(slices("2xH200", true));
  EXPECT_EQ(settle(book, 10), std::vector<std::string>{"=00000"});
  EXPECT_EQ(book.generation(), 1);
}

TEST(DraSliceBook, ChangesSeveralInANewOne) {
  SliceBook book;
  book.want(slices("2xH200"));
  settle(book);
  book.want(slices("3xH200"));
  EXPECT_EQ(settle(book, 10), (std::vector<std::string>{"=00000", "=00001"}));
  EXPECT_EQ(book.generation(), 2);
  book.want(slices("9xH200"));
  EXPECT_EQ(settle(book, 20), (std::vector<std::string>{"=00000", "=00001", "+00002"}));
  EXPECT_EQ(book.generation(), 3);
  for (const auto& [name, slice] : book.stored()) EXPECT_EQ(slice.generation, 3) << name;
  book.want({});
  EXPECT_EQ(settle(book), (std::vector<std::string>{"-00000", "-00001", "-00002"}));
}

// Promise: dra/slices: Slices that another program deletes are published again.
TEST(DraSliceBook, MakesAgainWhatAnotherProgramDeleted) {
  SliceBook book;
  book.want(slices("2xH200"));
  settle(book);
  const auto gone = book.stored().begin()->second;
  book.apply(kube::Change::kDeleted, gone);
  EXPECT_EQ(settle(book, 10), std::vector<std::string>{"+00000"});
  EXPECT_EQ(book.generation(), 1);
  book.apply(kube::Change::kDeleted, gone);
  EXPECT_FALSE(book.next()) << "an event about the one that is gone is old";
}

TEST(DraSliceBook, KeepsTheTimesOfTaints) {
  SliceBook book;
  book.want(slices("1xH200", true));
  settle(book);
  StoredSlice slice = book.stored().begin()->second;
  slice.version = "50";
  slice.taint_times.clear();
  slice.taint_times["gpu-0\ngpu.tranche.io/unhealthy\nxid\nNoSchedule"] = "2026-11-25T01:00:00Z";
  book.apply(kube::Change::kModified, slice);
  EXPECT_FALSE(book.next()) << "the server's time is no change";
  auto wanted = slices("1xH200", true);
  Json spec = json_of(wanted[0].spec);
  spec["devices"][0].erase("taints");
  wanted[0].spec = json_text(spec);
  book.want(wanted);
  const auto write = book.next();
  ASSERT_TRUE(write);
  EXPECT_EQ(json_of(write->spec)["devices"][1]["taints"][0]["timeAdded"], "2026-11-25T01:00:00Z");
}

TEST(DraSliceBook, TakesWhatTheServerMakesOfASpecForThatSpec) {
  SliceBook book;
  book.want(slices("1xH200"));
  auto write = book.next();
  ASSERT_TRUE(write);
  StoredSlice changed = stored(*write, 1);
  changed.spec = R"({"written":"in another way"})";
  book.written(*write, changed);
  write = book.next();
  ASSERT_TRUE(write);
  EXPECT_EQ(write->what, What::kCreate) << "the other slice, and not the first once more";
}

TEST(DraSliceBook, BodiesBelongToTheNode) {
  SliceBook book;
  book.want(slices("1xH200"));
  const Json body = json_of(body_of(*book.next(), "n1", "uid-1"));
  EXPECT_EQ(body["metadata"]["ownerReferences"],
            json_of(R"([{"apiVersion":"v1","kind":"Node","name":"n1","uid":"uid-1","controller":true}])"));
  EXPECT_EQ(body["spec"]["pool"], json_of(R"({"name":"n1","generation":1,"resourceSliceCount":2})"));
  EXPECT_FALSE(body["metadata"].contains("resourceVersion"));
}

TEST(DraSliceBook, RefusesSlicesWithoutANameOrAVersion) {
  EXPECT_FALSE(read_slice(json_of(R"({"metadata":{"name":"a"}})")));
  EXPECT_FALSE(read_slice(json_of("[]")));
  EXPECT_TRUE(
      read_slice(json_of(R"({"metadata":{"name":"a","resourceVersion":"1"},"spec":{"devices":[7,{"taints":[8]}]}})")));
}

}  // namespace slice_diff_test
}  // namespace tranche::dra
