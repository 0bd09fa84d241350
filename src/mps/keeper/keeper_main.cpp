// tranche-keeper SOCKET [DEVICES]: started by `tranche mps`; see keeper_server.h. DEVICES replaces /proc/devices.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <csignal>
#include <cstring>

#include "mps/keeper/keeper_server.h"

namespace {

tranche::Status run(int count, char** arguments) {
  using namespace tranche;
  TRY(const auto loop, os::Loop::open());
  mps::KeeperSettings settings{.socket = arguments[1]};
  if (count == 3) settings.devices = arguments[2];
  TRY(const auto keeper, mps::KeeperServer::open(*loop, std::move(settings), [&loop] { loop->stop(); }));
  TRY_STATUS(loop->on_signals({SIGTERM, SIGINT, SIGHUP}, [&keeper](int) { keeper->end(); }));
  loop->run();
  return {};
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 2 && count != 3) {
    fmt::print(stderr, "usage: tranche-keeper SOCKET [DEVICES]\n");
    return 2;
  }
  // The program was started by a descriptor; without this, ps shows the descriptor's path as its name.
  ::prctl(PR_SET_NAME, "tranche-keeper");
  std::strncpy(arguments[0], "tranche-keeper", std::strlen(arguments[0]));
  // The keeper's own end harms the clients whose deaths it covers. Without the right, the container's own value stays.
  const tranche::os::Fd score(::open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC));
  if (score) (void)!::write(score.get(), "-1000", 5);
  ::signal(SIGPIPE, SIG_IGN);
  const auto ran = run(count, arguments);
  if (!ran) fmt::print(stderr, "tranche-keeper: {}\n", to_string(ran.error()));
  return ran ? 0 : 1;
}
