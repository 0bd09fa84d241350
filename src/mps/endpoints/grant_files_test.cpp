#include "mps/endpoints/endpoints.h"

#include <gmock/gmock.h>
#include <sys/stat.h>

#include "os/files/files.h"
#include "os/files/scratch_fixture.h"

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
  grants::Paths paths_{scratch_.path()};
  GrantFiles files_{paths_, "gpu-1"};
};

TEST_F(GrantFilesTest, LimitsAreKeptWhereOnlyWeCanReadThem) {
  EXPECT_EQ(*files_.read(kGrant), EndpointTerms());
  const EndpointTerms terms{.limits = kLimits, .pod = "3f-2a"};
  ASSERT_TRUE(files_.keep(kGrant, terms));
  EXPECT_EQ(*files_.read(kGrant), terms);
  EXPECT_EQ(mode_of(paths_.pool("gpu-1") + "/limits"), 0700u);
  EXPECT_EQ(mode_of(paths_.pool("gpu-1") + "/limits/" + kGrant), 0600u);
  EXPECT_EQ(paths_.endpoints("gpu-1").find("/limits"), std::string::npos) << "a container sees its endpoint";
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(files_.keep(kGrant, {}));
    EXPECT_EQ(*files_.read(kGrant), EndpointTerms());
  }
}

TEST_F(GrantFilesTest, LimitsThatCannotBeReadAreAnErrorAndNotNothing) {
  const auto dir = os::Dir::create(paths_.pool("gpu-1") + "/limits");
  for (const std::string& text : {std::string("GPU-3f2a"), std::string(R"({"limits":[]})"),
                                  std::string(R"({"memory":1})"), std::string(1 << 20, 'x')}) {
    ASSERT_TRUE(dir->write_atomically(kGrant, text));
    const auto read = files_.read(kGrant);
    ASSERT_FALSE(read);
    EXPECT_THAT(to_string(read.error()), HasSubstr("the grant's limits cannot be read"));
  }
}

}  // namespace grant_files_test
}  // namespace tranche::mps
