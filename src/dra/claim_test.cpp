#include "dra/claim.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "base/units.h"

namespace tranche::dra {
namespace claim_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;
using Json = nlohmann::json;

constexpr const char* kDriver = "gpu.tranche.io";
const ClaimName kAsked{"team", "train", "u-1"};

Json result(const std::string& request = "gpu", const std::string& driver = kDriver) {
  return {{"request", request},       {"driver", driver}, {"pool", "n1/tranche"},
          {"device", "gpu-0-shared"}, {"shareID", "s-1"}, {"consumedCapacity", {{"memory", "6Gi"}, {"cores", "20"}}}};
}

Json claim_of(const std::vector<Json>& results) {
  return {{"kind", "ResourceClaim"},
          {"metadata", {{"name", "train"}, {"namespace", "team"}, {"uid", "u-1"}}},
          {"status", {{"allocation", {{"devices", {{"results", results}}}}}}}};
}

std::string refused(const Json& claim) {
  const auto read = read_claim(claim.dump(), kAsked, kDriver);
  return read ? "read" : to_string(read.error());
}

TEST(DraQuantity, IsAWholeNumberWithFractionsRoundedUp) {
  const std::vector<std::pair<const char*, std::uint64_t>> rows{{"0", 0},
                                                                {"20", 20},
                                                                {"6Gi", 6ull << 30},
                                                                {"1073741824", 1ull << 30},
                                                                {"5888Mi", 5888ull << 20},
                                                                {"6G", 6000000000ull},
                                                                {"2500m", 3},
                                                                {"0.5", 1},
                                                                {"1.5Ki", 1536},
                                                                {"1e3", 1000},
                                                                {"12E", 12000000000000000000ull},
                                                                {"+1", 1},
                                                                {"1n", 1},
                                                                {"-0", 0}};
  for (const auto& [text, value] : rows) {
    const auto parsed = parse_quantity(text);
    ASSERT_TRUE(parsed) << text << ": " << to_string(parsed.error());
    EXPECT_EQ(*parsed, value) << text;
  }
}

TEST(DraQuantity, RefusesWhatIsNegativeTooLargeOrNoQuantity) {
  for (const char* text : {"", "-1", "-64Gi", "Gi", "6gi", "1 ", " 1", "1.2.3", "1e99", "1e", "16Ei",
                           "99999999999999999999", "123456789012345678901", "0x10", "nan", "."})
    EXPECT_FALSE(parse_quantity(text)) << text;
}

TEST(DraClaim, HasTheDevicesOfItsDriverInOrder) {
  auto second = result("other/second");
  second["shareID"] = "s-2";
  const auto read = read_claim(claim_of({result(), result("net", "nic.example.com"), second}).dump(), kAsked, kDriver);
  ASSERT_TRUE(read) << to_string(read.error());
  ASSERT_EQ(read->devices.size(), 2u);
  EXPECT_EQ(read->devices[0].request, "gpu");
  EXPECT_EQ(read->devices[0].share_id, "s-1");
  EXPECT_THAT(read->devices[0].consumed, ElementsAre(Pair("cores", 20), Pair("memory", 6ull << 30)));
  EXPECT_EQ(read->devices[1].request, "other") << "kubelet knows no subrequests";
  EXPECT_EQ(read->pod, "");
  EXPECT_THAT(read->configs, IsEmpty());
}

TEST(DraClaim, OfATemplateIsOfOnePod) {
  auto claim = claim_of({result()});
  claim["metadata"]["ownerReferences"] = {{{"kind", "Pod"}, {"name", "p"}, {"uid", "u-p"}, {"controller", true}}};
  claim["status"]["reservedFor"] = {{{"resource", "pods"}, {"name", "p"}, {"uid", "u-p"}}};
  EXPECT_EQ(read_claim(claim.dump(), kAsked, kDriver)->pod, "p");
}

// Promise: dra/prepare: An owner reference alone does not assign a claim to a pod.
TEST(DraClaim, IsOfNoPodUnlessItIsReservedForItsOwnerAlone) {
  auto claim = claim_of({result()});
  claim["metadata"]["ownerReferences"] = {{{"kind", "Pod"}, {"name", "p"}, {"uid", "u-p"}, {"controller", true}}};
  EXPECT_EQ(read_claim(claim.dump(), kAsked, kDriver)->pod, "") << "reserved for nobody";
  const auto reserved_for = [&](const Json& reserved) {
    claim["status"]["reservedFor"] = reserved;
    return read_claim(claim.dump(), kAsked, kDriver)->pod;
  };
  const Json owner{{"resource", "pods"}, {"name", "p"}, {"uid", "u-p"}};
  const Json other{{"resource", "pods"}, {"name", "q"}, {"uid", "u-q"}};
  EXPECT_EQ(reserved_for(Json::array({owner})), "p");
  EXPECT_EQ(reserved_for(Json::array({other})), "");
  EXPECT_EQ(reserved_for(Json::array({owner, other})), "");
  EXPECT_EQ(reserved_for(Json::array({{{"resource", "pods"}, {"name", "p"}, {"uid", "u-of-before"}}})), "");
  EXPECT_EQ(reserved_for(Json::array({{{"resource", "jobs"}, {"name", "p"}, {"uid", "u-p"}}})), "");
  EXPECT_EQ(reserved_for(7), "");
  claim["metadata"]["ownerReferences"][0].erase("uid");
  EXPECT_EQ(reserved_for(Json::array({{{"resource", "pods"}, {"name", "p"}}})), "");
}

TEST(DraClaim, OfAnotherUidWasMadeAnew) {
  auto claim = claim_of({result()});
  claim["metadata"]["uid"] = "u-2";
  const auto read = read_claim(claim.dump(), kAsked, kDriver);
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().kind, tranche::Kind::kConflict);
  EXPECT_THAT(read.error().what, HasSubstr("metadata.uid is \"u-2\", and kubelet asks for \"u-1\""));
}

