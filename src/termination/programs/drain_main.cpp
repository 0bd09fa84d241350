// tranche-drain: a container's preStop hook. Runs the user's own hook first, whose exit status it returns, then has the
// container's CUDA clients ended through MPS, so that the stop signal that follows finds none with work in flight. It
// is mounted into images without a C library, and runs as any user over a read-only root: so it is static and writes no
// files.
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "termination/program_arguments.h"
#include "termination/programs/call.h"

namespace {

using namespace tranche::drain;
using tranche::stopping::DrainArguments;

constexpr const char* kHelp =
    "tranche-drain [--socket PATH] [--timeout 5s] [--strict] [-- COMMAND...]\n"
    "  A container's preStop hook: runs COMMAND, whose exit status is given on, then ends the container's CUDA\n"
    "  clients through MPS, so that its neighbours on the GPU live on.\n"
    "  --socket PATH   where to ask; /run/tranche/mps/drain\n"
    "  --timeout 5s    the longest wait for the drain (1ms to 10m)\n"
    "  --strict        status 1 when it did not work; without it, it is only said";

int status_of(int wait_status) {
  return WIFEXITED(wait_status) ? WEXITSTATUS(wait_status) : 128 + WTERMSIG(wait_status);
}

// On a timeout kubelet kills only this process: the user's command must end with it, as it would without tranche-drain.
[[noreturn]] void become(char* const* argv) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  ::execvp(argv[0], argv);
  const int error = errno;
  Text text;
  text << "tranche-drain: cannot run " << argv[0] << ": " << strerrordesc_np(error);
  say(STDERR_FILENO, text);
  ::_exit(error == ENOENT ? 127 : 126);  // the shell's exit statuses
}

int run_command(char* const* argv) {
  const pid_t child = ::fork();
  if (child == 0) become(argv);
  int status = 0;
  pid_t ended = child;
  while (child > 0 && (ended = ::waitpid(child, &status, 0)) < 0 && errno == EINTR) {
  }
  return child > 0 && ended == child ? status_of(status) : 126;
}

bool drain(const DrainArguments& arguments) {
  static char answer[65536];
  const auto called = ask_for_drain(arguments.socket, arguments.timeout_ms, answer);
  const bool ok = called.problem == nullptr && tranche::stopping::says_ok(called.line);
  Text text;
  text << "tranche-drain: ";
  if (ok) {
    text << "drained: " << called.line;
  } else if (called.problem == nullptr) {
    text << "not drained: " << called.line;
  } else {
    text << "not drained: " << called.problem << ": " << arguments.socket << " (" << strerrordesc_np(called.error)
         << ")";
  }
  say(ok ? STDOUT_FILENO : STDERR_FILENO, text);
  return ok;
}

}  // namespace

int main(int argc, char** argv) {
  const auto arguments =
      tranche::stopping::read_drain_arguments({const_cast<const char* const*>(argv), static_cast<std::size_t>(argc)});
  Text text;
  switch (arguments.what) {
    case DrainArguments::Do::kHelp:
      text << kHelp;
      say(STDOUT_FILENO, text);
      return 0;
    case DrainArguments::Do::kVersion:
      text << "tranche-drain " << TRANCHE_VERSION;
      say(STDOUT_FILENO, text);
      return 0;
    case DrainArguments::Do::kRefuse:
      text << "tranche-drain: cannot use " << arguments.refused << "; write\n" << kHelp;
      say(STDERR_FILENO, text);
      return 2;
    case DrainArguments::Do::kDrain:
      break;
  }
  const int status = arguments.command_at > 0 ? run_command(argv + arguments.command_at) : 0;
  const bool drained = drain(arguments);
  return status == 0 && arguments.strict && !drained ? 1 : status;
}
