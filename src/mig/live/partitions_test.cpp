#include "mig/live/partitions.h"

#include <gmock/gmock.h>

#include "gpu/driver/sim_fixture.h"
#include "run_until.h"

namespace tranche::mig {
namespace partitions_test {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
using What = MigPartition::What;

struct Bed : gpu::nvml::SimFixture {
  Bed()
      : gpu::nvml::SimFixture(
            "gpus:\n  - {profile: A100-PCIE-40GB, mig: []}\n  - {profile: A100-PCIE-40GB, mig: []}\n") {
    MigPartitions::Callbacks callbacks;
    callbacks.driver = [this] {
      auto all = settings();
      all.silence = hangs ? 1s : 60s;
      return all;
    };
    callbacks.changed = [this] {
      ++changes;
      if (waits_for_change) loop->stop();
    };
    partitions = std::make_unique<MigPartitions>(*loop, std::move(callbacks));
    look();
  }
  void run() { EXPECT_TRUE(os::run_until_stopped(*loop)) << "no answer within a minute"; }
  void look() {
    waits_for_change = true;
    partitions->look();
    run();
    waits_for_change = false;
  }
  std::string gpu(int index) { return node().gpus()[static_cast<std::size_t>(index)].uuid; }
  Result<std::string> change(int index, What what, const std::string& uuid = "") {
    Result<std::string> answer = std::string("none");
    partitions->change(gpu(index), {{9, 3, {4, 4}}, what, uuid}, [&](Result<std::string> device) {
      answer = std::move(device);
      loop->stop();
    });
    run();
    return answer;
  }
  void hang(const char* call) {
    hang_call(call, 0, 0);
    hangs = true;
  }

  std::unique_ptr<os::Loop> loop = *os::Loop::open();
  std::unique_ptr<MigPartitions> partitions;
  int changes = 0;
  bool waits_for_change = false;
  bool hangs = false;
};

TEST(MigPartitions, KnowTheGpusAndWhatIsMadeOnThem) {
  Bed bed;
  EXPECT_TRUE(bed.partitions->known());
  ASSERT_EQ(bed.partitions->gpus().size(), 2u);
  const auto before = bed.changes;
  EXPECT_TRUE(bed.change(0, What::kLook));
  EXPECT_EQ(bed.changes, before) << "nothing was made";
  const auto made = bed.change(0, What::kMake);
  ASSERT_TRUE(made) << to_string(made.error());
  EXPECT_EQ(bed.partitions->gpus().at(bed.gpu(0)).instances.size(), 1u) << "without another look";
  EXPECT_EQ(bed.change(0, What::kLook).error().kind, Kind::kConflict);
  EXPECT_TRUE(bed.change(0, What::kRemove, *made));
  EXPECT_TRUE(bed.partitions->gpus().at(bed.gpu(0)).instances.empty());
}

// Promise: mig/partitions: While a driver call hangs on a GPU, nothing there counts as destroyed; others are served.
TEST(MigPartitions, OfAGpuWhoseCallHangsAreNotTakenForGone) {
  Bed bed;
  bed.hang("nvmlGpuInstanceCreateComputeInstance");
  const auto hung = bed.change(0, What::kMake);
  ASSERT_FALSE(hung);
  EXPECT_EQ(hung.error().kind, Kind::kUnavailable);
  EXPECT_THAT(hung.error().what, HasSubstr("to create compute instance 3g.20gb in the GPU instance at slices 4-7"));
  EXPECT_FALSE(bed.change(0, What::kRemove)) << "it is not known what is there";
  const auto other = bed.change(1, What::kMake);
  EXPECT_TRUE(other) << to_string(other.error());
  bed.node().clear_faults();
  bed.hangs = false;
  bed.look();  // the call returns, and the GPUs are read again
  const auto finished = bed.change(0, What::kFinish);
  ASSERT_TRUE(finished) << to_string(finished.error());
  EXPECT_TRUE(bed.change(0, What::kRemove, *finished));
  EXPECT_TRUE(bed.partitions->gpus().at(bed.gpu(0)).instances.empty());
}

}  // namespace partitions_test
}  // namespace tranche::mig
