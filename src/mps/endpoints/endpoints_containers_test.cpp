// Which container a request to terminate clients comes from, and which clients are in it.
#include "damage.h"
#include "mps/endpoints/container_fixture.h"
#include "mps/endpoints/containers.h"
#include "mps/endpoints/endpoints_fixture.h"
#include "os/clock/clock.h"
#include "sanitized.h"

namespace tranche::agent {
namespace endpoints_test {

void use_processor(Duration time) {
  for (const host::CpuBudget used(time); !used.spent();) continue;
}

class EndpointsOfContainers : public EndpointsTest {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "needs root for a mount namespace";
    EndpointsTest::SetUp();
  }
  std::string answer_of(const Container& container, char what) {
    container.request(what);
    EXPECT_TRUE(until([&] { return readable(container.fd()); }));
    find_server();
    return container.said();
  }
};

TEST_F(EndpointsOfContainers, ADrainedContainerComesInNoMoreAndItsSuccessorDoesAtOnce) {
  Container old(paths_.endpoint(kPool, kGrant));
  const Container next(paths_.endpoint(kPool, kGrant));
  open();
  EXPECT_EQ(answer_of(old, 'c'), "in");
  old.request('d');
  ASSERT_TRUE(until([&] { return !asked_.empty(); }));
  done_(well(asked_[0]));
  ASSERT_TRUE(until([&] { return readable(old.fd()); }));
  EXPECT_EQ(Json::parse(old.said())["clients"].size(), 1u);
  EXPECT_EQ(answer_of(old, 'c'), "out");
  EXPECT_EQ(document()["endpoints"][0]["admitting"], false);
  EXPECT_EQ(answer_of(next, 'c'), "in") << "another container under the same grant";
  old.kill();
  EXPECT_TRUE(until([&] { return document()["endpoints"][0]["admitting"] == true; })) << "its init has ended";
}

// Promise: stop: Clients are stopped before the search for their container's first process.
TEST_F(EndpointsOfContainers, OfAContainerThatIsSignalledAreStoppedBeforeAnythingElse) {
  Container container(paths_.endpoint(kPool, kGrant));
  open();
  ASSERT_EQ(answer_of(container, 'c'), "in");
  continues_ = false;
  endpoints_->answer(R"({"do":"drain","pool":"gpu-1","grant":"0011223344556677","spare":true,"signal":15})",
                     [](const std::string&) {});
  const auto stopped = [&] { return host::look_at_process(container.first())->state == 'T'; };
  EXPECT_TRUE(asked_.empty()) << "the first process is not known yet";
  ASSERT_TRUE(until([&] { return stopped() || !asked_.empty(); }));
  ASSERT_TRUE(until([&] { return !asked_.empty(); }));
  EXPECT_TRUE(stopped());
  EXPECT_THAT(asked_, ElementsAre(ElementsAre(container.first())));
  container.kill();
}

// Promise: stop: A drained container stays closed over a restart of `tranche mps`, until its first process has exited.
TEST_F(EndpointsOfContainers, ADrainedContainerStaysClosedOverARestart) {
  Container container(paths_.endpoint(kPool, kGrant));
  open();
  EXPECT_THAT(answer_of(container, 'd'), HasSubstr("\"ok\":true"));
  endpoints_.reset();
  make();
  ASSERT_TRUE(endpoints_->open_pool(kPool));
  EXPECT_EQ(answer_of(container, 'c'), "out");
  EXPECT_EQ(document()["endpoints"][0]["admitting"], false);
  const std::string file = paths_.pool(kPool) + "/limits/" + kGrant + ".closed";
  EXPECT_TRUE(fs::exists(file));
  container.kill();
  EXPECT_TRUE(until([&] { return document()["endpoints"][0]["admitting"] == true; }));
  EXPECT_FALSE(fs::exists(file));
}

TEST_F(EndpointsOfContainers, WhateverBecameOfTheFileOfClosedContainersItCostsThatFactOnly) {
  const Container container(paths_.endpoint(kPool, kGrant));
  open();
  for (const auto& kind : all_damage()) {
    SCOPED_TRACE(kind.name);
    EXPECT_THAT(answer_of(container, 'd'), HasSubstr("\"ok\":true"));
    kind.spoil(paths_.pool(kPool) + "/limits/" + kGrant + ".closed");
    endpoints_.reset();
    make();
    EXPECT_THAT(answer_of(container, 'd'), HasSubstr("\"ok\":true"));
    endpoints_.reset();
    make();
    EXPECT_EQ(document()["endpoints"][0]["admitting"], false) << "the next is written";
  }
}

const std::string kOtherGrant = "8899aabbccddeeff";

// Promise: stop: A container's clients of all endpoints end together with its first process.
TEST_F(EndpointsOfContainers, WithTheFirstProcessOfAContainerEndItsClientsOfAllGrants) {
  Container container(paths_.endpoint(kPool, kGrant), true);
  const Container through_another(paths_.endpoint(kPool, kOtherGrant), false, container.first());
  const Container later(paths_.endpoint(kPool, kOtherGrant), false, container.first());
  const Container neighbour(paths_.endpoint(kPool, kGrant), true);
  open();
  ASSERT_TRUE(endpoints_->open_endpoint({kPool, kOtherGrant}));
  for (const Container* each : std::vector<const Container*>{&container, &through_another, &neighbour})
    ASSERT_EQ(answer_of(*each, 'c'), "in");
  const auto first = *host::process_ref(container.first()), other = *host::process_ref(through_another.first());
  EXPECT_FALSE(endpoints_->killed_with({other})) << "it is the first of nothing";
  EXPECT_EQ(answer_of(later, 'c'), "in");
  const auto last = *host::process_ref(later.first());
  const auto killed = endpoints_->killed_with({first});
  ASSERT_TRUE(killed);
  EXPECT_THAT(*killed, ::testing::UnorderedElementsAre(other, last));
  EXPECT_THAT(endpoints_->killed_with({first, other, last}).value_or(std::vector{first}), IsEmpty());
}

// Promise: stop: A container whose first process is being ended has no new clients, at no endpoint.
TEST_F(EndpointsOfContainers, AContainerWhoseFirstProcessIsBeingEndedIsClosedUntilItHasExited) {
  Container container(paths_.endpoint(kPool, kGrant), true);
  const Container through_another(paths_.endpoint(kPool, kOtherGrant), false, container.first());
  const Container next(paths_.endpoint(kPool, kGrant), true);
  open();
  ASSERT_TRUE(endpoints_->open_endpoint({kPool, kOtherGrant}));
  EXPECT_TRUE(endpoints_->killed_with({*host::process_ref(container.first())}));
  EXPECT_EQ(answer_of(container, 'c'), "out");
  EXPECT_EQ(answer_of(through_another, 'c'), "out");
  EXPECT_THAT(document()["endpoints"][1]["refusedWhy"], HasSubstr("first process of its container is being ended"));
  EXPECT_EQ(answer_of(next, 'c'), "in") << "another container under the same grant";
}

// Promise: mps/endpoints: What keeps a client that has exited, after an attempt to end it, keeps new clients out.
TEST_F(EndpointsOfContainers, WhatWasNotEndedKeepsNewClientsOut) {
  Container gone(paths_.endpoint(kPool, kGrant), true);
  const Container next(paths_.endpoint(kPool, kGrant), true), third(paths_.endpoint(kPool, kGrant), true),
      fourth(paths_.endpoint(kPool, kGrant), true), other(paths_.endpoint(kPool, kOtherGrant), true);
  open();
  ASSERT_TRUE(endpoints_->open_endpoint({kPool, kOtherGrant}));
  finds_server_ = false;  // it has closed the client's pipes
  ASSERT_EQ(answer_of(gone, 'c'), "in");
  const int pid = gone.first();
  endpoints_->context_began(kPool, pid, 1);
  gone.kill();
  ASSERT_TRUE(until([&] { return !document()["endpoints"][0]["remnants"].empty(); }));
  const auto listed = [&] { endpoints_->servers_listed(kPool, host::boot_ticks() + 1, {}, {pid}); };
  listed();
  EXPECT_EQ(answer_of(next, 'c'), "in") << "no attempt to end it was made";
  bool answered = false;
  endpoints_->find_heirs(kPool, {pid}, {}, [&](const host::Heirs& heirs) {
    EXPECT_THAT(heirs.at(pid), IsEmpty());
    answered = true;
  });
  ASSERT_TRUE(until([&] { return answered; }));
  EXPECT_EQ(answer_of(third, 'c'), "out");
  EXPECT_THAT(document()["endpoints"][0]["refusedWhy"], HasSubstr("keeps its connection to the MPS server"));
  EXPECT_EQ(answer_of(other, 'c'), "in") << "another grant";
  endpoints_->context_ended(kPool, pid, 1);
  finds_server_ = true;
  find_server();
  EXPECT_EQ(answer_of(fourth, 'c'), "in");
}

// Clients of a container: in a pid namespace of its own, and in the host's.
class NestedClients : public EndpointsOfContainers, public ::testing::WithParamInterface<bool> {};
INSTANTIATE_TEST_SUITE_P(OwnPids, NestedClients, ::testing::Bool());

TEST_P(NestedClients, EndWithTheirContainerAndNoOthers) {
  const Container container(paths_.endpoint(kPool, kGrant), GetParam());
  const Container neighbour(paths_.endpoint(kPool, kGrant), GetParam());
  open();
  EXPECT_EQ(answer_of(neighbour, 'c'), "in");
  came_.clear();
  ASSERT_EQ(answer_of(container, 'n'), "in");
  ASSERT_EQ(came_.size(), 1u);
  container.request('d');
  ASSERT_TRUE(until([&] { return !asked_.empty(); })) << "the client was not found";
  EXPECT_THAT(asked_, ElementsAre(ElementsAre(came_[0])));
  // It has not exited: the container must not be reported as free of clients.
  done_({{came_[0], mps::TerminateOutcome::kTimedOut, "the process has not exited"}});
  ASSERT_TRUE(until([&] { return readable(container.fd()); }));
  const Json reply = Json::parse(container.said());
  EXPECT_EQ(reply["ok"], false);
  EXPECT_EQ(reply["clients"][0]["pid"], came_[0]);
  EXPECT_EQ(answer_of(container, 'n'), "out") << "also from a nested namespace";
}

// Promise: stop: A drained container stays closed until its first process has exited, also if its clients came by exec.
TEST_P(NestedClients, ThatCameByExecKeepTheirContainerClosedAndItsFirstProcessHeld) {
  Container container(paths_.endpoint(kPool, kGrant), GetParam());
  Container executed(paths_.endpoint(kPool, kGrant), false, container.first());
  open();
  ASSERT_EQ(answer_of(executed, 'c'), "in");
  container.request('d');
  ASSERT_TRUE(until([&] { return !asked_.empty(); }));
  EXPECT_THAT(asked_, ElementsAre(ElementsAre(executed.first())));
  EXPECT_THAT(held_, ElementsAre(container.first()));
  executed.kill();
  done_(well(asked_[0]));
  ASSERT_TRUE(until([&] { return readable(container.fd()) && document()["endpoints"][0]["clients"].empty(); }));
  EXPECT_THAT(container.said(), HasSubstr("\"ok\":true"));
  EXPECT_EQ(answer_of(container, 'c'), "out");
  EXPECT_EQ(document()["endpoints"][0]["admitting"], false);
  container.kill();
  EXPECT_TRUE(until([&] { return document()["endpoints"][0]["admitting"] == true; }));
}

TEST_F(EndpointsOfContainers, ASecondContainersClientsEndWhileTheFirstsAreBeingEnded) {
  const Container first(paths_.endpoint(kPool, kGrant));
  const Container second(paths_.endpoint(kPool, kGrant));
  open();
  ASSERT_EQ(answer_of(first, 'c'), "in");
  ASSERT_EQ(answer_of(second, 'c'), "in");
  ASSERT_EQ(came_.size(), 2u);
  first.request('d');
  ASSERT_TRUE(until([&] { return asked_.size() == 1; }));
  second.request('d');
  ASSERT_TRUE(until([&] { return asked_.size() == 2; }));
  EXPECT_THAT(asked_, ElementsAre(ElementsAre(came_[0]), ElementsAre(came_[1])));
}

TEST_F(EndpointsOfContainers, MountNamespacesOfOneContainerCostNoDescriptorEach) {
  const Container host_pids(paths_.endpoint(kPool, kGrant));
  const Container own_pids(paths_.endpoint(kPool, kGrant), true);
  open();
  const auto descriptors = [] {
    return std::distance(fs::directory_iterator("/proc/self/fd"), fs::directory_iterator());
  };
  const auto before = descriptors();
  for (int i = 0; i < 6; ++i) EXPECT_THAT(answer_of(own_pids, 'm'), HasSubstr("\"ok\":true"));
  EXPECT_LE(descriptors() - before, 1) << "a pid namespace is one container";
  for (int i = 0; i < 8; ++i) EXPECT_THAT(answer_of(host_pids, 'm'), HasSubstr("\"ok\":true"));
  EXPECT_LE(descriptors() - before, 4) << "closed containers are few where nothing identifies a container";
}

TEST_F(EndpointsOfContainers, AListedClientIsKnownByItsNumberAndItsStart) {
  fs::create_directories(paths_.endpoint(kPool, kGrant));
  const Container container(paths_.endpoint(kPool, kGrant));
  start_daemon();
  make(config::EndpointPolicy::kLink);
  ASSERT_TRUE(endpoints_->open_pool(kPool));
  const std::string pid = answer_of(container, 'b');
  ASSERT_NE(pid, "not mounted");
  const auto listed = host::process_ref(std::stoi(pid));
  ASSERT_TRUE(listed);
  endpoints_->clients_seen(kPool, {*listed});
  EXPECT_THAT(endpoints_->clients(kPool), ElementsAre(listed->pid));
  EXPECT_EQ(answer_of(container, 'u'), "unmounted");
  endpoints_->clients_seen(kPool, {*listed});
  EXPECT_THAT(endpoints_->clients(kPool), ElementsAre(listed->pid)) << "it is looked up once";
  endpoints_->clients_seen(kPool, {{listed->pid, listed->start_ticks + 1}});
  EXPECT_THAT(endpoints_->clients(kPool), IsEmpty()) << "a later process of the same number";
}

// Promise: mps/relay: A process whose first thread has exited is still of its container.
TEST_F(EndpointsOfContainers, AProcessWithoutItsFirstThreadIsOfItsContainer) {
  if (TRANCHE_THREAD_SANITIZED != 0)
    GTEST_SKIP() << "ThreadSanitizer has a thread in the process that stays in the test's mount namespace";
  fs::create_directories(paths_.endpoint(kPool, kGrant));
  const Container container(paths_.endpoint(kPool, kGrant));
  const int pid = std::stoi(answer_of(container, 'b'));
  const std::string name = container_of(pid);
  ASSERT_THAT(name, HasSubstr("mnt:["));
  ASSERT_EQ(grant_by_mounts(pid, paths_.mps_root, kPool), kGrant);
  ASSERT_EQ(answer_of(container, 'h'), "headless");
  ASSERT_TRUE(until([&] {
    return host::read_file(fmt::format("/proc/{}/status", pid)).value_or("").find("State:\tZ") != std::string::npos;
  }));
  EXPECT_EQ(container_of(pid), name);
  EXPECT_EQ(grant_by_mounts(pid, paths_.mps_root, kPool), kGrant);
  EXPECT_EQ(pod_of(pid), "") << "it is in no pod";
}

TEST_F(EndpointsOfContainers, ThePodOfAProcessThatHasExitedIsNotKnown) {
  const pid_t pid = ::fork();
  if (pid == 0) ::_exit(0);
  siginfo_t ended{};
  ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(pid), &ended, WEXITED | WNOWAIT), 0);
  EXPECT_EQ(pod_of(pid), std::nullopt);
  ::waitpid(pid, nullptr, 0);
}

