// nvidia-cuda-mps-control: the daemon (-d, -f) and, without those, the command client.
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "standins/mps/control_client.h"
#include "standins/mps/control_daemon.h"
#include "standins/mps/help.h"

namespace {

using namespace tranche::sim;

struct Arguments {
  bool daemon = false;
  bool foreground = false;
  bool multi_user = false;
  std::string command;
};

// The release of the node's driver; 580 without a node.
int driver_release() {
  const auto node = Node::open();
  return node ? std::atoi((*node)->driver_version().c_str()) : 580;
}

// The directory of the running program, which also contains the server.
std::string program_directory() {
  char path[4096] = {};
  const auto length = ::readlink("/proc/self/exe", path, sizeof path - 1);
  const std::string whole(path, length > 0 ? static_cast<std::size_t>(length) : 0);
  return whole.substr(0, whole.rfind('/'));
}

// The daemon's percentage variable is the first default. Its memory variable is not: if it is set, the getter prints
// nothing and clients get the whole memory (transcripts/ends.txt).
void read_daemon_environment(ControlOptions* options) {
  if (const auto threads = environment("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE")) {
    options->threads = parse_percentage(*threads).value_or(options->threads);
  }
}

int open_log(const std::string& path) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (fd < 0) std::fprintf(stderr, "Cannot open %s: %s\n", path.c_str(), std::strerror(errno));
  return fd;
}

// In the remaining process: claims the directory, reports that on `ready` (-d), and serves.
int serve(const Arguments& arguments, int ready) {
  ControlOptions options;
  options.pipe_directory = environment("CUDA_MPS_PIPE_DIRECTORY").value_or("/tmp/nvidia-mps");
  options.log_directory = environment("CUDA_MPS_LOG_DIRECTORY").value_or("/var/log/nvidia-mps");
  options.server_program = program_directory() + "/nvidia-cuda-mps-server";
  options.multi_user = arguments.multi_user;
  read_daemon_environment(&options);
  auto node = Node::open();
  if (!node) {
    std::fprintf(stderr, "nvidia-cuda-mps-control: %s\n", node.error().c_str());
    return 1;
  }
  PipeDirectory directory;
  std::string why;
  switch (claim_pipe_directory(options.pipe_directory, &directory, &why)) {
    case Claim::kOtherDaemon:
      std::puts("An instance of this daemon is already running");
      return 1;
    case Claim::kFailed:
      std::fprintf(stderr, "%s\n", why.c_str());
      return 1;
    case Claim::kTaken:
      break;
  }
  // In the foreground all output, including the servers', goes to stdout, and there is no log file (transcripts).
  int control_log = STDOUT_FILENO, server_log = STDOUT_FILENO;
  if (!arguments.foreground) {
    ::mkdir(options.log_directory.c_str(), 0700);
    control_log = open_log(options.log_directory + "/control.log");
    server_log = open_log(options.log_directory + "/server.log");
    if (control_log < 0 || server_log < 0) return 1;
    const int null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
    for (int fd = 0; fd <= 2; ++fd) ::dup2(null, fd);
    if (::write(ready, "r", 1) != 1) return 1;
  }
  auto devices = selected(all_gpus(**node), environment("CUDA_VISIBLE_DEVICES"));
  ControlDaemon daemon(*std::move(node), std::move(devices), std::move(options), std::move(directory),
                       MpsLog(control_log, "Control"), server_log);
  return daemon.run();
}

// -d: returns once the daemon serves or has failed, like the real one.
int daemonize(const Arguments& arguments) {
  int ready[2];
  if (::pipe2(ready, O_CLOEXEC) != 0) return 1;
  const pid_t child = ::fork();
  if (child < 0) return 1;
  if (child == 0) {
    ::close(ready[0]);
    ::setsid();
    const int status = serve(arguments, ready[1]);
    std::fflush(stdout);
    ::_exit(status);
  }
  ::close(ready[1]);
  char byte = 0;
  return ::read(ready[0], &byte, 1) == 1 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  ::signal(SIGPIPE, SIG_IGN);
  Arguments arguments;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (!arguments.command.empty()) {  // the rest of a command may look like options
      arguments.command += " " + word;
      continue;
    }
    if (word == "-h" || word == "--help") {
      std::fputs(control_help(driver_release()).c_str(), stdout);
      return 0;
    }
    if (word == "-v" || word == "--version") {
      std::fputs(control_version(driver_release()).c_str(), stdout);
      return 0;
    }
    if (word == "-d" || word == "--daemon") {
      arguments.daemon = true;
    } else if (word == "-f" || word == "--foreground" || word == "--forground") {
      arguments.foreground = true;
    } else if (word == "-M" || word == "-multiuser-server" || word == "--multiuser-server") {
      arguments.multi_user = true;
    } else if (word == "-q" || word == "--ready-devices") {
      continue;  // asks the driver for the devices at start, which the stand-in always does
    } else if (word.starts_with("-")) {
      // r580's output for -S, -p and every other option: a NUL in place of the option's name, status 0.
      std::fwrite("Unrecognized option \0\n", 1, 22, stdout);
      std::fputs(control_help(driver_release()).c_str(), stdout);
      return 0;
    } else {
      arguments.command = word;
    }
  }
  if (arguments.foreground) return serve(arguments, -1);
  if (arguments.daemon) return daemonize(arguments);
  return run_control_client(environment("CUDA_MPS_PIPE_DIRECTORY").value_or("/tmp/nvidia-mps"), arguments.command);
}
