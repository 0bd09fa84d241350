#include "mps/control/questions.h"

#include <gmock/gmock.h>

namespace tranche::mps {
namespace questions_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const std::string kGpu = "GPU-3f2a1b4c-0000-1111-2222-333344445555";
const DaemonLimits kLimits{{{kGpu, mib(14377)}}, Percent::whole(10)};

// Plays a list of replies; records the inputs of all runs and the final event.
struct Talk {
  std::vector<std::string> inputs;
  std::optional<Event> event;
  Talk(Exchange exchange, const std::vector<std::string>& replies) {
    for (const auto& reply : replies) {
      inputs.push_back(exchange.input);
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

TEST(Questions, StartAndAskTheDaemon) {
  EXPECT_THAT(daemon_options(false), ElementsAre("-f"));
  EXPECT_THAT(daemon_options(true), ElementsAre("-f", "-M"));
  EXPECT_EQ(quit_daemon(std::chrono::seconds(10)), "quit -t 10\n");
  const Talk asked(exchange_for(Ask{kLimits}),
                   {"10.0\n14G\n12\n13\n", "ACTIVE\n10.0\n14G\n101\n", "Server 13 not found\n"});
  const auto* answered = asked.came_to<Answered>();
  ASSERT_NE(answered, nullptr);
  EXPECT_EQ(answered->defaults, (DaemonLimits{{{kGpu, gib(14)}}, Percent::whole(10)}));
  ASSERT_EQ(answered->servers.size(), 1u) << "one that ended in between is nobody's fault";
  EXPECT_EQ(answered->servers[0].pid, 12);
  EXPECT_THAT(answered->servers[0].clients, ElementsAre(101));
}

TEST(Questions, SetLimitsAndReadThemBack) {
  const Talk applied(exchange_for(ApplyLimits{kLimits}), {"10.0\n", "10.0\n14G\n"});
  ASSERT_NE(applied.came_to<Answered>(), nullptr);
  EXPECT_EQ(applied.came_to<Answered>()->defaults, (DaemonLimits{{{kGpu, gib(14)}}, Percent::whole(10)}));
  const Talk refused(exchange_for(ApplyLimits{kLimits}), {"Insufficient privileges for UID 7.\n"});
  ASSERT_NE(refused.came_to<QuestionFailed>(), nullptr);
  EXPECT_EQ(refused.came_to<QuestionFailed>()->error.kind, Kind::kDenied);
  const Talk of_server(exchange_for(ApplyLimits{kLimits, 12}), {"Server 12 not found\n", "10.0\n14G\n"});
  EXPECT_NE(of_server.came_to<Answered>(), nullptr) << "it has exited, which is not the daemon's fault";
}

}  // namespace questions_test
}  // namespace tranche::mps
