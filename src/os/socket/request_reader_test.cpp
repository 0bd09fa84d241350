#include "os/socket/request_reader.h"

#include <gmock/gmock.h>

namespace tranche::os {
namespace {

TEST(Request, LinesComeWholeHoweverTheBytesArrive) {
  RequestReader reader;
  reader.take("sta");
  EXPECT_FALSE(reader.next());
  reader.take("tus\r\n\n  watch \npl");
  EXPECT_EQ(reader.next().value(), "status");
  EXPECT_EQ(reader.next().value(), "watch");
  EXPECT_FALSE(reader.next());
  reader.take("an\n");
  EXPECT_EQ(reader.next().value(), "plan");
}

TEST(Request, ALineThatIsTooLongIsRefusedBeforeItEnds) {
  RequestReader reader;
  reader.take(std::string(RequestReader::kLongest, 'a'));
  EXPECT_FALSE(reader.next());
  reader.take("a");
  const auto request = reader.next();
  ASSERT_TRUE(request);
  EXPECT_EQ(request->error().kind, Kind::kInvalid);
}

TEST(Request, ALineThatIsTooLongIsRefusedEvenWhenItArrivesWithItsEnd) {
  RequestReader reader;
  reader.take(std::string(RequestReader::kLongest + 1, 'a') + "\n");
  ASSERT_FALSE(reader.next().value());
}

TEST(Request, ControlCharactersAreRefused) {
  RequestReader reader;
  reader.take("sta\x1b[31mtus\n");
  const auto request = reader.next();
  ASSERT_TRUE(request);
  ASSERT_FALSE(*request);
  EXPECT_THAT(request->error().what, ::testing::HasSubstr("\\x1b"));
}

}  // namespace
}  // namespace tranche::os
