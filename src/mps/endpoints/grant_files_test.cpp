#include "mps/endpoints/endpoints.h"

#include <gmock/gmock.h>
#include <sys/stat.h>

#include "os/files/files.h"
#include "os/files/scratch.h"

namespace tranche::mps {
namespace grant_files_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const std::string kGrant = "0011223344556677";
const GrantLimits kLimits{{"GPU-3f2a1b4c-0000-1111-2222-333344445555", mib(7188), Percent{500}}};

class GrantFilesTest : public ::testing::Test {
 protected:
  mode_t mode_of(const std::string& path) {
    struct stat status{};
    return ::stat(path.c_str(), &status) == 0 ? status.st_mode & 07777u : 0u;
  }
  os::Scratch scratch_;
  allocate::Paths paths_{scratch_.path()};
  GrantFiles files_{paths_, "gpu-1"};
};

TEST_F(GrantFilesTest, LimitsAreKeptWhereOnlyWeCanReadThem) {
  EXPECT_EQ(*files_.limits(kGrant), std::nullopt);
  ASSERT_TRUE(files_.write_limits(kGrant, kLimits));
  EXPECT_EQ(**files_.limits(kGrant), kLimits);
  EXPECT_EQ(mode_of(paths_.pool("gpu-1") + "/limits"), 0700u);
  EXPECT_EQ(mode_of(paths_.pool("gpu-1") + "/limits/" + kGrant), 0600u);
  EXPECT_EQ(paths_.endpoints("gpu-1").find("/limits"), std::string::npos) << "a container sees its endpoint";
  ASSERT_TRUE(files_.remove(kGrant));
  EXPECT_EQ(*files_.limits(kGrant), std::nullopt);
  EXPECT_TRUE(files_.remove(kGrant)) << "again";
}

TEST_F(GrantFilesTest, LimitsThatCannotBeReadAreAnErrorAndNotNothing) {
  ASSERT_TRUE(files_.write_limits(kGrant, kLimits));
  const auto dir = os::Dir::open(paths_.pool("gpu-1") + "/limits");
  ASSERT_TRUE(dir->write_atomically(kGrant, "GPU-3f2a"));
  const auto read = files_.limits(kGrant);
  ASSERT_FALSE(read);
  EXPECT_THAT(to_string(read.error()), HasSubstr("the grant's limits cannot be read"));
  ASSERT_TRUE(dir->write_atomically(kGrant, std::string(1 << 20, 'x')));
  EXPECT_FALSE(files_.limits(kGrant));
}

TEST_F(GrantFilesTest, FilesOfNoEndpointAreSwept) {
  ASSERT_TRUE(files_.write_limits(kGrant, kLimits));
  ASSERT_TRUE(files_.write_limits("8899aabbccddeeff", kLimits));
  ASSERT_TRUE(files_.sweep({kGrant}));
  EXPECT_THAT(os::Dir::open(paths_.pool("gpu-1") + "/limits")->list().value(), ElementsAre(kGrant));
  EXPECT_TRUE(GrantFiles(paths_, "gpu-2").sweep({})) << "no such pool";
}

}  // namespace grant_files_test
}  // namespace tranche::mps
