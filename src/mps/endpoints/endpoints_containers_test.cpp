// Which container a client is in, and with which it ends.
#include "mps/endpoints/container_fixture.h"
#include "mps/endpoints/containers.h"
#include "mps/endpoints/endpoints_fixture.h"
#include "os/clock/clock.h"
#include "sanitized.h"

namespace tranche::mps {
namespace endpoints_test {

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

// Promise: stop: A container's clients of all endpoints end together with its first process.
TEST_F(EndpointsOfContainers, WithTheFirstProcessOfAContainerEndItsClientsOfAllGrants) {
  Container container(paths_.endpoint(kPool, kGrant), true);
  const Container through_another(paths_.endpoint(kPool, kOtherGrant), false, container.first());
  const Container later(paths_.endpoint(kPool, kOtherGrant), false, container.first());
  const Container neighbour(paths_.endpoint(kPool, kGrant), true);
  open();
  ASSERT_TRUE(open_endpoint(kOtherGrant));
  for (const Container* each : std::vector<const Container*>{&container, &through_another, &neighbour})
    ASSERT_EQ(answer_of(*each, 'c'), "in");
  const auto first = *os::process_ref(container.first()), other = *os::process_ref(through_another.first());
  EXPECT_FALSE(context_->killed_with({other})) << "it is the first of nothing";
  EXPECT_EQ(answer_of(later, 'c'), "in");
  const auto last = *os::process_ref(later.first());
  const auto killed = context_->killed_with({first});
  ASSERT_TRUE(killed);
  EXPECT_THAT(*killed, ::testing::UnorderedElementsAre(other, last));
  EXPECT_THAT(context_->killed_with({first, other, last}).value_or(std::vector{first}), IsEmpty());
}

// Promise: stop: A container whose first process is being ended has no new clients, at no endpoint.
TEST_F(EndpointsOfContainers, AContainerWhoseFirstProcessIsBeingEndedIsClosedUntilItHasExited) {
  Container container(paths_.endpoint(kPool, kGrant), true);
  const Container through_another(paths_.endpoint(kPool, kOtherGrant), false, container.first());
  const Container next(paths_.endpoint(kPool, kGrant), true);
  open();
  ASSERT_TRUE(open_endpoint(kOtherGrant));
  EXPECT_TRUE(context_->killed_with({*os::process_ref(container.first())}));
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
  ASSERT_TRUE(open_endpoint(kOtherGrant));
  finds_server_ = false;  // it has closed the client's pipes
  ASSERT_EQ(answer_of(gone, 'c'), "in");
  const int pid = gone.first();
  log(LogWhat::kContextBegan, pid, 1);
  gone.kill();
  ASSERT_TRUE(until([&] { return !document()["endpoints"][0]["remnants"].empty(); }));
  const auto listed = [&] { endpoints_->servers_listed(os::boot_ticks() + 1, {}, {{pid, {}}}); };
  listed();
  EXPECT_EQ(answer_of(next, 'c'), "in") << "no attempt to end it was made";
  bool answered = false;
  endpoints_->find_heirs({pid}, {}, [&](const Heirs& heirs) {
    EXPECT_THAT(heirs.at(pid), IsEmpty());
    answered = true;
  });
  ASSERT_TRUE(until([&] { return answered; }));
  EXPECT_EQ(answer_of(third, 'c'), "out");
  EXPECT_THAT(document()["endpoints"][0]["refusedWhy"], HasSubstr("keeps its connection to the MPS server"));
  EXPECT_EQ(answer_of(other, 'c'), "in") << "another grant";
  log(LogWhat::kContextEnded, pid, 1);
  finds_server_ = true;
  find_server();
  EXPECT_EQ(answer_of(fourth, 'c'), "in");
}

// Clients of a container: in a pid namespace of its own, and in the host's.
class NestedClients : public EndpointsOfContainers, public ::testing::WithParamInterface<bool> {};
INSTANTIATE_TEST_SUITE_P(OwnPids, NestedClients, ::testing::Bool());

TEST_P(NestedClients, AreOfTheirContainerAndOfNoOther) {
  const Container container(paths_.endpoint(kPool, kGrant), GetParam());
  const Container neighbour(paths_.endpoint(kPool, kGrant), GetParam());
  open();
  ASSERT_EQ(answer_of(container, 'n'), "in");
  const auto clients = endpoints_->clients();
  ASSERT_EQ(clients.size(), 1u);
  ASSERT_NE(clients[0], container.first());
  EXPECT_EQ(container_of(clients[0]), container_of(container.first()));
  EXPECT_NE(container_of(clients[0]), container_of(neighbour.first()));
}

TEST_P(NestedClients, ThatCameByExecAreOfTheirContainer) {
  const Container container(paths_.endpoint(kPool, kGrant), GetParam());
  const Container executed(paths_.endpoint(kPool, kGrant), false, container.first());
  const auto name = container_of(executed.first());
  EXPECT_NE(name, "");
  EXPECT_EQ(name, container_of(container.first()));
}

// Also one that the relay does not know, as after the loss of its file of clients.
class ClientsOfALaterStart : public EndpointsOfContainers,
                             public ::testing::WithParamInterface<config::EndpointPolicy> {};
INSTANTIATE_TEST_SUITE_P(Endpoints, ClientsOfALaterStart,
                         ::testing::Values(config::EndpointPolicy::kLink, config::EndpointPolicy::kRelay));

TEST_P(ClientsOfALaterStart, AreKnownByTheirNumberAndTheirStart) {
  fs::create_directories(paths_.endpoint(kPool, kGrant));
  const Container container(paths_.endpoint(kPool, kGrant));
  start_daemon();
  make(GetParam());
  ASSERT_TRUE(endpoints_->serve());
  const std::string pid = answer_of(container, 'b');
  ASSERT_NE(pid, "not mounted");
  const auto listed = os::process_ref(std::stoi(pid));
  ASSERT_TRUE(listed);
  const auto seen = [&](const os::ProcessRef& process) { endpoints_->servers_listed(0, {}, {{process.pid, process}}); };
  seen(*listed);
  EXPECT_THAT(endpoints_->clients(), ElementsAre(listed->pid));
  EXPECT_EQ(answer_of(container, 'u'), "unmounted");
  seen(*listed);
  EXPECT_THAT(endpoints_->clients(), ElementsAre(listed->pid)) << "it is looked up once";
  seen({listed->pid, listed->start_ticks + 1});
  EXPECT_THAT(endpoints_->clients(), IsEmpty()) << "a later process of the same number";
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
  EXPECT_EQ(container_of(pid), name);
  EXPECT_EQ(grant_by_mounts(pid, paths_.mps_root, kPool), kGrant);
  EXPECT_EQ(pod_of(pid), "") << "it is in no pod";
}

// A tracer can keep any number of exited threads, and /proc lists them before those that run.
// Promise: mps/relay: A process that cannot be identified is refused, whatever is known of the endpoint.
TEST_F(EndpointsOfContainers, AProcessThatCannotBeIdentifiedIsRefused) {
  if (TRANCHE_THREAD_SANITIZED != 0) GTEST_SKIP() << "ThreadSanitizer has a thread in every process";
  const Container hidden(paths_.endpoint(kPool, kGrant)), other(paths_.endpoint(kPool, kGrant));
  open();
  ASSERT_EQ(answer_of(hidden, 'z'), "headless");
  const int pid = hidden.first();
  ASSERT_EQ(pod_of(pid), std::nullopt);
  EXPECT_EQ(answer_of(hidden, 'c'), "out");
  EXPECT_THAT(document()["endpoints"][0]["refusedWhy"], HasSubstr("the process cannot be identified"));
  EXPECT_THAT(endpoints_->clients(), IsEmpty());
  EXPECT_EQ(answer_of(other, 'c'), "in");
  ClientLooks looks(*loop_);
  std::optional<std::string> why;
  looks.look(pid, {}, [&](const std::string& why_not) { why = why_not; });
  ASSERT_TRUE(until([&] { return why.has_value(); }));
  EXPECT_THAT(*why, HasSubstr("its environment cannot be read"));
}

// Promise: mps/relay: What is known of a client from its admission counts, also where it hides afterwards.
TEST_F(EndpointsOfContainers, AClientThatHidesIsStillTheOneThatWasAdmitted) {
  if (TRANCHE_THREAD_SANITIZED != 0) GTEST_SKIP() << "ThreadSanitizer has a thread in every process";
  const Container container(paths_.endpoint(kPool, kGrant), true);
  const Container client(paths_.endpoint(kPool, kGrant), false, container.first());
  open();
  endpoints_->set_places({48, {world_.uuid()}});
  ASSERT_EQ(answer_of(client, 'c'), "in");
  const int pid = client.first();
  ASSERT_EQ(answer_of(client, 'z'), "headless");
  ASSERT_TRUE(until([&] { return !pod_of(pid); })) << "it cannot await that itself in its pid namespace";
  for (int i = 0; i < 2; ++i) endpoints_->servers_listed(os::boot_ticks() + 1, {}, {{pid, {}}});
  EXPECT_THAT(endpoints_->clients(), ElementsAre(pid));
  EXPECT_EQ(endpoints_->clients_on_fullest(), 1U) << "not a second place, as of a client that has exited";
  const auto killed = context_->killed_with({*os::process_ref(container.first())});
  EXPECT_THAT(killed.value_or(std::vector<os::ProcessRef>{}), ElementsAre(*os::process_ref(pid)));
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
  Ancestors none("/proc", 0);
  EXPECT_EQ(container_of(pid, none), std::nullopt);
  Ancestors some;
  EXPECT_EQ(container_of(pid, some), container_of(pid));
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
}  // namespace tranche::mps
