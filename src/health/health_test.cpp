#include "health/health.h"

#include <gmock/gmock.h>

namespace tranche::health {
namespace {

using std::chrono::minutes;
constexpr MonoTime kStart{};

TEST(Xid, ThoseThatNvidiasPluginIgnoresAreIgnored) {
  for (const auto xid : {13, 31, 43, 45, 68, 109})
    EXPECT_EQ(classify_xid(static_cast<std::uint64_t>(xid)), XidClass::kIgnore) << xid;
}

TEST(Xid, TheCatalogueDecidesAndTheUnknownDrains) {
  EXPECT_EQ(classify_xid(79), XidClass::kDrain);
  EXPECT_EQ(classify_xid(48), XidClass::kReset);
  EXPECT_EQ(classify_xid(63), XidClass::kIgnore);
  EXPECT_EQ(classify_xid(94), XidClass::kIgnore);
  EXPECT_EQ(classify_xid(95), XidClass::kReset);
  EXPECT_EQ(classify_xid(54), XidClass::kDrain);
  EXPECT_EQ(classify_xid(99999), XidClass::kDrain);
}

TEST(Book, AnApplicationFaultLeavesTheGpuHealthyButIsCounted) {
  Book book;
  book.xid("GPU-a", 31, kStart);
  EXPECT_TRUE(book.faults().empty());
  EXPECT_EQ(book.xid_counts().at({"GPU-a", 31}), 1u);
}

TEST(Book, RecoversAfterAQuietPeriodThatARepeatStartsAgain) {
  Book book({minutes(5)});
  book.xid("GPU-a", 54, kStart);
  EXPECT_EQ(book.next_change(), kStart + minutes(5));
  book.xid("GPU-a", 54, kStart + minutes(3));
  book.advance(kStart + minutes(5));
  EXPECT_EQ(book.faults().count("GPU-a"), 1u);
  book.advance(kStart + minutes(8));
  EXPECT_TRUE(book.faults().empty());
  EXPECT_EQ(book.next_change(), std::nullopt);
}

TEST(Book, AResetIsNotWaitedOutButSeen) {
  Book book({minutes(5)});
  book.xid("GPU-a", 95, kStart);
  book.xid("GPU-a", 54, kStart);  // a lesser one does not hide it
  book.advance(kStart + minutes(60));
  EXPECT_THAT(book.faults().at("GPU-a"), testing::HasSubstr("XID 95"));
  book.back("GPU-a", kStart + minutes(61));
  EXPECT_TRUE(book.faults().empty());
}

TEST(Book, ALostGpuComesBack) {
  Book book;
  book.lost("GPU-a", kStart);
  book.advance(kStart + minutes(60));
  EXPECT_THAT(book.faults().at("GPU-a"), testing::HasSubstr("lost"));
  book.back("GPU-a", kStart + minutes(61));
  EXPECT_TRUE(book.faults().empty());
}

TEST(Book, AnEventWithoutAGpuIsForAll) {
  Book book;
  book.xid("", 79, kStart);
  EXPECT_EQ(book.faults().count(kAnyGpu), 1u);
}

}  // namespace
}  // namespace tranche::health
