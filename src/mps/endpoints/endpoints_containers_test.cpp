// Which container a request to terminate clients comes from, and which clients are in it.
#include "mps/endpoints/endpoints_fixture.h"

#include <sys/mount.h>

#include "mps/endpoints/containers.h"

namespace tranche::agent {
namespace endpoints_test {

// A process in a mount namespace of its own, and optionally a pid namespace, as a container's first process, with a
// shim as its parent. It carries out one-byte commands. Created before any connection to the daemon, because it keeps
// inherited descriptors open.
class Container {
 public:
  explicit Container(const std::string& endpoint, bool own_pids = false) {
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends_) != 0) std::abort();
    shim_ = ::fork();
    if (shim_ == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (own_pids && ::unshare(CLONE_NEWPID) != 0) std::abort();
      const pid_t first = ::fork();
      if (first == 0) live(ends_[1], endpoint);
      ::close(ends_[0]);
      ::close(ends_[1]);
      ::waitpid(first, nullptr, 0);
      ::_exit(0);
    }
    ::close(ends_[1]);
    char ready = 0;
    if (::read(ends_[0], &ready, 1) != 1 || ready != 'r') std::abort();
  }
  ~Container() { kill(); }
  Container(const Container&) = delete;
  Container& operator=(const Container&) = delete;
  void tell(char what) const {
    if (::write(ends_[0], &what, 1) != 1) std::abort();
  }
  int fd() const { return ends_[0]; }
  std::string said() const {
    char text[512];
    const auto got = ::read(ends_[0], text, sizeof text);
    return {text, static_cast<std::size_t>(std::max<ssize_t>(0, got))};
  }
  void kill() {
    if (shim_ <= 0) return;
    ::kill(shim_, SIGKILL);  // ends the others too, each with its parent
    ::waitpid(std::exchange(shim_, 0), nullptr, 0);
    ::close(ends_[0]);
  }

 private:
  static std::string ask_to_drain(const std::string& endpoint) {
    const int fd = connect_stream(endpoint + "/drain");
    char text[512];
    ssize_t got = ::write(fd, "drain\n", 6);
    if (got == 6) got = ::read(fd, text, sizeof text);
    ::close(fd);
    return {text, static_cast<std::size_t>(std::max<ssize_t>(0, got))};
  }
  static std::string come_in(const std::string& endpoint) {
    const sim::Fd fd = sim::connect_to(endpoint + "/control");
    sim::Packet packet;
    const bool asked = sim::await_hello(fd.get(), 5000) && sim::introduce(fd.get(), sim::ConnectionType::kClient);
    const bool in = asked && sim::receive_packet(fd.get(), &packet) == sim::Arrived::kPacket;
    if (packet.descriptor.valid()) {
      sim::send_message(packet.descriptor.get(), {"init", {}});
      sim::send_packet(fd.get(), sim::kAcknowledged);
    }
    return in ? "in" : "out";
  }
  // As kubelet mounts it into the grant's container.
  static bool mount_endpoint(const std::string& endpoint) {
    const std::string inside = allocate::kEndpointInContainer;
    if (::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) return false;
    if (::mount("tmpfs", "/run", "tmpfs", 0, nullptr) != 0) return false;
    std::error_code error;
    fs::create_directories(inside, error);
    return !error && ::mount(endpoint.c_str(), inside.c_str(), nullptr, MS_BIND, nullptr) == 0;
  }
  // As bubblewrap, apptainer and `unshare -m` start a program.
  static std::string come_in_nested(const std::string& endpoint) {
    int says[2];
    std::signal(SIGTERM, [](int) {});  // like an init that forwards the signal
    if (::pipe2(says, O_CLOEXEC) != 0) return "no pipe";
    if (::fork() == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      std::signal(SIGTERM, SIG_DFL);
      const std::string said = ::unshare(CLONE_NEWNS) == 0 ? come_in(endpoint) : "no mount namespace";
      if (::write(says[1], said.data(), said.size()) > 0) ::pause();
      ::_exit(0);
    }
    char text[64];
    const auto got = ::read(says[0], text, sizeof text);
    return {text, static_cast<std::size_t>(std::max<ssize_t>(0, got))};
  }
  [[noreturn]] static void live(int orders, const std::string& endpoint) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    const char ready = ::unshare(CLONE_NEWNS) == 0 ? 'r' : 'x';
    if (::write(orders, &ready, 1) != 1) ::_exit(1);
    for (char what = 0; ::read(orders, &what, 1) == 1;) {
      std::string said;
      if (what == 'd') said = ask_to_drain(endpoint);
      if (what == 'm') {
        (void)::open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC);  // held, so that the number is not reused
        said = ::unshare(CLONE_NEWNS) == 0 ? ask_to_drain(endpoint) : "no mount namespace";
      }
      if (what == 'n') said = come_in_nested(endpoint);
      if (what == 'c') said = come_in(endpoint);
      if (what == 'p') said = std::to_string(::getpid());
      if (what == 'b') said = mount_endpoint(endpoint) ? std::to_string(::getpid()) : "not mounted";
      if (what == 'u') said = ::umount2("/run", MNT_DETACH) == 0 ? "unmounted" : "not unmounted";
      if (::write(orders, said.data(), said.size()) < 0) ::_exit(1);
    }
    ::_exit(0);
  }
  int ends_[2] = {-1, -1};
  pid_t shim_ = -1;
};

