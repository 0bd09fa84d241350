#include "mps/daemon/adoption.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <memory>

#include "base/text.h"
#include "grants/allocate/grant.h"
#include "mps/relay/relay_packet.h"
#include "os/files/files.h"
#include "os/process/threads.h"
#include "os/socket/unix_socket.h"

namespace tranche::mps {
namespace {

constexpr int kHost = 1;  // a process that is in no container
constexpr std::string_view kProgram = "nvidia-cuda-mps-control";
constexpr const char* kPipe = "CUDA_MPS_PIPE_DIRECTORY";
constexpr const char* kDevices = "CUDA_VISIBLE_DEVICES";

// The program's path, also if the file was replaced or removed while it runs.
Result<std::string> program_of(pid_t pid) {
  auto path = os::read_link(fmt::format("/proc/{}/exe", pid));
  if (!path) return std::unexpected(within(path.error(), "cannot determine which program runs"));
  constexpr std::string_view kDeleted = " (deleted)";
  if (path->ends_with(kDeleted)) path->resize(path->size() - kDeleted.size());
  return path;
}

bool is_control_program(std::string_view path) {
  return path.substr(path.rfind('/') + 1) == kProgram;
}

bool is_ours(pid_t pid) {
  const auto status = os::read_file(fmt::format("/proc/{}/status", pid));
  return status && is_of_user(*status, ::geteuid());
}

// The process that listens on a socket, as the kernel recorded it at listen(). Absent: no process listens, its queue is
// full, it is not visible, or the one that is recorded has exited and others hold the socket (its pid may be reused; a
// kernel before Linux 6.5 does not report that).
std::optional<pid_t> listener_of(const std::string& socket) {
  const auto fd = os::connect_to(socket, SOCK_SEQPACKET);
  if (!fd) return std::nullopt;
  const auto peer = peer_of(fd->get());
  return peer.sender.pid > 0 && peer.lives() ? std::optional(static_cast<pid_t>(peer.sender.pid)) : std::nullopt;
}

// The same program is the client and the daemon; its options distinguish them.
bool is_daemon(pid_t pid) {
  const auto options = os::read_file(fmt::format("/proc/{}/cmdline", pid)).value_or("");
  return std::ranges::any_of(split(options, '\0'), [](auto word) { return word == "-f" || word == "-d"; });
}

// In our own container or on the host: daemons are started nowhere else.
bool is_outside_of_containers(pid_t pid, int host_pid) {
  const auto mounts_of = [](pid_t each) { return os::read_link(fmt::format("/proc/{}/ns/mnt", each)).value_or(""); };
  const auto theirs = mounts_of(pid);
  return !theirs.empty() && (theirs == mounts_of(::getpid()) || theirs == mounts_of(host_pid));
}

// All daemons of our user outside of containers that run a program of this name. Reads links of each process of the
// node, and the memory of none in a container (its command line): a tenant can block such a read for as long as it
// likes.
std::vector<pid_t> running_daemons(int host_pid) {
  std::vector<pid_t> found;
  for (const pid_t pid : os::all_processes()) {
    const auto program = program_of(pid);
    if (program && is_control_program(*program) && is_outside_of_containers(pid, host_pid) && is_ours(pid) &&
        is_daemon(pid))
      found.push_back(pid);
  }
  return found;
}

// The processes of our user that may be the daemon of a pipe directory: first the one that listens there.
std::vector<pid_t> candidates(const std::string& pipe, int host_pid) {
  auto pids = running_daemons(host_pid);
  const auto listens = listener_of(pipe + "/control");
  if (!listens || !is_ours(*listens)) return pids;
  std::erase(pids, *listens);
  pids.insert(pids.begin(), *listens);
  return pids;
}

std::map<std::string, std::string> environment_of(pid_t pid) {
  const auto environ = os::read_file(fmt::format("/proc/{}/environ", pid));
  return environ ? parse_environ(*environ) : std::map<std::string, std::string>{};
}

std::string value_of(const std::map<std::string, std::string>& variables, const char* name) {
  const auto found = variables.find(name);
  return found == variables.end() ? std::string() : found->second;
}

// Whether the name in the process's environment leads to this directory as the process sees it: the MPS root may have
// another path there, and a daemon of another MPS root may serve a pool with the same id.
bool is_its_directory(pid_t pid, const std::string& name, const std::string& directory) {
  return os::lead_to_one_file(fmt::format("/proc/{}/root{}", pid, name), directory);
}

// The daemon of a pool, also if the pool is no longer planned.
std::optional<LeftPool> daemon_of(const std::string& mps_root, const std::string& pool) {
  const std::string pipe = grants::Paths{mps_root}.pipe(pool);
  for (const pid_t pid : candidates(pipe, kHost)) {
    const auto program = program_of(pid);
    if (!program || !is_control_program(*program)) continue;
    const auto variables = environment_of(pid);
    const std::string theirs = value_of(variables, kPipe);
    if (!theirs.ends_with("/pools/" + pool + "/pipe") || !is_its_directory(pid, theirs, pipe)) continue;
    LeftPool left{pool, pid, {}};
    const std::string devices = value_of(variables, kDevices);
    for (const auto device : split(devices, ','))
      if (!device.empty()) left.devices.emplace_back(device);
    return left;
  }
  return std::nullopt;
}

std::unexpected<Error> foreign(pid_t pid, const std::string& what, const std::string& pipe) {
  return fail(
      Kind::kConflict,
      fmt::format("an MPS control daemon (pid {}) that this program did not start holds the pipe directory ({}); "
                  "stop it with: echo quit | CUDA_MPS_PIPE_DIRECTORY={} nvidia-cuda-mps-control",
                  pid, what, pipe),
      pipe);
}

// The same file, or the file that was at its path when the process started.
bool runs(pid_t pid, const std::string& program, const ExpectedDaemon& expected) {
  if (os::lead_to_one_file(fmt::format("/proc/{}/exe", pid), expected.program)) return true;
  if (program == program_at_home(expected.home, expected.program)) return true;
  const std::unique_ptr<char, decltype(&std::free)> real(::realpath(expected.program.c_str(), nullptr), &std::free);
  return real && program == real.get();
}

// nullopt: not a daemon of this pipe directory.
Result<std::optional<os::ProcessRef>> judge(pid_t pid, const std::string& pipe, const ExpectedDaemon& expected) {
  const auto ref = os::process_ref(pid);
  if (!ref) return std::nullopt;
  const auto program = program_of(pid);
  if (!program && program.error().code == ENOENT) return std::nullopt;  // a kernel thread, or it has exited
  if (program && !is_control_program(*program)) return std::nullopt;
  const auto environ = program ? os::read_file(fmt::format("/proc/{}/environ", pid)) : Result<std::string>("");
  if (!program || !environ) {
    if (os::process_ref(pid) != ref) return std::nullopt;  // it exited during the check
    return foreign(pid, to_string(program ? environ.error() : program.error()), pipe);
  }
  const auto variables = parse_environ(*environ);
  // A different pipe directory means a different daemon.
  if (value_of(variables, kPipe) != value_of(expected.environment, kPipe)) return std::nullopt;
  if (!runs(pid, *program, expected))
    return foreign(pid, fmt::format("it runs {}, and the configured program is {}", *program, expected.program), pipe);
  if (const auto devices = value_of(variables, kDevices); devices != value_of(expected.environment, kDevices))
    return foreign(pid, fmt::format("its {} is {}", kDevices, in_quotes(devices)), pipe);
  return *ref;
}

}  // namespace

std::map<std::string, std::string> parse_environ(std::string_view text) {
  std::map<std::string, std::string> variables;
  for (const auto piece : split(text, '\0')) {
    const auto equals = piece.find('=');
    if (equals == std::string_view::npos || equals == 0) continue;
    variables.emplace(piece.substr(0, equals), piece.substr(equals + 1));
  }
  return variables;
}

// Not the owner of /proc/<pid>: that is root for a process that made itself undumpable.
bool is_of_user(std::string_view status, unsigned uid) {
  constexpr std::string_view kField = "Uid:";
  for (const auto line : split(status, '\n')) {
    if (!line.starts_with(kField)) continue;
    const auto ids = split(trimmed(line.substr(kField.size())), '\t');
    return ids.size() == 4 && std::ranges::all_of(ids, [&](auto id) { return parse_unsigned(id) == uid; });
  }
  return false;
}

Result<std::vector<LeftPool>> find_left_pools(const std::string& mps_root) {
  const auto root = os::Dir::open(mps_root + "/pools");
  if (!root && root.error().kind == Kind::kNotFound) return std::vector<LeftPool>{};
  if (!root) return std::unexpected(root.error());
  TRY(const auto names, root->list());
  std::vector<LeftPool> left;
  for (const auto& id : names)
    if (auto pool = daemon_of(mps_root, id)) left.push_back(*std::move(pool));
  return left;
}

Result<std::optional<os::ProcessRef>> find_adoptable(const std::string& pipe, const ExpectedDaemon& expected) {
  std::optional<Error> conflict;
  for (const pid_t pid : candidates(pipe, expected.home.host_pid)) {
    const auto judged = judge(pid, pipe, expected);
    if (judged && *judged) return *judged;
    if (!judged && !conflict) conflict = judged.error();
  }
  if (conflict) return std::unexpected(*conflict);
  return std::nullopt;
}

}  // namespace tranche::mps