TEST_F(EndpointsOfContainers, WithoutLooksTheContainerOfAProcessIsNotKnown) {
  const Container container(paths_.endpoint(kPool, kGrant));
  make();
  const int pid = std::stoi(answer_of(container, 'p'));
  EXPECT_THAT(container_of(pid), HasSubstr("mnt:["));
  host::Ancestors none("/proc", 0);
  EXPECT_EQ(container_of(pid, none), std::nullopt);
  host::Ancestors some;
  EXPECT_EQ(container_of(pid, some), container_of(pid));
}

TEST_F(EndpointsOfContainers, RequestsOfATenantAreAnsweredAtABoundedRate) {
  open();
  const std::string drain = paths_.endpoint(kPool, kGrant) + "/drain";
  std::vector<int> callers;
  const auto begun = loop_->now();
  for (int i = 0; i < 60; ++i) {
    callers.push_back(connect_stream(drain));
    ASSERT_EQ(::write(callers.back(), "drain\n", 6), 6);
  }
  const auto answered = [&] { return std::ranges::count_if(callers, [](int fd) { return readable(fd); }); };
  ASSERT_TRUE(until([&] { return answered() >= 16; })) << "at once";
  EXPECT_TRUE(until([&] { return answered() >= 20; })) << "and four in each second";
  const auto in_all = answered();
  EXPECT_LE(in_all, 17 + 4 * ((loop_->now() - begun) / 1s + 1));
  for (const int fd : callers) ::close(fd);
}

