// tranche-runtime: a wrapper of the OCI runtime. Before it signals a container with a grant, it has those CUDA clients
// stopped that the signal would kill, and delays a SIGKILL until they have ended; all other calls are passed on
// unchanged. It never prints, because the shim reads the runtime's output, and never fails a call: in doubt, the
// runtime runs immediately. Configuration errors go to the node's log (journald, syslog) when a container is created.
//
// The runtime is searched in this order: `runtime` in /etc/tranche/runtime.conf, runc in PATH, runc in the
// distributions' usual places; never tranche-runtime itself. A marker in the environment shows that a script led back
// to tranche-runtime: then the configured runtime is skipped, and the second time the program exits.
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "termination/program_arguments.h"
#include "termination/programs/call.h"

namespace {

using namespace tranche::drain;
using namespace tranche::stopping;

// The shim holds the container's lock meanwhile. Once the clients are stopped, any signal but SIGKILL may follow
// immediately: it stays pending in stopped processes until their queued GPU work has finished and they are killed.
constexpr int kStoppedWithinMs = 1000;
constexpr int kEndedWithinMs = 10'000;
constexpr int kSigkill = 9;
constexpr const char* kConf = "/etc/tranche/runtime.conf";
constexpr const char* kConfVariable = "TRANCHE_RUNTIME_CONF";
constexpr const char* kLog = "/dev/log";
constexpr const char* kLogVariable = "TRANCHE_RUNTIME_LOG";
constexpr const char* kMarker = "TRANCHE_RUNTIME_PASSED";
constexpr std::string_view kUsualPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

struct Self {
  struct stat info = {};
  bool known = ::stat("/proc/self/exe", &info) == 0;
};

bool is_other(const char* path, const Self& self) {
  struct stat info = {};
  return ::stat(path, &info) == 0 && S_ISREG(info.st_mode) && self.known &&
         (info.st_dev != self.info.st_dev || info.st_ino != self.info.st_ino);
}

// Reports a configuration error, and its effect on containers.
void report(const char* conf, const char* wrong, std::string_view what, int error) {
  const char* given = ::getenv(kLogVariable);
  Text line;
  line << "tranche-runtime: " << conf << ": " << what << (what.empty() ? "" : " ") << wrong;
  if (error != 0) line << " (" << strerrordesc_np(error) << ")";
  line << "; containers are made by runc of PATH instead, so that GPU containers which need NVIDIA's runtime find no "
          "driver; correct the file (runtime=/usr/bin/nvidia-container-runtime)";
  log_line(given != nullptr ? given : kLog, line);
}

void become(const char* path, const Self& self, char** argv) {
  if (!is_other(path, self)) return;
  char* const name = argv[0];
  argv[0] = const_cast<char*>(path);
  ::execv(path, argv);
  argv[0] = name;
}

void become_runc_of(std::string_view folders, const Self& self, char** argv) {
  while (!folders.empty()) {
    const auto end = folders.find(':');
    const std::string_view folder(folders.data(), end == std::string_view::npos ? folders.size() : end);
    folders.remove_prefix(end == std::string_view::npos ? folders.size() : end + 1);
    Text path;
    path << folder << "/runc";
    if (folder.starts_with('/') && path.fits()) become(path.c_str(), self, argv);
  }
}

void drain_first(std::string_view run_dir, const KillArguments& kill) {
  Text path;
  path << run_dir << "/containers/" << kill.container;
  char bytes[4096];
  const auto record = read_container_record(path.fits() ? read_short(path.c_str(), bytes) : "");
  char answer[16384];
  const int signal = kill.signal != 0 ? kill.signal : kSigkill;  // an unknown name: assume the worst
  if (!record.drain.empty())
    (void)ask_for_drain(record.drain, kStoppedWithinMs, answer, signal, signal == kSigkill ? kEndedWithinMs : 0);
}

}  // namespace

int main(int argc, char** argv) {
  const char* marker = ::getenv(kMarker);
  const bool passed = marker != nullptr && *marker != '\0';
  if (passed && ::strcmp(marker, "1") != 0) {
    Text text;
    text << "tranche-runtime: what is called as runtime leads back here; name the real one in " << kConf
         << ": runtime=/usr/bin/runc";
    say(STDERR_FILENO, text);
    return 127;
  }
  const std::span<const char* const> words{const_cast<const char* const*>(argv), static_cast<std::size_t>(argc)};
  const char* given = ::getenv(kConfVariable);
  const char* path_of_conf = given != nullptr ? given : kConf;
  char bytes[4096];
  const bool trusted = is_roots_alone(path_of_conf);
  const auto conf = read_runtime_conf(trusted ? read_short(path_of_conf, bytes) : "");
  const auto kill = read_kill_arguments(words);
  if (!passed && !kill.container.empty()) drain_first(conf.run_dir, kill);

  ::setenv(kMarker, passed ? "2" : "1", 1);
  const Self self;
  Text runtime;
  runtime << conf.runtime;
  errno = 0;
  if (!passed && runtime.fits() && !runtime.empty()) become(runtime.c_str(), self, argv);
  if (const int error = errno; !passed && makes_container(words)) {
    if (!trusted)
      report(path_of_conf, "is not read: it or its folder is not root's, or other users may write it", "", 0);
    if (!conf.runtime.empty()) report(path_of_conf, "cannot be executed as the OCI runtime", conf.runtime, error);
    if (conf.runtime.empty() && !conf.refused.empty())
      report(path_of_conf, "is neither a known key nor an absolute path", conf.refused, 0);
  }
  const char* path = ::getenv("PATH");
  become_runc_of(path != nullptr ? path : "", self, argv);
  become_runc_of(kUsualPath, self, argv);
  Text text;
  text << "tranche-runtime: no OCI runtime to hand on to; name it in " << kConf << ": runtime=/usr/bin/runc";
  say(STDERR_FILENO, text);
  return 127;
}
