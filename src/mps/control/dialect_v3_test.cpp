#include <gmock/gmock.h>

#include "base/text.h"
#include "mps/control/dialect.h"

namespace tranche::mps {
namespace dialect_v3_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const std::string kGpu = "GPU-3f2a1b4c-0000-1111-2222-333344445555";
const std::string kServers = "name,uid,pid,status,pipe-directory\n";
const std::string kNamespaces = "name,server,pinned-memory-limit,active-thread-percentage,pipe-directory\n";

DaemonLimits limits() {
  DaemonLimits wanted{{{kGpu, mib(14377)}}, Percent::whole(10)};
  wanted.namespaces = {{"g1", {mib(4096), Percent::whole(25)}}};
  return wanted;
}

// Plays a list of replies; records all commands and the final event.
struct Talk {
  std::vector<std::string> commands;
  std::optional<Event> event;
  Talk(Exchange exchange, const std::vector<std::string>& replies) {
    for (const auto& reply : replies) {
      commands.push_back(join(exchange.run.words, " "));
      Onward onward = exchange.then(reply);
      if (auto* done = std::get_if<Event>(&onward)) {
        event = *done;
        return;
      }
      exchange = std::get<Exchange>(std::move(onward));
    }
  }
  template <class E>
  const E* came_to() const {
    return event ? std::get_if<E>(&*event) : nullptr;
  }
};

const Dialect& v3_dialect() {
  return dialect_of(Tier::kV3);
}

TEST(V3Dialect, StartsWithItsProtocolAndQuitsByAWord) {
  EXPECT_THAT(v3_dialect().daemon_options(true), ElementsAre("-f", "-p", "3", "-m"));
  EXPECT_EQ(v3_dialect().quit(std::chrono::seconds(10)), (mps::Run{{"--quit"}, ""}));
}

TEST(V3Dialect, MakesServerAndNamespacesThatAreNotThere) {
  const Talk talk(v3_dialect().apply({1, limits()}),
                  {kServers, "", kNamespaces + "default,pool,,,/p\n", "", "", "", "never asked"});
  EXPECT_NE(talk.came_to<LimitsApplied>(), nullptr);
  EXPECT_THAT(
      talk.commands,
      ElementsAre("server list --format=csv", "server create pool --uid=0", "namespace list --server=pool --format=csv",
                  "server set pool --pinned-memory-limit=14377M --active-thread-percentage=10",
                  "namespace create g1 --server=pool",
                  "namespace set g1 --server=pool --pinned-memory-limit=4096M --active-thread-percentage=25"));
}

TEST(V3Dialect, SendsNothingToWhatHoldsItAlready) {
  const Talk talk(
      v3_dialect().apply({1, limits()}),
      {kServers + "pool,0,77,Ready,/p\n", kNamespaces + "default,pool,14377M,10,/p\ng1,pool,4G,25,/p/g1\n"});
  EXPECT_NE(talk.came_to<LimitsApplied>(), nullptr);
  EXPECT_EQ(talk.commands.size(), 2u);
}

TEST(V3Dialect, SaysInTheDaemonsWordsWhatItWouldNotDo) {
  const Talk talk(v3_dialect().apply({1, limits()}),
                  {kServers + "pool,0,77,Ready,/p\n", kNamespaces + "default,pool,14377M,10,/p\ng1,pool,1G,25,/p/g1\n",
                   "Namespace g1 has clients\n"});
  const auto* failed = talk.came_to<QuestionFailed>();
  ASSERT_NE(failed, nullptr);
  EXPECT_THAT(failed->error.what, HasSubstr("says \"Namespace g1 has clients\""));
}

TEST(V3Dialect, ReadsBackTheServersLimitsAndEveryNamespaces) {
  const auto read = [](const std::string& rows) {
    const Talk talk(v3_dialect().read({3, limits()}), {kNamespaces + rows});
    const auto* values = talk.came_to<LimitsRead>();
    return values == nullptr ? std::string("not read") : disagreement(limits(), values->values);
  };
  EXPECT_EQ(read("default,pool,14377M,10,/p\ng1,pool,4G,25,/p/g1\n"), "");
  EXPECT_THAT(read("default,pool,14377M,10,/p\ng1,pool,8G,25,/p/g1\n"),
              HasSubstr("namespace g1 was set to 4096M and reads back as 8192M"));
  EXPECT_THAT(read("default,pool,14377M,10,/p\n"), HasSubstr("namespace g1 was made and is not listed"));
  EXPECT_NE(read("default,pool,,,/p\ng1,pool,4G,25,/p/g1\n"), "") << "the server's own socket has no limits";
}

TEST(V3Dialect, SeesTheServerWithItsClientsAndWhenItIsGone) {
  const Talk asked(v3_dialect().ask(7, limits()),
                   {kServers + "pool,0,77,Ready,/p\nuid_0,0,78,Ready,/q\n",
                    kNamespaces + "default,pool,14377M,10,/p\ng1,pool,4G,25,/p/g1\n",
                    "pid,server,device,namespace,command\n101,pool,x,g1,python\n102,uid_0,x,,a\n"});
  const auto* answered = asked.came_to<Answered>();
  ASSERT_NE(answered, nullptr);
  ASSERT_EQ(answered->servers.size(), 1u);
  EXPECT_EQ(answered->servers[0].pid, 77);
  EXPECT_EQ(answered->servers[0].status, "ACTIVE");
  EXPECT_THAT(answered->servers[0].clients, ElementsAre(101));
  EXPECT_EQ(answered->missing, "");
  const Talk gone(v3_dialect().ask(7, limits()), {kServers});
  ASSERT_NE(gone.came_to<Answered>(), nullptr);
  EXPECT_EQ(gone.came_to<Answered>()->missing, "the daemon has no server for this pool");
  EXPECT_NE(Talk(v3_dialect().ask(7, limits()), {"who knows"}).came_to<QuestionFailed>(), nullptr);
}

TEST(V3Dialect, MissesANamespaceThatSomebodyDeleted) {
  const Talk asked(v3_dialect().ask(7, limits()),
                   {kServers + "pool,0,77,Ready,/p\n", kNamespaces + "default,pool,14377M,10,/p\n",
                    "pid,server,namespace\n101,pool,g1\n"});
  const auto* answered = asked.came_to<Answered>();
  ASSERT_NE(answered, nullptr);
  EXPECT_EQ(answered->missing, "the daemon has no namespace g1");
  EXPECT_THAT(answered->servers[0].clients, ElementsAre(101));
}

}  // namespace dialect_v3_test
}  // namespace tranche::mps
