#include "simulate/land.h"

#include <gmock/gmock.h>

namespace tranche::simulate {
namespace {

using ::testing::HasSubstr;

TEST(SimulationTable, SaysHowManyLandAndWhyOthersDoNot) {
  Simulation simulation;
  simulation.pods.push_back(
      {"default", "a", Fate::kLands, {{"m", Role::kMain, "nvidia.com/gpu", "", {}, {{"u", "0", 1, {}}}}}, {}, {}, {}});
  simulation.pods.push_back({"default", "b", Fate::kWaits, {}, {}, {"asks 2 and 1 is free"}, {}});
  simulation.pods.push_back({"default", "c", Fate::kUnknown, {}, {}, {"asks for more"}, {}});
  simulation.elsewhere = 1;
  const std::string text = render_table(simulation, {});
  EXPECT_THAT(text, HasSubstr("3 pods: 1 lands, 1 waits, 1 requests a resource that the node does not have\n"));
  EXPECT_THAT(text, HasSubstr("default/a  lands    m          nvidia.com/gpu  1      0    not limited  not limited\n"));
  EXPECT_THAT(text, HasSubstr("  - default/b: asks 2 and 1 is free\n  x default/c: asks for more\n"));
  EXPECT_THAT(text, HasSubstr("not shown: 1 pod on other nodes\n"));
  EXPECT_THAT(text, testing::Not(HasSubstr("other pod ")));
}

TEST(SimulationTable, WithoutDevicesOrPodsThereIsNothingToShow) {
  const std::string text = render_table(Simulation{}, {});
  EXPECT_THAT(text, HasSubstr("0 pods: 0 land\n  no pod requests"));
  EXPECT_THAT(text, HasSubstr("the device plugin offers no slots\n"));
}

TEST(SimulationTable, FoldsTheGpusOfADifference) {
  const std::vector<Difference> differences{{"nvidia.com/gpu", {"0", "1", "2", "5"}, "slots", "4", "10"},
                                            {"nvidia.com/mig-1g", {"0:1", "0:2"}, "", "", "1 slot"},
                                            {"note", {}, "", "old", ""},
                                            {"pod default/a", {}, "", "waits", "1 on GPU 0"}};
  const std::string text = render_table(differences, "a.yaml", "b.yaml", {});
  EXPECT_THAT(text, HasSubstr("4 differences from a.yaml to b.yaml\n"));
  EXPECT_THAT(text, HasSubstr("nvidia.com/gpu     0-2, 5    slots  4       10\n"));
  EXPECT_THAT(text, HasSubstr("nvidia.com/mig-1g  0:1, 0:2         -       1 slot\n"));
  EXPECT_THAT(text,
              HasSubstr("  - note: old\n\nPods that land differently\n  default/a\n    - waits\n    + 1 on GPU 0\n"));
  EXPECT_EQ(render_table(std::vector<Difference>{}, "a.yaml", "b.yaml", {}), "a.yaml and b.yaml do not differ\n");
}

}  // namespace
}  // namespace tranche::simulate