// Promise: dra/prepare: A claim that cannot be served is refused with the field that is wrong and a remedy.
TEST(DraClaim, RefusalsNameTheFieldAndSayWhatToDo) {
  const auto with = [](const char* key, const Json& value) {
    auto entry = result();
    entry[key] = value;
    return refused(claim_of({entry}));
  };
  EXPECT_THAT(with("consumedCapacity", {{"memory", "-30Gi"}}),
              HasSubstr("results[0].consumedCapacity[\"memory\"] cannot be used: \"-30Gi\" is negative; delete the "
                        "claim and its pods, and create them again"));
  EXPECT_THAT(with("consumedCapacity", {{"memory", true}}),
              HasSubstr("consumedCapacity[\"memory\"] is not a quantity"));
  EXPECT_THAT(with("driver", "nic.example.com"), HasSubstr("names no device of the driver gpu.tranche.io"));
}

TEST(DraClaim, ThatIsNotAllocatedIsNotThereYet) {
  auto claim = claim_of({result()});
  claim["status"] = Json::object();
  const auto read = read_claim(claim.dump(), kAsked, kDriver);
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().kind, tranche::Kind::kUnavailable);
}

Json parameters(const char* kind = "GpuConfig") {
  return {{"apiVersion", "resource.nvidia.com/v1beta1"}, {"kind", kind}};
}

TEST(DraClaim, ConfigurationsOfTheDriverAreKept) {
  auto claim = claim_of({result()});
  const Json mine{{"source", "FromClaim"},
                  {"requests", {"gpu/sub", "gpu"}},
                  {"opaque", {{"driver", kDriver}, {"parameters", parameters("MigDeviceConfig")}}}};
  Json theirs = mine;
  theirs["opaque"] = {{"driver", "nic.example.com"}, {"parameters", {{"kind", "X"}}}};
  auto& configs = claim["status"]["allocation"]["devices"]["config"];
  configs = {theirs, mine};
  const auto read = read_claim(claim.dump(), kAsked, kDriver);
  ASSERT_TRUE(read) << to_string(read.error());
  EXPECT_THAT(read->configs, ElementsAre(DeviceConfig{.requests = {"gpu"},
                                                      .field = "status.allocation.devices.config[1].opaque.parameters",
                                                      .device = DeviceConfig::For::kMig}));
  configs[1]["opaque"]["parameters"] = "text";
  EXPECT_THAT(refused(claim), HasSubstr("opaque.parameters is not an object"));
}

TEST(DraClaim, AConfigurationOfAnAlternativeThatWasNotTakenIsLeftOut) {
  auto claim = claim_of({result("gpu/second")});
  const auto config = [](const Json& requests) {
    return Json{{"source", "FromClaim"},
                {"requests", requests},
                {"opaque", {{"driver", kDriver}, {"parameters", parameters()}}}};
  };
  claim["status"]["allocation"]["devices"]["config"] = {config({"gpu/first"}), config({"gpu/second"}), config({"gpu"}),
                                                        config(Json::array())};
  const auto read = read_claim(claim.dump(), kAsked, kDriver);
  ASSERT_TRUE(read) << to_string(read.error());
  ASSERT_EQ(read->configs.size(), 3u);
  EXPECT_THAT(read->configs[0].requests, ElementsAre("gpu"));
  EXPECT_THAT(read->configs[1].requests, ElementsAre("gpu"));
  EXPECT_THAT(read->configs[2].requests, IsEmpty());
}

TEST(DraClaim, AConfigurationForADriverThatTheClaimHasNoDeviceOfIsRefused) {
  auto claim = claim_of({result()});
  auto& configs = claim["status"]["allocation"]["devices"]["config"];
  configs = {{{"source", "FromClaim"}, {"opaque", {{"driver", "gpu.nvidia.com"}, {"parameters", parameters()}}}}};
  EXPECT_THAT(refused(claim), HasSubstr("config[0].opaque.driver is \"gpu.nvidia.com\", and the claim has no device of "
                                        "that driver; write driver: gpu.tranche.io"));
  configs[0]["source"] = "FromClass";
  EXPECT_EQ(refused(claim), "read") << "a class can be for several drivers";
  configs[0]["source"] = "FromClaim";
  claim["status"]["allocation"]["devices"]["results"][0]["request"] = "gpu/first";
  EXPECT_EQ(refused(claim), "read") << "it can be for another alternative";
}

}  // namespace claim_test
}  // namespace tranche::dra