class EndpointsOfContainers : public EndpointsTest {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "needs root for a mount namespace";
    EndpointsTest::SetUp();
  }
  std::string answer_of(const Container& container, char what) {
    container.tell(what);
    EXPECT_TRUE(until([&] { return readable(container.fd()); }));
    return container.said();
  }
};

TEST_F(EndpointsOfContainers, ADrainedContainerComesInNoMoreAndItsSuccessorDoesAtOnce) {
  Container old(paths_.endpoint(kPool, kGrant));
  const Container next(paths_.endpoint(kPool, kGrant));
  open();
  EXPECT_EQ(answer_of(old, 'c'), "in");
  old.tell('d');
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
  container.tell('d');
  ASSERT_TRUE(until([&] { return !asked_.empty(); }, 5s)) << "the client was not found";
  EXPECT_THAT(asked_, ElementsAre(ElementsAre(came_[0])));
  // It has not exited: the container must not be reported as free of clients.
  done_({{came_[0], mps::TerminateOutcome::kTimedOut, "the process has not exited"}});
  ASSERT_TRUE(until([&] { return readable(container.fd()); }));
  const Json reply = Json::parse(container.said());
  EXPECT_EQ(reply["ok"], false);
  EXPECT_EQ(reply["clients"][0]["pid"], came_[0]);
  EXPECT_EQ(answer_of(container, 'n'), "out") << "also from a nested namespace";
}

TEST_F(EndpointsOfContainers, ASecondContainersClientsEndWhileTheFirstsAreBeingEnded) {
  const Container first(paths_.endpoint(kPool, kGrant));
  const Container second(paths_.endpoint(kPool, kGrant));
  open();
  ASSERT_EQ(answer_of(first, 'c'), "in");
  ASSERT_EQ(answer_of(second, 'c'), "in");
  ASSERT_EQ(came_.size(), 2u);
  first.tell('d');
  ASSERT_TRUE(until([&] { return asked_.size() == 1; }));
  second.tell('d');
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
  for (int i = 0; i < 60; ++i) {
    callers.push_back(connect_stream(drain));
    ASSERT_EQ(::write(callers.back(), "drain\n", 6), 6);
  }
  const auto answered = [&] { return std::ranges::count_if(callers, [](int fd) { return readable(fd); }); };
  (void)until([&] { return answered() == 60; }, 500ms);
  EXPECT_GE(answered(), 16);
  EXPECT_LE(answered(), 20);
  for (const int fd : callers) ::close(fd);
}

TEST_F(EndpointsOfContainers, AUserOfTheNodeEndsNoClients) {
  open();
  auto process = client();
  (void)first_line(*process);
  int says[2];
  ASSERT_EQ(::pipe2(says, O_CLOEXEC), 0);
  const pid_t user = ::fork();
  if (user == 0) {
    if (::setresuid(65534, 65534, 65534) != 0) ::_exit(1);
    const int fd = connect_stream(paths_.endpoint(kPool, kGrant) + "/drain");
    char text[512];
    ssize_t got = ::write(fd, "drain\n", 6);
    if (got == 6) got = ::read(fd, text, sizeof text);
    if (::write(says[1], text, static_cast<std::size_t>(std::max<ssize_t>(1, got))) < 0) ::_exit(1);
    ::_exit(0);
  }
  ASSERT_TRUE(until([&] { return readable(says[0]); }));
  char text[512];
  const auto got = ::read(says[0], text, sizeof text);
  EXPECT_THAT(std::string(text, static_cast<std::size_t>(got)),
              HasSubstr("container of the calling process is not known"));
  EXPECT_THAT(asked_, IsEmpty());
  ::waitpid(user, nullptr, 0);
  ::close(says[0]);
  ::close(says[1]);
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
