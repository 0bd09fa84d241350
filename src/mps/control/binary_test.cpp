#include "mps/control/control_client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "mps/daemon/adoption.h"
#include "os/files/scratch_fixture.h"

namespace tranche::mps {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

TEST(ControlBinary, IsLookedForInTheDriverRootThenInThePath) {
  EXPECT_THAT(
      candidates({"", "/driver-root/", "/opt/bin:relative:/usr/sbin/"}),
      ElementsAre("/driver-root/usr/bin/nvidia-cuda-mps-control", "/driver-root/usr/local/bin/nvidia-cuda-mps-control",
                  "/driver-root/usr/local/nvidia/bin/nvidia-cuda-mps-control", "/opt/bin/nvidia-cuda-mps-control",
                  "/usr/sbin/nvidia-cuda-mps-control"));
  EXPECT_THAT(candidates({"/x/mps", "/driver-root", "/opt/bin"}), ElementsAre("/x/mps"));
}

TEST(ControlBinary, ThatIsNowhereNamesEveryPlaceAndTheRemedy) {
  const os::Scratch scratch;
  const auto found = find_control_binary({"", scratch.path(), scratch.path()});
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().kind, Kind::kNotFound);
  EXPECT_THAT(found.error().what, HasSubstr("--mps-control"));
  EXPECT_THAT(found.error().where, HasSubstr(scratch.path() + "/usr/bin/nvidia-cuda-mps-control"));
}

TEST(ControlBinary, GetsOnlyWhatIsHandedOn) {
  EXPECT_THAT(handed_on({{"PATH", "/bin"},
                         {"LD_LIBRARY_PATH", "/lib"},
                         {"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "5"},
                         {"HOME", "/root"},
                         {"TRANCHE_X", "1"}}),
              ElementsAre(Pair("LD_LIBRARY_PATH", "/lib"), Pair("PATH", "/bin"), Pair("TRANCHE_X", "1")));
}

Result<ControlBinary> described(const std::string& path) {
  const auto loop = *os::Loop::open();
  std::optional<Result<ControlBinary>> got;
  std::unique_ptr<Question> question;
  describe_control_binary(*loop, {.path = path, .env = {}}, question, [&](Result<ControlBinary> binary) {
    got = std::move(binary);
    loop->stop();
  });
  loop->run();
  return *got;
}

// Promise: mps/control: The program's help decides whether one server may serve all users.
TEST(ControlBinary, ReportsWhetherItServesAllUsers) {
  const auto got = described(std::string(std::getenv("TRANCHE_BUILD")) + "/standins/nvidia-cuda-mps-control");
  ASSERT_TRUE(got) << to_string(got.error());
  EXPECT_TRUE(got->offers_multiuser);
}

TEST(ControlBinary, ThatCannotRunIsAnError) {
  const auto got = described("/nowhere/at/all");
  ASSERT_FALSE(got);
  EXPECT_THAT(got.error().what, HasSubstr("cannot learn about the MPS control program"));
}

TEST(Environ, IsReadPieceByPiece) {
  EXPECT_THAT(parse_environ(std::string_view("A=1\0B=x=y\0junk\0=z\0", 17)),
              ElementsAre(Pair("A", "1"), Pair("B", "x=y")));
  EXPECT_TRUE(parse_environ("").empty());
}

TEST(AdoptableDaemon, IsOfAUserByAllFourOfItsIds) {
  EXPECT_TRUE(is_of_user("Name:\tx\nUid:\t0\t0\t0\t0\nGid:\t0\t0\t0\t0\n", 0));
  EXPECT_TRUE(is_of_user("Uid:\t1001\t1001\t1001\t1001", 1001));
  EXPECT_FALSE(is_of_user("Uid:\t0\t65534\t0\t0\n", 0));
  EXPECT_FALSE(is_of_user("Name:\tUid: 0 0 0 0\n", 0));
  EXPECT_FALSE(is_of_user("Uid:", 0));
  EXPECT_FALSE(is_of_user("", 0));
}

}  // namespace
}  // namespace tranche::mps
