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
  const std::string folder_ = paths_.pool("gpu-1") + "/limits";
};

TEST_F(GrantFilesTest, LimitsAreKeptWhereOnlyWeCanReadThem) {
  EXPECT_EQ(*read_terms(folder_, kGrant), EndpointTerms());
  const EndpointTerms terms{.limits = kLimits, .pod = "3f-2a"};
  ASSERT_TRUE(keep_terms(folder_, kGrant, terms));
  EXPECT_EQ(*read_terms(folder_, kGrant), terms);
  EXPECT_EQ(mode_of(folder_), 0700u);
  EXPECT_EQ(mode_of(folder_ + "/" + kGrant), 0600u);
  EXPECT_EQ(paths_.endpoints("gpu-1").find("/limits"), std::string::npos) << "a container sees its endpoint";
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(keep_terms(folder_, kGrant, {}));
    EXPECT_EQ(*read_terms(folder_, kGrant), EndpointTerms());
  }
}

TEST_F(GrantFilesTest, LimitsThatCannotBeReadAreAnErrorAndNotNothing) {
  const auto dir = os::Dir::create(folder_);
  for (const std::string& text : {std::string("GPU-3f2a"), std::string(R"({"limits":[]})"),
                                  std::string(R"({"memory":1})"), std::string(1 << 20, 'x')}) {
    ASSERT_TRUE(dir->write_atomically(kGrant, text));
    const auto read = read_terms(folder_, kGrant);
    ASSERT_FALSE(read);
    EXPECT_THAT(to_string(read.error()), HasSubstr("the grant's limits cannot be read"));
  }
}

}  // namespace grant_files_test
}  // namespace tranche::mps
