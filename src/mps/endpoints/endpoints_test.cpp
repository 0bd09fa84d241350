// One endpoint: its socket, its admission, and consecutive tenants.
#include "mps/endpoints/endpoints_fixture.h"

namespace tranche::mps {
namespace endpoints_test {

TEST_F(EndpointsTest, AnOpenedEndpointHoldsOneSocketAndLetsAClientIn) {
  open();
  const auto endpoint = os::Dir::open(paths_.endpoint(kPool, kGrant));
  ASSERT_TRUE(endpoint);
  EXPECT_THAT(endpoint->list().value(), ElementsAre("control"));
  struct stat status{};
  ASSERT_EQ(::stat(endpoint->path().c_str(), &status), 0);
  EXPECT_EQ(status.st_mode, S_IFDIR | 0755u);
  auto process = client_in();
  EXPECT_EQ(document()["endpoint"], "relay");
  EXPECT_EQ(document()["endpoints"][0]["clients"], Json::array({process->pid()}));
  EXPECT_EQ(*endpoints_->grant_of(process->pid()), kGrant);
}

TEST_F(EndpointsTest, OpeningAnEndpointAgainDisturbsNobody) {
  open();
  const auto before = inode_of(paths_.endpoint(kPool, kGrant) + "/control");
  EXPECT_TRUE(open_endpoint(kGrant));
  EXPECT_EQ(inode_of(paths_.endpoint(kPool, kGrant) + "/control"), before);
}

TEST_F(EndpointsTest, EndpointsOfBeforeAreListenedAtAgain) {
  fs::create_directories(paths_.endpoint(kPool, kGrant));
  fs::create_directories(paths_.endpoints(kPool) + "/not-a-grant");
  start_daemon();
  make();
  ASSERT_TRUE(endpoints_->serve());
  auto process = client_in();
  EXPECT_EQ(document()["endpoints"].size(), 1u);
}

TEST_F(EndpointsTest, ARemovedEndpointIsGoneWithItsDirectory) {
  open();
  EXPECT_EQ(request(R"({"do":"removeEndpoint","pool":"gpu-1","grant":"0011223344556677"})"), R"({"ok":true})");
  EXPECT_FALSE(fs::exists(paths_.endpoint(kPool, kGrant)));
  EXPECT_THAT(document()["endpoints"], IsEmpty());
  EXPECT_TRUE(endpoints_->remove_endpoint(kGrant)) << "again";
}

// For the stand-in as for the driver: with this value the client would have all of the GPU's memory.
// Promise: mps/relay: A client whose environment lifts its limit is refused.
TEST_F(EndpointsTest, AClientWhoseEnvironmentLiftsItsLimitIsNotLetIn) {
  open();
  endpoints_->set_places({48, {world_.uuid()}});
  std::uint64_t refused = 0;
  for (const std::string& value :
       {std::string("zz"), std::string("0=0"), std::string("1=1G"), std::string(" "), std::string("\xff")}) {
    const auto process = world_.start_client(
        {"--hold", "--allocate", "100G"},
        {{"CUDA_MPS_PIPE_DIRECTORY", paths_.endpoint(kPool, kGrant)}, {"CUDA_MPS_PINNED_DEVICE_MEM_LIMIT", value}});
    EXPECT_THAT(first_line(*process), HasSubstr("CUDA_ERROR_MPS_CONNECTION_FAILED")) << value;
    const Json endpoint = document()["endpoints"][0];
    EXPECT_EQ(endpoint["refused"], ++refused);
    EXPECT_GE(endpoint["limitsLifted"].get<std::uint64_t>(), refused);
    EXPECT_THAT(endpoint["refusedWhy"].get<std::string>(),
                HasSubstr("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=\"" + (value == "\xff" ? R"(\xff)" : value) +
                          "\" is not understood by the driver"));
    EXPECT_FALSE(document().dump().empty()) << "whatever bytes the tenant wrote";
    EXPECT_THAT(endpoint["refusedWhy"].get<std::string>(), HasSubstr("such as " + world_.uuid() + "=4096M"));
    EXPECT_THAT(endpoint["clients"], IsEmpty());
  }
  EXPECT_THAT(endpoints_->clients(), IsEmpty());
  for (const std::string& value : {std::string(), std::string("0=2G"), world_.uuid() + "=2G"}) {
    auto process = world_.start_client({"--hold"}, {{"CUDA_MPS_PIPE_DIRECTORY", paths_.endpoint(kPool, kGrant)},
                                                    {"CUDA_MPS_PINNED_DEVICE_MEM_LIMIT", value}});
    EXPECT_THAT(first_line(*process), HasSubstr("\"mps\":true")) << value;
  }
}

TEST_F(EndpointsTest, TheCeilingOfClientsHoldsForNewProcesses) {
  open();
  endpoints_->set_places({1, {"GPU-1"}});
  auto first = client_in();
  auto second = client();
  EXPECT_TRUE(until([&] { return second->ended_within(0ms); }));
  first->signal(SIGKILL);
  EXPECT_TRUE(until([&] { return endpoints_->grant_of(first->pid()) == nullptr; }));
  log(LogWhat::kContextEnded, first->pid(), 1);
  auto third = client_in();
}

// Promise: deaths: A grant's new client waits until its clients that have exited are released; others do not wait.
TEST_F(EndpointsTest, ANewClientWaitsForTheReleaseOfItsGrantsDeadClientsAndOthersDoNot) {
  start_keeper();
  open();
  ASSERT_TRUE(open_endpoint(kOtherGrant));
  const auto first = killed_client();
  EXPECT_EQ(document()["endpoints"][0]["dead"], Json::array({first->pid()}));
  auto second = client();
  auto theirs = client_in(kOtherGrant), more = client_in(kOtherGrant);
  EXPECT_THAT(endpoints_->clients(), UnorderedElementsAre(theirs->pid(), more->pid()));
  release_all();
  EXPECT_THAT(first_line(*second), HasSubstr("\"mps\":true"));
  EXPECT_THAT(document()["endpoints"][0]["dead"], IsEmpty());
}

TEST_F(EndpointsTest, AKeeperThatReleasesNoClientKeepsNobodyOutForLong) {
  dead_clients_ = 100ms;
  start_keeper();
  open();
  const auto first = killed_client();
  auto second = client_in();
  EXPECT_TRUE(keeps_memory());
}

// Promise: guard: A new client waits until the guard has judged the memory that a client which has exited left behind.
TEST_F(EndpointsTest, ANewClientWaitsWhileAnExitedClientsConnectionIsKept) {
  remnants_ = 1h;
  start_keeper();
  open();
  ASSERT_TRUE(open_endpoint(kOtherGrant));
  const auto first = client_that_remains();
  auto second = client();
  auto theirs = client_in(kOtherGrant);
  release_all();
  ASSERT_TRUE(until([&] { return !keeps_memory(); }));
  auto more = client_in(kOtherGrant);
  EXPECT_THAT(endpoints_->clients(), UnorderedElementsAre(theirs->pid(), more->pid()));
  finds_server_ = true;
  find_server();
  log(LogWhat::kContextEnded, first->pid(), 1);
  EXPECT_THAT(first_line(*second), HasSubstr("\"mps\":true"));
}

TEST_F(EndpointsTest, AConnectionThatIsKeptKeepsNobodyOutForLong) {
  remnants_ = 100ms;
  open();
  const auto first = client_that_remains();
  auto second = client_in();
  EXPECT_THAT(document()["endpoints"][0]["remnants"], ElementsAre(first->pid()));
}

TEST_F(EndpointsTest, AKeeperThatEndsKeepsNobodyOut) {
  start_keeper();
  open();
  const auto first = killed_client();
  keeper_.reset();
  auto second = client_in();
}

// The server's log may be read before the exit is seen.
TEST_F(EndpointsTest, OnlyContextsThatEndedBeforeTheClientLeaveNoMemory) {
  start_keeper();
  open();
  for (const bool in_order : {true, false}) {
    auto process = client_in();
    ASSERT_TRUE(is_held(process->pid()));
    if (in_order) log(LogWhat::kContextEnded, process->pid(), 1);
    process->signal(SIGKILL);
    ASSERT_TRUE(process->ended_within(60s));
    if (!in_order) log(LogWhat::kContextEnded, process->pid(), 1);
    ASSERT_TRUE(until([&] { return document()["endpoints"][0]["dead"].size() == (in_order ? 1U : 2U); }));
    EXPECT_EQ(keeps_memory(), !in_order);
  }
}

TEST_F(EndpointsTest, AGrantLeavesEachOtherOpenEndpointItsPlace) {
  open();
  endpoints_->set_places({3, {"GPU-1"}});
  ASSERT_TRUE(open_endpoint(kOtherGrant));
  auto first = client_in(), second = client_in();
  auto third = client();
  EXPECT_THAT(first_line(*third), Not(HasSubstr("\"mps\":true"))) << "the last place is the other's";
  EXPECT_EQ(document()["endpoints"][0]["refusedWhy"],
            "the GPU has 2 of its 3 clients, and the other places are kept for other containers");
  auto theirs = client_in(kOtherGrant);
  auto more = client(kOtherGrant);
  EXPECT_THAT(first_line(*more), Not(HasSubstr("\"mps\":true")));
  EXPECT_EQ(document()["endpoints"][1]["refusedWhy"], "the GPU has its 3 clients");
  theirs->signal(SIGKILL);
  EXPECT_TRUE(until([&] { return endpoints_->grant_of(theirs->pid()) == nullptr; }));
  log(LogWhat::kContextEnded, theirs->pid(), 1);
  ASSERT_TRUE(endpoints_->remove_endpoint(kOtherGrant));
  auto alone = client();
  EXPECT_THAT(first_line(*alone), HasSubstr("\"mps\":true")) << "no other grant has an endpoint";
}

// Promise: mps/endpoints: Places of a server are kept for containers that may still come, a quarter at most.
TEST_F(EndpointsTest, PlacesAreKeptForContainersThatMayStillCome) {
  open();
  endpoints_->set_places({8, {"GPU-1"}, 1, 3});  // one of the three slots has an endpoint
  std::vector<std::unique_ptr<sim::TestProcess>> clients;
  for (int i = 0; i < 7; ++i) {
    clients.push_back(client());
    EXPECT_EQ(first_line(*clients.back()).find("\"mps\":true") != std::string::npos, i < 6) << i;
  }
  ASSERT_TRUE(open_endpoint(kOtherGrant));
  auto theirs = client_in(kOtherGrant);
}

TEST_F(EndpointsTest, WhatAGrantWasPromisedItGetsAsLongAsThereIsRoom) {
  open();
  endpoints_->set_places({3, {"GPU-1"}, 2});
  for (const auto& other : {kOtherGrant, std::string("1111111111111111")}) ASSERT_TRUE(open_endpoint(other));
  auto first = client_in(), second = client_in();
  auto third = client();
  EXPECT_THAT(first_line(*third), Not(HasSubstr("\"mps\":true")));
  auto theirs = client_in("1111111111111111");
}

TEST_F(EndpointsTest, WhatCannotBeAnsweredIsSaid) {
  make();
  EXPECT_THAT(request("{}"), HasSubstr("\"ok\":false"));
}

TEST_F(EndpointsTest, AskedForLinksTheEndpointHoldsTheDaemonsOwnSocketAndTheStatusSaysWhatThatMeans) {
  fs::create_directories(paths_.endpoint(kPool, kGrant));
  start_daemon();
  make(config::EndpointPolicy::kLink);
  ASSERT_TRUE(endpoints_->serve());
  EXPECT_EQ(inode_of(paths_.endpoint(kPool, kGrant) + "/control"), inode_of(paths_.pipe(kPool) + "/control"));
  EXPECT_EQ(document()["endpoint"], "link");
  EXPECT_THAT(document()["endpointReason"].get<std::string>(), HasSubstr("tenants with root can command this daemon"));
  ASSERT_TRUE(open_endpoint(kOtherGrant));
  EXPECT_EQ(inode_of(paths_.endpoint(kPool, kOtherGrant) + "/control"), inode_of(paths_.pipe(kPool) + "/control"));
  start_daemon();
  ASSERT_TRUE(endpoints_->serve());
  for (const auto& grant : {kGrant, kOtherGrant})
    EXPECT_EQ(inode_of(paths_.endpoint(kPool, grant) + "/control"), inode_of(paths_.pipe(kPool) + "/control"))
        << "of the new daemon";
}

TEST_F(EndpointsTest, BehindADaemonThatGreetsInOtherWordsEndpointsAreLinksAndTheReasonIsShown) {
  fs::create_directories(paths_.endpoint(kPool, kGrant));
  const auto foreign_process = sim::listen_at(paths_.pipe(kPool) + "/control", 0666);
  make();
  EXPECT_EQ(document()["endpoint"], "relay");
  ASSERT_TRUE(endpoints_->serve());
  ASSERT_TRUE(until([&] { return readable(foreign_process.get()); }));
  const sim::Fd accepted(::accept4(foreign_process.get(), nullptr, nullptr, SOCK_CLOEXEC));
  ASSERT_TRUE(sim::send_packet(accepted.get(), "HELLO OF ANOTHER RELEASE"));
  ASSERT_TRUE(until([&] { return document()["endpoint"] == "link"; }));
  EXPECT_THAT(document()["endpointReason"].get<std::string>(), HasSubstr("not one that this program knows"));
  EXPECT_EQ(inode_of(paths_.endpoint(kPool, kGrant) + "/control"), inode_of(paths_.pipe(kPool) + "/control"));
  // The next daemon may differ: it is checked again.
  start_daemon();
  ASSERT_TRUE(endpoints_->serve());
  ASSERT_TRUE(until([&] { return document()["endpoint"] == "relay"; }));
  auto process = client_in();
}

// What a tenant may have kept: the directory (here as a descriptor, as if sent over a socket to a different pod), a
// waiting connection, a client.
TEST_F(EndpointsTest, ANewTenantGetsADirectoryThatNothingOfTheFormerOneReaches) {
  open();
  auto former = client_in();
  const sim::Fd kept(::open(paths_.endpoint(kPool, kGrant).c_str(), O_PATH | O_DIRECTORY));  // inherited on purpose
  const std::string way = "/proc/self/fd/" + std::to_string(kept.get());
  const auto made = document()["endpoints"][0]["made"].get<std::uint64_t>();
  EXPECT_EQ(request(R"({"do":"openEndpoint","pool":"gpu-1","grant":"0011223344556677","newTenant":true})"),
            R"({"ok":true})");
  EXPECT_THAT(asked_, ElementsAre(ElementsAre(former->pid())));
  EXPECT_GT(document()["endpoints"][0]["made"].get<std::uint64_t>(), made);
  EXPECT_THAT(document()["endpoints"][0]["clients"], IsEmpty()) << "the former tenant's is not this tenant's";
  struct stat old_one{}, new_one{};
  ASSERT_EQ(::fstat(kept.get(), &old_one), 0);
  ASSERT_EQ(::stat(paths_.endpoint(kPool, kGrant).c_str(), &new_one), 0);
  EXPECT_EQ(old_one.st_nlink, 0u) << "it is gone";
  auto stale = world_.start_client({}, {{"CUDA_MPS_PIPE_DIRECTORY", way}});
  EXPECT_THAT(first_line(*stale), Not(HasSubstr("\"mps\":true")));
  // New clients wait until the former client has exited, and are then admitted.
  auto next = client();
  ASSERT_TRUE(open_endpoint(kOtherGrant));
  auto theirs = client_in(kOtherGrant), more = client_in(kOtherGrant);
  EXPECT_THAT(endpoints_->clients(), UnorderedElementsAre(theirs->pid(), more->pid()));
  former->signal(SIGKILL);
  done_(well(asked_[0]));
  EXPECT_THAT(first_line(*next), HasSubstr("\"mps\":true"));
  EXPECT_EQ(document()["endpoints"][0]["clients"], Json::array({next->pid()}));
}

// Promise: mps/relay: New clients wait 30 s at most for the clients of their share's former tenant.
TEST_F(EndpointsTest, NewClientsWaitForTheFormerTenantsNoLongerThanTheBound) {
  EXPECT_EQ(former_clients_, 30s);
  former_clients_ = 500ms;
  open();
  auto former = client_in();
  const auto begun = loop_->now();
  EXPECT_EQ(request(R"({"do":"openEndpoint","pool":"gpu-1","grant":"0011223344556677","newTenant":true})"),
            R"({"ok":true})");
  ASSERT_EQ(asked_.size(), 1u);
  auto next = client();
  EXPECT_THAT(first_line(*next), HasSubstr("\"mps\":true")) << "nothing was reported of the former client";
  EXPECT_GE(loop_->now() - begun, former_clients_);
  // The report may still arrive.
  done_(well(asked_[0]));
  auto third = client_in();
}

TEST_F(EndpointsTest, ARemovedEndpointEndsItsClientsAndNeverThatOfANewTenant) {
  open();
  auto former = client_in();
  const auto made = document()["endpoints"][0]["made"].get<std::uint64_t>();
  EXPECT_EQ(request(R"({"do":"openEndpoint","pool":"gpu-1","grant":"0011223344556677","newTenant":true})"),
            R"({"ok":true})");
  const auto remove = [&](std::uint64_t which) {
    return request(R"({"do":"removeEndpoint","pool":"gpu-1","grant":"0011223344556677","made":)" +
                   std::to_string(which) + "}");
  };
  EXPECT_THAT(remove(made), HasSubstr("it has a new tenant"));
  EXPECT_TRUE(fs::exists(paths_.endpoint(kPool, kGrant) + "/control"));
  former->signal(SIGKILL);
  done_(well(asked_[0]));
  auto next = client_in();
  EXPECT_EQ(remove(document()["endpoints"][0]["made"].get<std::uint64_t>()), R"({"ok":true})");
  EXPECT_THAT(asked_.back(), ElementsAre(next->pid()));
  EXPECT_FALSE(fs::exists(paths_.endpoint(kPool, kGrant)));
}

// A different process may have its pid by the time that the loop learns of its exit.
TEST_F(EndpointsTest, AClientThatHasEndedIsNoneBeforeItsEndIsNoticed) {
  open();
  auto process = client_in();
  process->signal(SIGKILL);
  ASSERT_TRUE(process->ended_within(5s));
  EXPECT_THAT(document()["endpoints"][0]["clients"], IsEmpty());
  EXPECT_EQ(endpoints_->grant_of(process->pid()), nullptr);
}

// As with a full disk.
TEST_F(EndpointsTest, AnEndpointThatCannotBeOpenedIsNotListed) {
  open();
  const auto ask = [&](const std::string& grant, const std::string& more) {
    return request(R"({"do":"openEndpoint","pool":"gpu-1","grant":")" + grant + "\"" + more + "}");
  };
  const std::string limits =
      R"(,"limits":[{"uuid":"GPU-3f2a1b4c-0000-1111-2222-333344445555","memoryMiB":1024,"threadsHundredths":2500}])";
  const std::string folder = paths_.pool(kPool) + "/limits";
  fs::remove(folder);
  ASSERT_TRUE((*os::Dir::create(paths_.pool(kPool))).write_atomically("limits", "in the folder's place"));
  EXPECT_THAT(ask("8899aabbccddeeff", limits), HasSubstr("\"ok\":false"));
  EXPECT_EQ(document()["endpoints"].size(), 1u) << document();
  fs::remove(folder);
  fs::rename(paths_.endpoints(kPool), folder + ".endpoints");
  EXPECT_THAT(ask("8899aabbccddeeff", limits), HasSubstr("\"ok\":false"));
  EXPECT_EQ(document()["endpoints"].size(), 1u) << document();
  EXPECT_FALSE(fs::exists(folder + "/8899aabbccddeeff")) << "nothing is kept of it";
  fs::rename(folder + ".endpoints", paths_.endpoints(kPool));
  EXPECT_EQ(ask("8899aabbccddeeff", limits), R"({"ok":true})");
  EXPECT_EQ(document()["endpoints"].size(), 2u);
}

TEST_F(EndpointsTest, TerminateIsPassedOn) {
  open();
  std::string answer;
  request(R"({"do":"terminate","pool":"gpu-1","pids":[7],"reason":"x"})",
          [&](const std::string& json) { answer = json; });
  ASSERT_THAT(asked_, ElementsAre(ElementsAre(7)));
  done_({{7, TerminateOutcome::kNotAClient, ""}});
  EXPECT_EQ(Json::parse(answer)["clients"][0]["outcome"], "not-a-client");
}

}  // namespace endpoints_test
}  // namespace tranche::mps
