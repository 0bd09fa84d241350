#include "hold_cost.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <vector>

#include "mps/keeper/keeper.h"
#include "os/socket/unix_socket.h"
#include "programs.h"

namespace tranche::bench {
namespace {

using Json = nlohmann::ordered_json;
using namespace std::chrono_literals;

constexpr int kClientsOfAShare = 48;  // one share may have a quarter of the keeper's descriptors
constexpr int kDescriptors = 27;      // of a PyTorch program on one GPU
constexpr const char* kDevices = "Character devices:\n1 nvidia-uvm\n136 nvidia-uvm\n";  // /dev/null, terminals
constexpr auto kDeadline = 120s;
constexpr auto kBetweenDeaths = 50ms;

[[noreturn]] void give_up(const std::string& what) {
  std::fprintf(stderr, "bench: %s\n", what.c_str());
  std::exit(1);
}

class Client {
 public:
  explicit Client(bool with_terminal) {
    int ready[2];
    if (::pipe2(ready, O_CLOEXEC) != 0) give_up("no pipe");
    std::string last = "/dev/null";
    if (with_terminal) {
      terminal_ = os::Fd(::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC));
      if (!terminal_ || ::unlockpt(terminal_.get()) != 0) give_up("no terminal");
      last = ::ptsname(terminal_.get());
    }
    pid_ = ::fork();
    if (pid_ == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      // Among what is inherited may be /dev/null or /dev/urandom.
      ::dup2(ready[1], 0);
      ::close_range(1, ~0U, 0);
      for (int i = 1; i < kDescriptors; ++i) (void)::open("/dev/null", O_RDWR | O_CLOEXEC);
      if (::open(last.c_str(), O_RDWR | O_NOCTTY | O_CLOEXEC) >= 0) (void)!::write(0, "y", 1);
      for (;;) ::pause();
    }
    char yes = 0;
    ::close(ready[1]);
    if (pid_ < 0 || ::read(ready[0], &yes, 1) != 1) give_up("no client");
    ::close(ready[0]);
  }
  ~Client() { die(); }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;
  void die() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(std::exchange(pid_, 0), nullptr, 0);
  }
  pid_t pid() const { return pid_; }
  int terminal() const { return terminal_.get(); }  // hangs up when no process has the client's descriptor

 private:
  os::Fd terminal_;
  pid_t pid_ = 0;
};

struct Spent {
  std::uint64_t cpu_ns = 0;
  std::uint64_t wakes = 0;
};

Spent spent_by(pid_t pid) {
  Spent spent{cpu_ns(pid), 0};
  for (const auto& task : std::filesystem::directory_iterator("/proc/" + std::to_string(pid) + "/task")) {
    std::ifstream file(task.path() / "status");
    for (std::string line; std::getline(file, line);)
      if (line.starts_with("voluntary_ctxt_switches:")) spent.wakes += std::strtoull(line.c_str() + 24, nullptr, 10);
  }
  return spent;
}

class Holding {
 public:
  Holding() : loop_(*os::Loop::open()) {
    if (::mkdtemp(root_.data()) == nullptr) give_up("no scratch directory");
    std::ofstream(root_ + "/devices") << kDevices;
    connect();
  }
  ~Holding() {
    const auto pid = keeper_pid();
    mps_.reset();
    if (pid > 0) ::kill(pid, SIGKILL);
    std::error_code ignored;
    std::filesystem::remove_all(root_, ignored);
  }
  Holding(const Holding&) = delete;
  Holding& operator=(const Holding&) = delete;

  mps::Keeper& mps() { return *mps_; }
  os::Loop& loop() { return *loop_; }
  void disconnect() { mps_.reset(); }
  void connect() {
    mps_ = std::make_unique<mps::Keeper>(*loop_,
                                         mps::KeeperClientSettings{.mps_root = root_,
                                                                   .home = {},
                                                                   .program = build_dir() + "/bin/tranche-keeper",
                                                                   .devices = root_ + "/devices"},
                                         [this] {
                                           if (condition_ && condition_()) loop_->stop();
                                         });
  }
  // Looks when the keeper has reported something, so that waiting costs nothing.
  void until(const std::function<bool()>& condition) {
    if (condition()) return;
    condition_ = condition;
    const auto late = loop_->after(kDeadline, [] { give_up("the keeper does not hold its clients"); });
    loop_->run();
    loop_->cancel(late);
    condition_ = nullptr;
  }
  void run_for(Duration time) {
    loop_->after(time, [this] { loop_->stop(); });
    loop_->run();
  }
  std::size_t held() const {
    return static_cast<std::size_t>(std::ranges::count_if(mps_->status().clients, [](const auto& each) {
      return each.second.state == mps::HeldState::kHeld && each.second.files == kDescriptors;
    }));
  }
  bool has_all_of(pid_t pid) const {
    return std::ranges::any_of(mps_->status().clients, [pid](const auto& each) {
      return each.first.pid == pid && each.second.files == kDescriptors;
    });
  }
  // The process that listens on the socket.
  pid_t keeper_pid() const { return os::probe_listener(root_ + "/keeper.sock").pid; }

