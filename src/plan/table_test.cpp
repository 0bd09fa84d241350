#include "plan/table.h"

#include <gmock/gmock.h>

#include "base/text.h"

namespace tranche::plan {
namespace table_test {

using ::testing::HasSubstr;

Plan small_plan() {
  Plan plan;
  PlannedDevice device;
  device.uuid = device.gpu_uuid = "GPU-1";
  device.index = "0";
  device.slots = 10;
  device.share = {mib(4096), Percent::whole(10), 10};
  device.pool = "gpu-00000001";
  plan.resources = {{.name = "nvidia.com/gpu",
                     .original_name = "nvidia.com/gpu",
                     .sharing = config::SharingStrategy::kMps,
                     .replicas = 10,
                     .one_slot_per_request = true,
                     .devices = {device}}};
  plan.pools = {{.id = "gpu-00000001", .devices = {"GPU-1"}, .limits = {{"GPU-1", device.share}}}};
  plan.left_out = {{"GPU 1 (GPU-2)", "it is a display GPU"}};
  plan.notes = {
      "a long sentence that says a good many things about what a share is and is not, so that it has to be broken"};
  return plan;
}

TEST(PlanTable, ShowsTheLimitsOfASlot) {
  const std::string text = render_table(small_plan(), {}, {{"nvidia.com/gpu.count", "1"}}, {});
  EXPECT_THAT(text, HasSubstr("nvidia.com/gpu: 10, shared by mps, 10 slots a device, one a container"));
  EXPECT_THAT(text, HasSubstr("0       10     4096 MiB       10 (10 %)   gpu-00000001  GPU-1"));
  EXPECT_THAT(text, HasSubstr("nvidia.com/gpu.count=1"));
  EXPECT_THAT(text, HasSubstr("x GPU 1 (GPU-2): it is a display GPU"));
  EXPECT_THAT(text, testing::Not(HasSubstr("\x1b[")));
}

TEST(PlanTable, BreaksSentencesAtTheWidthAndPaintsOnRequest) {
  const std::string text = render_table(small_plan(), {}, {}, {.colour = false, .width = 60});
  const auto begin = text.find("Notes");
  const auto notes = lines_of(std::string_view(text).substr(begin, text.find("\n\n", begin) + 1 - begin));
  ASSERT_EQ(notes.size(), 3u) << text;
  for (const auto line : notes) EXPECT_LE(line.size(), 60u) << line;
  EXPECT_TRUE(notes[2].starts_with("    ")) << text;
  EXPECT_THAT(render_table(small_plan(), {}, {}, {.colour = true}), HasSubstr("\x1b[1mMPS pools\x1b[0m"));
}

TEST(PlanTable, SaysWhenThereIsNothing) {
  EXPECT_EQ(render_table({}, {}, {}, {}), "0 GPUs, driver unknown\n  none\n\nResources\n  none\n");
}

}  // namespace table_test
}  // namespace tranche::plan
