#include "mps/protocol/requests.h"

#include <gmock/gmock.h>

namespace tranche::mps {
namespace replies_test {

using testing::HasSubstr;

const std::vector<Terminated> kReply{{7, TerminateOutcome::kTerminated, ""}, {8, TerminateOutcome::kRefused, "no"}};

TEST(MpsReplies, AreOneLineOfJson) {
  EXPECT_EQ(done_reply(), R"({"ok":true})");
  EXPECT_EQ(error_reply({Kind::kNotFound, "no such pool", "gpu-1", 0}),
            R"({"ok":false,"error":"no such pool [gpu-1]"})");
  EXPECT_EQ(end_reply(kReply), R"({"ok":true,"clients":[{"pid":7,"outcome":"terminated","note":""},)"
                               R"({"pid":8,"outcome":"refused","note":"no"}]})");
}

TEST(MpsReplies, AreReadAsTheyAreWritten) {
  const auto read = read_reply(end_reply(kReply));
  ASSERT_TRUE(read) << to_string(read.error());
  EXPECT_EQ(*read, kReply);
  EXPECT_TRUE(read_reply(done_reply()));
}

TEST(MpsReplies, WithoutAConfirmationAreErrors) {
  for (const char* line : {"", "[]", "{}", "{", R"({"ok":1})", R"({"ok":false})"})
    EXPECT_EQ(read_reply(line).error().kind, Kind::kInvalid) << line;
  const auto refused = read_reply(R"({"ok":false,"error":"no such pool"})").error();
  EXPECT_EQ(refused.kind, Kind::kUnavailable);
  EXPECT_THAT(refused.what, HasSubstr("no such pool"));
  EXPECT_THAT(to_string(read_reply(R"({"error":"unknown request"})").error()), HasSubstr("unknown request"));
  for (const char* client : {R"({"pid":7})", R"({"pid":7,"outcome":"gone"})", R"({"outcome":"terminated"})",
                             R"({"pid":-7,"outcome":"terminated"})", R"({"pid":99999999999,"outcome":"terminated"})"})
    EXPECT_FALSE(read_reply(std::string(R"({"ok":true,"clients":[)") + client + "]}")) << client;
}

}  // namespace replies_test
}  // namespace tranche::mps