 private:
  std::string root_ = "/tmp/trh.XXXXXX";
  std::unique_ptr<os::Loop> loop_;
  std::function<bool()> condition_;
  std::unique_ptr<mps::Keeper> mps_;
};

Json per(const Spent& before, const Spent& after, double count) {
  return {{"cpu_ms", static_cast<double>(after.cpu_ns - before.cpu_ns) / 1e6 / count},
          {"wakes", static_cast<double>(after.wakes - before.wakes) / count}};
}

Json summary(std::vector<double> millis) {
  std::ranges::sort(millis);
  return {{"median_ms", millis[millis.size() / 2]}, {"worst_ms", millis.back()}};
}

double ms_since(Clock::time_point begun) {
  return std::chrono::duration<double, std::milli>(Clock::now() - begun).count();
}

using Clients = std::vector<std::unique_ptr<Client>>;

Json starts(Holding& holding, pid_t keeper, int count, Clients& clients) {
  std::vector<double> complete;
  Spent own{}, its{};
  for (int i = 0; i < count; ++i) {
    clients.push_back(std::make_unique<Client>(true));
    const auto pid = clients.back()->pid();
    const auto all = holding.held() + 1;
    const auto before = spent_by(keeper), own_before = spent_by(::getpid());
    const auto begun = Clock::now();
    holding.mps().hold(pid, "grant");
    holding.until([&] { return holding.has_all_of(pid); });
    complete.push_back(ms_since(begun));
    holding.until([&] { return holding.held() == all; });
    const auto own_after = spent_by(::getpid()), after = spent_by(keeper);
    own.cpu_ns += own_after.cpu_ns - own_before.cpu_ns;
    own.wakes += own_after.wakes - own_before.wakes;
    its.cpu_ns += after.cpu_ns - before.cpu_ns;
    its.wakes += after.wakes - before.wakes;
  }
  return {{"complete", summary(std::move(complete))}, {"keeper", per({}, its, count)}, {"mps", per({}, own, count)}};
}

Json rest(Holding& holding, pid_t keeper, int seconds) {
  const auto own = spent_by(::getpid()), its = spent_by(keeper);
  holding.run_for(std::chrono::seconds(seconds));
  return {{"keeper_a_second", per(its, spent_by(keeper), seconds)},
          {"mps_a_second", per(own, spent_by(::getpid()), seconds)}};
}

Json deaths(Holding& holding, Clients& clients) {
  std::vector<double> freed;
  std::vector<os::Loop::Id> watches(clients.size());
  for (std::size_t i = 0; i < clients.size(); ++i) {
    const auto begun = Clock::now();
    clients[i]->die();
    watches[i] = holding.loop().watch(clients[i]->terminal(), EPOLLIN, [&, i, begun](std::uint32_t) {
      freed.push_back(ms_since(begun));
      holding.loop().cancel(watches[i]);
    });
    holding.run_for(kBetweenDeaths);
  }
  const auto begun = Clock::now();
  while (freed.size() < clients.size()) {
    if (Clock::now() - begun > kDeadline) give_up("the keeper does not release its clients");
    holding.run_for(kBetweenDeaths);
  }
  return summary(std::move(freed));
}

}  // namespace

Json hold_cost(int clients, int count) {
  Holding holding;
  Clients beside, measured;
  for (int i = 0; i < clients; ++i) {
    beside.push_back(std::make_unique<Client>(false));
    holding.mps().hold(beside.back()->pid(), "grant-" + std::to_string(i / kClientsOfAShare));
  }
  if (clients == 0) {  // someone must start the keeper
    measured.push_back(std::make_unique<Client>(true));
    holding.mps().hold(measured.back()->pid(), "grant");
  }
  holding.until([&] { return holding.held() == beside.size() + measured.size(); });
  const auto keeper = holding.keeper_pid();
  if (keeper == 0) give_up("no keeper");
  Json json{{"descriptors", kDescriptors}, {"clients", clients}};
  json["start"] = starts(holding, keeper, count, measured);
  json["rest"] = rest(holding, keeper, count);
  holding.disconnect();
  holding.run_for(1s);
  json["rest_without_mps"] = rest(holding, keeper, count);
  holding.connect();
  json["rss_mb"] = resident_mb(keeper);
  json["death_to_close"] = deaths(holding, measured);
  return json;
}

}  // namespace tranche::bench
