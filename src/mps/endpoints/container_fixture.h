#pragma once
// A container for the tests of mps/endpoints.
#include <fmt/format.h>
#include <sys/mount.h>

#include "headless_process.h"
#include "mps/endpoints/endpoints_fixture.h"

namespace tranche::mps {
namespace endpoints_test {

// A process in a mount namespace of its own, and optionally a pid namespace, as a container's first process, with a
// shim as its parent. It carries out one-byte commands. Created before any connection to the daemon, because it keeps
// inherited descriptors open.
class Container {
 public:
  // `inside`: of this process's container, as `kubectl exec` starts a program.
  explicit Container(const std::string& endpoint, bool own_pids = false, pid_t inside = 0) {
    const sim::Fd pids = inside == 0 ? sim::Fd() : namespace_of(inside, "pid");
    const sim::Fd mounts = inside == 0 ? sim::Fd() : namespace_of(inside, "mnt");
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends_) != 0) std::abort();
    shim_ = ::fork();
    if (shim_ == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (pids.valid() && ::setns(pids.get(), CLONE_NEWPID) != 0) std::abort();
      if (own_pids && ::unshare(CLONE_NEWPID) != 0) std::abort();
      const pid_t first = ::fork();
      if (first == 0) live(ends_[1], endpoint, mounts.get());
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
  void request(char what) const {
    if (::write(ends_[0], &what, 1) != 1) std::abort();
  }
  int fd() const { return ends_[0]; }
  // On the node.
  pid_t first() const {
    return std::stoi(os::read_file(fmt::format("/proc/{0}/task/{0}/children", shim_)).value_or("0"));
  }
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
  static sim::Fd namespace_of(pid_t pid, const char* kind) {
    return sim::Fd(::open(fmt::format("/proc/{}/ns/{}", pid, kind).c_str(), O_RDONLY | O_CLOEXEC));
  }
  static std::string come_in(const std::string& endpoint) {
    const sim::Fd fd = sim::connect_to(endpoint + "/control");
    sim::Packet packet;
    const bool asked = sim::await_hello(fd.get(), 5000) && sim::introduce(fd.get(), sim::ConnectionType::kClient);
    const bool in = asked && sim::receive_packet(fd.get(), &packet) == sim::Arrived::kPacket;
    if (packet.descriptor.valid()) {
      const auto joined = sim::join_server(packet.descriptor.get());
      sim::send_packet(fd.get(), sim::kAcknowledged);
    }
    return in ? "in" : "out";
  }
  // As kubelet mounts it into the grant's container.
  static bool mount_endpoint(const std::string& endpoint) {
    const std::string inside = grants::kEndpointInContainer;
    if (::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) return false;
    if (::mount("tmpfs", "/run", "tmpfs", 0, nullptr) != 0) return false;
    std::error_code error;
    fs::create_directories(inside, error);
    return !error && ::mount(endpoint.c_str(), inside.c_str(), nullptr, MS_BIND, nullptr) == 0;
  }
  // As bubblewrap, apptainer and `unshare -m` start a program.
  static std::string come_in_nested(const std::string& endpoint) {
    int says[2];
    if (::pipe2(says, O_CLOEXEC) != 0) return "no pipe";
    if (::fork() == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      const std::string said = ::unshare(CLONE_NEWNS) == 0 ? come_in(endpoint) : "no mount namespace";
      if (::write(says[1], said.data(), said.size()) > 0) ::pause();
      ::_exit(0);
    }
    char text[64];
    const auto got = ::read(says[0], text, sizeof text);
    return {text, static_cast<std::size_t>(std::max<ssize_t>(0, got))};
  }
  [[noreturn]] static void live(int orders, const std::string& endpoint, int mounts) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    // Alone with its root and working directory, as setns(2) demands: ThreadSanitizer has a thread in every process.
    if (::unshare(CLONE_FS) != 0) std::abort();
    const int apart = mounts < 0 ? ::unshare(CLONE_NEWNS) : ::setns(mounts, CLONE_NEWNS);
    const char ready = apart == 0 ? 'r' : 'x';
    if (::write(orders, &ready, 1) != 1) ::_exit(1);
    obey(orders, endpoint);
  }
  [[noreturn]] static void obey(int orders, const std::string& endpoint) {
    for (char what = 0; ::read(orders, &what, 1) == 1;) {
      std::string said;
      if (what == 'n') said = come_in_nested(endpoint);
      if (what == 'c') said = come_in(endpoint);
      if (what == 'p') said = std::to_string(::getpid());
      if (what == 'b') said = mount_endpoint(endpoint) ? std::to_string(::getpid()) : "not mounted";
      const auto go_on = [orders, endpoint] {
        if (::write(orders, "headless", 8) != 8) ::_exit(1);
        obey(orders, endpoint);
      };
      if (what == 'h') test::exit_first_thread(go_on);
      if (what == 'z') test::exit_first_threads(go_on);
      if (what == 'u') said = ::umount2("/run", MNT_DETACH) == 0 ? "unmounted" : "not unmounted";
      if (::write(orders, said.data(), said.size()) < 0) ::_exit(1);
    }
    ::_exit(0);
  }
  int ends_[2] = {-1, -1};
  pid_t shim_ = -1;
};

}  // namespace endpoints_test
}  // namespace tranche::mps
