#include "mps/relay/client_file.h"

#include <gtest/gtest.h>

namespace tranche::mps {
namespace {

TEST(ClientFile, IsReadAsItWasWritten) {
  const StoredClients stored{.boot = "b-1",
                             .clients = {{7,
                                          100,
                                          ClientKind::kOwn,
                                          0,
                                          9,
                                          "00ff",
                                          {1, 2, 4294967295u},
                                          {{"pipe:[1]", "pipe:[2]"}, {"pipe:[3]"}},
                                          "pod p c"},
                                         {8, 18446744073709551615u, ClientKind::kEarlier, 3, 0, "", {}, {}, ""}}};
  EXPECT_EQ(render_clients(stored),
            "boot b-1\n"
            "7 100 own 0 9 00ff 1,2,4294967295 pipe:[1],pipe:[2];pipe:[3] pod p c\n"
            "8 18446744073709551615 earlier 3 0 - - - -\n");
  EXPECT_EQ(parse_clients(render_clients(stored)), stored);
}

TEST(ClientFile, LinesThatAreNotUnderstoodArePassedOver) {
  EXPECT_EQ(parse_clients(
                "7 100 own 0 0 g 1 pipe:[1]\n0 1 own 0 0 g - - c\n1 1 old 0 0 g - - c\n1 x own 0 0 g - - c\n\nboot \n"),
            StoredClients{});
  EXPECT_EQ(parse_clients("7 1 new 0 0 g 1,x,4294967296,2 a,,b;-;d c\n").clients,
            (std::vector<StoredClient>{{7, 1, ClientKind::kNew, 0, 0, "g", {1, 2}, {{"a", "b"}, {}, {"d"}}, "c"}}));
}

TEST(ClientFile, TextThatDoesNotFitIsLeftOut) {
  const StoredClients stored{
      "a b", {{7, 1, ClientKind::kNew, 0, 0, "g g", {}, {{"pipe 1", "a,b", "a;b", "c"}}, "pod\n9 9 own"}}};
  EXPECT_EQ(render_clients(stored), "boot -\n7 1 new 0 0 - - c -\n");
}

}  // namespace
}  // namespace tranche::mps
