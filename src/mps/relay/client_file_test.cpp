#include "mps/relay/relay.h"

#include <gtest/gtest.h>

namespace tranche::mps {
namespace {

TEST(ClientFile, IsReadAsItWasWritten) {
  const StoredClients stored{.boot = "b-1",
                             .clients = {{.pid = 7,
                                          .started = 100,
                                          .place_with = 9,
                                          .grant = "00ff",
                                          .container = "pod p c",
                                          .connections = {{.channels = {"pipe:[1]", "pipe:[2]"}, .own = true},
                                                          {.channels = {"pipe:[3]"}, .context = 1, .named = true},
                                                          {.context = 2, .named = true},
                                                          {.context = 4294967295u, .named = true},
                                                          {.channels = {"pipe:[4]"}}}},
                                         {.pid = 8, .started = 18446744073709551615u, .tries = 3}}};
  EXPECT_EQ(render_clients(stored),
            "boot\tb-1\n"
            "7\t100\t0\t9\t00ff\town pipe:[1] pipe:[2];1 pipe:[3];2;4294967295;- pipe:[4]\tpod p c\n"
            "8\t18446744073709551615\t3\t0\t\t\t\n");
  EXPECT_EQ(parse_clients(render_clients(stored)), stored);
}

TEST(ClientFile, LinesThatAreNoClientsArePassedOver) {
  for (const auto* line : {"", "boot", "0\t1\t0\t0\tg\t\tc", "1\tx\t0\t0\tg\t\tc", "1\t1\tx\t0\tg\t\tc",
                           "1\t1\t0\t2147483648\tg\t\tc", "1\t1\t0\t0\tg\tx pipe:[1]\tc", "1\t1\t0\t0\tg\t\tc\t"})
    EXPECT_EQ(parse_clients(line), StoredClients{}) << line;
}

TEST(ClientFile, AContainerThatWouldEndTheLineIsLeftOut) {
  EXPECT_EQ(render_clients({"b", {{.pid = 7, .grant = "g", .container = "pod\n9"}}}), "boot\tb\n7\t0\t0\t0\tg\t\t\n");
}

}  // namespace
}  // namespace tranche::mps