// Promise: stop: A container whose processes take long to read gets one answer in fifty times as long.
TEST_F(EndpointsOfContainers, RequestsOfAContainerThatTakesLongToReadArePaced) {
  Container container(paths_.endpoint(kPool, kGrant));
  int looks = 0;
  Duration cost{};
  Draining draining(*loop_, {.clients = [&](const EndpointName&) { return std::vector<int>{container.first()}; },
                             .neighbours = {},
                             .terminate = {},
                             .on_change = [] {},
                             .fates =
                                 [&](const std::vector<int>& clients, int) {
                                   use_processor(cost);
                                   ++looks;
                                   return std::vector<stopping::Fate>(clients.size(), {true, "it keeps on"});
                                 }});
  const auto ask = [&](int caller, int signal) {
    std::string answer;
    draining.drain(kEndpoint, {.caller = caller, .spare = true, .stop_signal = signal},
                   [&](const std::string& json) { answer = json; });
    return answer;
  };
  for (const int signal : {SIGTERM, SIGINT}) EXPECT_THAT(ask(container.first(), signal), HasSubstr("it keeps on"));
  cost = 3 * kLongLook;
  (void)until([] { return false; }, 1ms);  // the loop's time is that of its turn
  const auto begun = loop_->now();
  EXPECT_THAT(ask(container.first(), SIGUSR1), HasSubstr("it keeps on"));
  EXPECT_THAT(ask(container.first(), SIGUSR2), HasSubstr("send the request again in"));
  EXPECT_EQ(looks, 3);
  EXPECT_THAT(ask(0, SIGUSR2), HasSubstr("it keeps on")) << "the node's own requests are few";
  EXPECT_EQ(looks, 4);
  cost = {};
  ASSERT_TRUE(until([&] { return ask(container.first(), SIGTERM).find("it keeps on") != std::string::npos; }));
  EXPECT_GE(loop_->now() - begun, host::kRestAfterReads * 3 * kLongLook);
}

