// Any node, any order of changes, lost slices and restarts: the API server ends with the slices of the newest devices,
// each within the API's bounds, and a pool that the scheduler may use is never a mixture of two.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "base/json_text.h"
#include "dra/slices.h"
#include "plan/shares.h"
#include "property/generate.h"

namespace tranche::property {
namespace dra_test {

using Json = nlohmann::json;
using dra::SliceWrite;
const std::uint32_t kRounds = rounds(40);

std::vector<dra::Device> any_devices(Random& random) {
  config::Config config;
  config.dra.devices = config::DraDevices::kAll;
  auto inventory = any_inventory(random, 30);
  const auto partitionable = any_partitions(random, config, inventory);
  std::map<std::string, gpu::Unhealthy> faults;
  for (const auto& gpu : inventory.gpus)
    if (random.chance(20))
      faults[gpu.uuid] = {random.one_of(std::vector(gpu::kCauses.begin(), gpu::kCauses.end())), "why"};
  return dra::devices_of(config, inventory, faults, partitionable).list;
}

TEST(DraProperty, SlicesKeepTheBoundsOfTheApi) {
  for (std::uint32_t seed = 1; seed <= kRounds; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    const auto devices = any_devices(random);
    const dra::Pool pool{"gpu.tranche.io", "n1", {random.chance(80), random.chance(80), random.chance(80)}};
    const auto slices = dra::slices_of(devices, pool);
    ASSERT_EQ(slices, dra::slices_of(devices, pool));
    std::set<std::string> names, sets, drawn;
    std::map<std::string, Json> counters;
    for (const auto& slice : slices.list)
      for (const Json& set : json_of(slice.spec).value("sharedCounters", Json::array()))
        counters[set["name"]] = set["counters"];
    for (const auto& slice : slices.list) {
      const Json spec = json_of(slice.spec);
      ASSERT_EQ(spec["pool"]["resourceSliceCount"], slices.list.size());
      ASSERT_FALSE(spec.contains("devices") && spec.contains("sharedCounters"));
      for (const Json& set : spec.value("sharedCounters", Json::array())) ASSERT_TRUE(sets.insert(set["name"]).second);
      ASSERT_LE(spec.value("sharedCounters", Json::array()).size(), 8u);
      for (const Json& set : spec.value("sharedCounters", Json::array())) ASSERT_LE(set["counters"].size(), 32u);
      ASSERT_LE(spec.value("devices", Json::array()).size(), 64u);
      for (const Json& device : spec.value("devices", Json::array())) {
        ASSERT_TRUE(names.insert(device["name"]).second);
        ASSERT_LE(device["attributes"].size() + device.value("capacity", Json::object()).size(), 32u);
        for (const Json& consumes : device.value("consumesCounters", Json::array())) {
          drawn.insert(consumes["counterSet"]);
          for (const auto& [counter, value] : consumes["counters"].items())
            ASSERT_TRUE(counters[consumes["counterSet"]].contains(counter)) << counter;
        }
        const auto* known = dra::find_device(devices, device["name"].get<std::string>());
        ASSERT_NE(known, nullptr);
        if (known->kind == dra::Kind::kShared) {
          ASSERT_TRUE(device["allowMultipleAllocations"]);
          ASSERT_TRUE(device.contains("consumesCounters")) << "else it could be granted beside the whole GPU";
          ASSERT_GE(plan::sms_at(Percent::whole(known->cores_least), std::max(known->sms, 8u)), 8u);
        }
        if (known->partition) {
          ASSERT_TRUE(device.contains("consumesCounters")) << "else its memory could be granted twice";
        }
        if (known->fault && known->kind != dra::Kind::kMonitor) {
          ASSERT_TRUE(device.contains("taints"));
        }
      }
    }
    ASSERT_EQ(sets, drawn);
  }
}

// What an API server does to slices, as far as the ledger can see it.
class Server {
 public:
  std::optional<dra::StoredSlice> take(const SliceWrite& write) {
    if (write.what == SliceWrite::What::kDelete) {
      objects_.erase(write.name);
      return std::nullopt;
    }
    Json object = json_of(dra::body_of(write, "n1", "uid"));
    object["metadata"]["resourceVersion"] = std::to_string(++version_);
    for (Json& device : object["spec"].value("devices", Json::array()))
      for (Json& taint : device.value("taints", Json::array())) taint["timeAdded"] = "2026-11-25T01:00:00Z";
    objects_[write.name] = object;
    return dra::read_slice(object);
  }
  std::vector<dra::StoredSlice> list() const {
    std::vector<dra::StoredSlice> all;
    for (const auto& [name, object] : objects_) all.push_back(dra::read_slice(object));
    return all;
  }
  std::optional<dra::StoredSlice> lose_one(Random& random) {
    if (objects_.empty()) return std::nullopt;
    auto at = objects_.begin();
    std::advance(at, random.number(0, static_cast<std::uint32_t>(objects_.size()) - 1));
    at->second["metadata"]["resourceVersion"] = std::to_string(++version_);
    const auto gone = dra::read_slice(at->second);
    objects_.erase(at);
    return gone;
  }
  // The specs that the scheduler would use; none while the newest generation is not whole.
  std::set<std::string> usable() const {
    std::int64_t newest = 0;
    for (const auto& slice : list()) newest = std::max(newest, slice.generation);
    std::set<std::string> specs;
    std::size_t count = 0;
    for (const auto& slice : list()) {
      if (slice.generation != newest) continue;
      specs.insert(slice.spec);
      count = json_of(slice.spec)["pool"]["resourceSliceCount"];
    }
    return specs.size() == count ? specs : std::set<std::string>{};
  }

 private:
  std::map<std::string, Json> objects_;
  int version_ = 0;
};

std::set<std::string> specs_of(const std::vector<dra::Slice>& slices) {
  std::set<std::string> specs;
  for (const auto& slice : slices) specs.insert(slice.spec);
  return specs;
}

TEST(DraProperty, TheServerEndsWithWhatIsWantedAndNeverHasAMixture) {
  for (std::uint32_t seed = 1; seed <= kRounds / 30; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    Server server;
    dra::SliceLedger ledger;
    std::set<std::set<std::string>> whole{{}};
    std::vector<dra::Slice> wanted;
    for (int event = 0; event < 60; ++event) {
      if (random.chance(30)) {
        wanted = random.chance(10) ? std::vector<dra::Slice>{}
                                   : dra::slices_of(any_devices(random), {"gpu.tranche.io", "n1"}).list;
        whole.insert(specs_of(wanted));
        ledger.want(wanted);
      }
      if (random.chance(10)) {  // a restart, which finds what is there
        ledger = {};
        ledger.want(wanted);
        ledger.replace(server.list());
      }
      if (random.chance(15))
        if (const auto gone = server.lose_one(random)) ledger.apply(kube::Change::kDeleted, *gone);
      for (std::uint32_t writes = random.number(0, 4); writes > 0; --writes) {
        const auto write = ledger.next();
        if (!write) break;
        ledger.written(*write, server.take(*write));
        ASSERT_TRUE(whole.contains(server.usable())) << "after " << write->name;
      }
    }
    int writes = 0;
    while (const auto write = ledger.next()) {
      ledger.written(*write, server.take(*write));
      ASSERT_LE(++writes, 40);
    }
    ASSERT_EQ(server.usable(), specs_of(wanted));
    ASSERT_EQ(server.list().size(), wanted.size());
  }
}

}  // namespace dra_test
}  // namespace tranche::property
