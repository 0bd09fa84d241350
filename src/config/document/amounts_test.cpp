#include "config/document/amounts.h"

#include <gtest/gtest.h>

namespace tranche::config {
namespace quantity_test {

TEST(Quantity, SizesOfMemoryAreThoseOfKubernetesInWholeMiB) {
  EXPECT_EQ(parse_memory_size("4Gi"), gib(4));
  EXPECT_EQ(parse_memory_size("600Mi"), mib(600));
  EXPECT_EQ(parse_memory_size("1.5Gi"), mib(1536));
  EXPECT_EQ(parse_memory_size("1Ti"), gib(1024));
  EXPECT_EQ(parse_memory_size("4G"), mib(3814)) << "a thousand each, rounded down";
  EXPECT_EQ(parse_memory_size("2M"), mib(1));
}

TEST(Quantity, NothingIsGuessed) {
  for (const char* bad : {"", "4", "Gi", "4 Gi", "-4Gi", "4gi", "4GB", "4GiB", "0Gi", "0.5Mi", "1M", "1.2345Gi", "1.Gi",
                          ".5Gi", "1e3Mi", "99999999999999999999Gi", "2000Ti", "999999999Ti"})
    EXPECT_FALSE(parse_memory_size(bad)) << bad;
}

TEST(Quantity, SizesAreReadBack) {
  for (const Bytes size : {mib(1), mib(600), gib(4), gib(4) + mib(1), mib(3814), gib(1024)})
    EXPECT_EQ(parse_memory_size(render_memory_size(size)), size);
}

TEST(Quantity, FactorsHaveTwoPlaces) {
  EXPECT_EQ(read_factor(Scalar{std::int64_t{2}}), 200u);
  EXPECT_EQ(read_factor(Scalar{1.5}), 150u);
  EXPECT_EQ(read_factor(Scalar{0.07}), 7u);
  EXPECT_EQ(read_factor(Scalar{std::int64_t{100}}), 10000u);
  for (const Scalar& bad : {Scalar{std::int64_t{0}}, Scalar{std::int64_t{101}}, Scalar{-1.5}, Scalar{1.234},
                            Scalar{std::string("2")}, Scalar{true}, Scalar{}})
    EXPECT_FALSE(read_factor(bad));
  EXPECT_EQ(to_string(Percent{150}), "1.5");
}

}  // namespace quantity_test
}  // namespace tranche::config