// What it has stopped before the search would stay so.
TEST_F(EndpointsOfContainers, ARequestThatWaitedForASearchIsNotRefusedAfterwards) {
  const Container container(paths_.endpoint(kPool, kGrant));
  Duration cost{};
  int held = 0, ended = 0;
  const auto terminate = [&](const std::string&, const host::EndRequest&, const auto& done) {
    ++ended;
    done({});
  };
  const auto fates = [&](const std::vector<int>& clients, int) {
    use_processor(cost);
    return std::vector<stopping::Fate>(clients.size());
  };
  Draining draining(*loop_, {.clients = [&](const EndpointName&) { return std::vector{container.first()}; },
                             .neighbours = {},
                             .terminate = terminate,
                             .on_change = [] {},
                             .fates = fates,
                             .hold = [&](const EndpointName&, const auto&) { ++held; },
                             .resume = [](const auto&) {},
                             .ancestors =
                                 [](const auto& clients) {
                                   return std::vector<std::optional<std::vector<int>>>(clients.size(),
                                                                                       std::vector<int>{});
                                 }});
  std::vector<std::string> answers;
  const auto ask = [&](int signal) {
    draining.drain(kEndpoint, {.caller = container.first(), .spare = true, .stop_signal = signal},
                   [&](const std::string& json) { answers.push_back(json); });
  };
  ask(SIGTERM);
  cost = 3 * kLongLook;
  ask(SIGINT);
  EXPECT_EQ(held, 2);
  EXPECT_THAT(answers, IsEmpty()) << "both wait for the search";
  ASSERT_TRUE(until([&] { return answers.size() == 2; }));
  EXPECT_EQ(ended, 2);
  EXPECT_THAT(answers, Each(Not(HasSubstr("send the request again"))));
}

