#include "gpu/driver/mig/mig_admin.h"

#include <gtest/gtest.h>

#include "gpu/driver/sim_fixture.h"

namespace tranche::gpu::nvml {
namespace {

struct AdminBed : SimFixture {
  explicit AdminBed(const std::string& yaml) : SimFixture(yaml) {
    auto opened = MigAdmin::open(settings());
    EXPECT_TRUE(opened) << to_string(opened.error());
    admin = *std::move(opened);
    uuid = node().gpus()[0].uuid;
  }
  mig::GpuState read() {
    auto gpu = admin->read(uuid);
    EXPECT_TRUE(gpu) << to_string(gpu.error());
    return gpu.value_or(mig::GpuState{});
  }
  Status take(const mig::Step& step) { return admin->take(uuid, step); }
  std::unique_ptr<MigAdmin> admin;
  std::string uuid;
};

using What = mig::Step::What;

constexpr std::uint32_t kOneSlice = 19, kThreeSlices = 9;

TEST(MigAdmin, CutsAGpuAndReadsItBackByGpuInstance) {
  AdminBed bed("gpus: {profile: H200, count: 2}\n");
  EXPECT_FALSE(bed.read().enabled);
  EXPECT_EQ(bed.read().profiles.size(), 7u) << "also while MIG is off";
  const auto active = bed.take({.what = What::kModeOn});
  ASSERT_TRUE(active) << to_string(active.error());
  const auto made = bed.take({.what = What::kCreateInstance, .profile_id = kThreeSlices, .placement = {4, 4}});
  ASSERT_TRUE(made) << to_string(made.error());
  auto gpu = bed.read();
  ASSERT_EQ(gpu.instances.size(), 1u) << "without a compute instance too";
  EXPECT_TRUE(gpu.instances[0].compute.empty());
  EXPECT_EQ(gpu.instances[0].placement, (mig::Placement{4, 4}));
  const auto gi = gpu.instances[0].id;
  const auto divided = bed.take({.what = What::kCreateCompute, .instance = gi, .compute_placement = {0, 3}});
  ASSERT_TRUE(divided) << to_string(divided.error());
  gpu = bed.read();
  ASSERT_EQ(gpu.instances[0].compute.size(), 1u);
  EXPECT_TRUE(gpu.instances[0].compute[0].uuid.starts_with("MIG-"));
  EXPECT_EQ(gpu.instances[0].compute[0].placement.size, 3u);
  EXPECT_FALSE(bed.take({.what = What::kDestroyInstance, .instance = gi})) << "its compute instance is there";
  ASSERT_TRUE(bed.take({.what = What::kDestroyCompute, .instance = gi, .compute = gpu.instances[0].compute[0].id}));
  ASSERT_TRUE(bed.take({.what = What::kDestroyInstance, .instance = gi}));
  EXPECT_TRUE(bed.read().instances.empty());
}

TEST(MigAdmin, KnowsWhoIsOnAnInstanceAndWhatTheDriverRefuses) {
  AdminBed bed("gpus:\n  - {profile: H200, mig: [1g.18gb, 3g.71gb]}\n");
  auto gpu = bed.read();
  ASSERT_EQ(gpu.instances.size(), 2u);
  const auto& busy = gpu.instances[0];
  bed.node().add_made_up_process({.pid = 77, .gpu = 0, .bytes = 1, .gpu_instance = busy.id, .compute_instance = 0});
  EXPECT_EQ(bed.read().instances[0].holders, (std::vector<mig::Holder>{{"process 77", 77}}));
  const auto refused = bed.take({.what = What::kDestroyCompute, .instance = busy.id, .compute = 0});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, Kind::kConflict);
  const auto taken = bed.take({.what = What::kCreateInstance, .profile_id = kOneSlice, .placement = busy.placement});
  ASSERT_FALSE(taken);
  const auto off = bed.take({.what = What::kModeOff});
  ASSERT_FALSE(off);
  EXPECT_EQ(off.error().code, static_cast<int>(Return::kInUse));
}

TEST(MigAdmin, OnAmpereAModeChangeNeedsAReset) {
  AdminBed bed("gpus: {profile: A100-PCIE-40GB, count: 1}\n");
  ASSERT_TRUE(bed.take({.what = What::kModeOn}));
  EXPECT_TRUE(bed.read().pending);
  EXPECT_FALSE(bed.read().enabled);
}

TEST(MigAdmin, OneSilentGpuDoesNotHideTheOthers) {
  AdminBed bed("gpus: {profile: H200, count: 2}\n");
  bed.lose(0, true);
  std::vector<std::string> silent;
  const auto all = bed.admin->read(silent);
  ASSERT_TRUE(all);
  EXPECT_EQ(all->size(), 1u);
  EXPECT_EQ(silent.size(), 1u);
}

}  // namespace
}  // namespace tranche::gpu::nvml
