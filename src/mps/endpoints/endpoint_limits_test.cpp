#include "mps/endpoints/endpoint_limits.h"

#include <gmock/gmock.h>
#include <sys/stat.h>

#include "os/files/files.h"
#include "os/files/scratch.h"

namespace tranche::agent {
namespace endpoint_limits_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const EndpointName kEndpoint{"gpu-1", "0011223344556677"};
const mps::GrantLimits kLimits{{"GPU-3f2a1b4c-0000-1111-2222-333344445555", mib(7188), Percent{500}}};

class EndpointLimits : public ::testing::Test {
 protected:
  mode_t mode_of(const std::string& path) {
    struct stat status{};
    return ::stat(path.c_str(), &status) == 0 ? status.st_mode & 07777u : 0u;
  }
  host::Scratch scratch_;
  allocate::Paths paths_{scratch_.path()};
};

TEST_F(EndpointLimits, AreKeptWhereOnlyWeCanReadThem) {
  EXPECT_EQ(*read_endpoint_limits(paths_, kEndpoint), std::nullopt);
  ASSERT_TRUE(write_endpoint_limits(paths_, kEndpoint, kLimits));
  EXPECT_EQ(**read_endpoint_limits(paths_, kEndpoint), kLimits);
  EXPECT_EQ(mode_of(paths_.pool("gpu-1") + "/limits"), 0700u);
  EXPECT_EQ(mode_of(paths_.pool("gpu-1") + "/limits/" + kEndpoint.grant), 0600u);
  EXPECT_EQ(paths_.endpoints("gpu-1").find("/limits"), std::string::npos) << "a container sees its endpoint";
  ASSERT_TRUE(remove_endpoint_limits(paths_, kEndpoint));
  EXPECT_EQ(*read_endpoint_limits(paths_, kEndpoint), std::nullopt);
  EXPECT_TRUE(remove_endpoint_limits(paths_, kEndpoint)) << "again";
}

TEST_F(EndpointLimits, ThatCannotBeReadAreAnErrorAndNotNothing) {
  ASSERT_TRUE(write_endpoint_limits(paths_, kEndpoint, kLimits));
  const auto dir = host::Dir::open(paths_.pool("gpu-1") + "/limits");
  ASSERT_TRUE(dir->write_atomically(kEndpoint.grant, "GPU-3f2a"));
  const auto read = read_endpoint_limits(paths_, kEndpoint);
  ASSERT_FALSE(read);
  EXPECT_THAT(to_string(read.error()), HasSubstr("the grant's limits cannot be read"));
  ASSERT_TRUE(dir->write_atomically(kEndpoint.grant, std::string(1 << 20, 'x')));
  EXPECT_FALSE(read_endpoint_limits(paths_, kEndpoint));
}

TEST_F(EndpointLimits, OfNoEndpointAreSwept) {
  ASSERT_TRUE(write_endpoint_limits(paths_, kEndpoint, kLimits));
  ASSERT_TRUE(write_endpoint_limits(paths_, {"gpu-1", "8899aabbccddeeff"}, kLimits));
  ASSERT_TRUE(sweep_endpoint_limits(paths_, "gpu-1", {kEndpoint.grant}));
  EXPECT_THAT(host::Dir::open(paths_.pool("gpu-1") + "/limits")->list().value(), ElementsAre(kEndpoint.grant));
  EXPECT_TRUE(sweep_endpoint_limits(paths_, "gpu-2", {})) << "no such pool";
}

}  // namespace endpoint_limits_test
}  // namespace tranche::agent