TEST_F(EndpointsOfContainers, AProcessOfTheNodeEndsNoClients) {
  open();
  auto process = client();
  (void)first_line(*process);
  const sim::Fd caller(connect_stream(paths_.endpoint(kPool, kGrant) + "/drain"));
  ASSERT_EQ(::write(caller.get(), "drain\n", 6), 6);
  ASSERT_TRUE(until([&] { return readable(caller.get()); }));
  char text[512] = {};
  EXPECT_GT(::read(caller.get(), text, sizeof text - 1), 0);
  EXPECT_THAT(text, HasSubstr("container of the calling process is not known"));
  EXPECT_THAT(asked_, IsEmpty());
}

TEST_F(EndpointsOfContainers, WhoeverPlaysWithTheDrainSocketOnlyHurtsItself) {
  const Container other(paths_.endpoint(kPool, "8899aabbccddeeff"));
  open();
  const std::string drain = paths_.endpoint(kPool, kGrant) + "/drain";
  std::vector<int> mute;
  for (int i = 0; i < 16; ++i) mute.push_back(connect_stream(drain));
  const int wrong = mute.back();
  ASSERT_GT(::write(wrong, "quit\n", 5), 0);
  EXPECT_TRUE(endpoints_->open_endpoint({kPool, "8899aabbccddeeff"}));
  EXPECT_EQ(answer_of(other, 'c'), "in");
  EXPECT_TRUE(until([&] { return readable(mute.front()); })) << "cut off after its two seconds";
  char byte = 0;
  EXPECT_EQ(::read(mute.front(), &byte, 1), 0);
  for (const int fd : mute) ::close(fd);
}

TEST_F(EndpointsTest, AnEndpointForSeveralPodsStaysOneOverARestartUntilItHasANewTenant) {
  open();
  EXPECT_EQ(document()["endpoints"][0]["anyPod"], false);
  EXPECT_EQ(request(R"({"do":"openEndpoint","pool":"gpu-1","grant":"0011223344556677","anyPod":true})"),
            R"({"ok":true})");
  EXPECT_EQ(document()["endpoints"][0]["anyPod"], true);
  endpoints_.reset();
  make();
  EXPECT_EQ(document()["endpoints"][0]["anyPod"], true);
  EXPECT_EQ(request(R"({"do":"openEndpoint","pool":"gpu-1","grant":"0011223344556677","newTenant":true})"),
            R"({"ok":true})");
  EXPECT_EQ(document()["endpoints"][0]["anyPod"], false);
  endpoints_.reset();
  make();
  EXPECT_EQ(document()["endpoints"][0]["anyPod"], false);
}

TEST_F(EndpointsTest, AnEndpointOfOneCertainPodIsItsOwnOverARestartUntilItHasANewTenant) {
  open();
  const std::string ask = R"({"do":"openEndpoint","pool":"gpu-1","grant":"0011223344556677")";
  EXPECT_EQ(request(ask + R"(,"anyPod":true})"), R"({"ok":true})");
  EXPECT_EQ(request(ask + R"(,"pod":"1f0c-77"})"), R"({"ok":true})");
  EXPECT_EQ(document()["endpoints"][0]["pod"], "1f0c-77");
  EXPECT_EQ(document()["endpoints"][0]["anyPod"], false);
  EXPECT_THAT(request(ask + R"(,"pod":"1f0c-77","anyPod":true})"), HasSubstr("exclude each other"));
  EXPECT_THAT(request(ask + R"(,"pod":"../x"})"), HasSubstr("must be the UID of a pod"));
  endpoints_.reset();
  make();
  EXPECT_EQ(document()["endpoints"][0]["pod"], "1f0c-77");
  EXPECT_EQ(request(ask + R"(,"anyPod":true})"), R"({"ok":true})");
  endpoints_.reset();
  make();
  EXPECT_EQ(document()["endpoints"][0]["pod"], "") << "it is for several pods now";
  EXPECT_EQ(document()["endpoints"][0]["anyPod"], true);
  EXPECT_EQ(request(ask + R"(,"newTenant":true})"), R"({"ok":true})");
  EXPECT_EQ(document()["endpoints"][0]["pod"], "");
  endpoints_.reset();
  make();
  EXPECT_EQ(document()["endpoints"][0]["pod"], "");
}

}  // namespace endpoints_test
}  // namespace tranche::agent
