#include "host/mps/leftover.h"

#include <fmt/format.h>
#include <unistd.h>

#include "base/text.h"
#include "host/files/files.h"

namespace tranche::host {
namespace {

constexpr std::string_view kProgram = "nvidia-cuda-mps-control";
constexpr const char* kPidFile = "nvidia-cuda-mps-control.pid";

// The program's file name, also when the file was replaced or removed under it.
Result<std::string> program_of(pid_t pid) {
  const std::string link = fmt::format("/proc/{}/exe", pid);
  char buffer[4096];
  const ssize_t length = ::readlink(link.c_str(), buffer, sizeof buffer);
  if (length < 0) return std::unexpected(error_from_errno(errno, "cannot tell which program runs", link));
  std::string_view path(buffer, static_cast<std::size_t>(length));
  if (path.ends_with(" (deleted)")) path.remove_suffix(std::string_view(" (deleted)").size());
  return std::string(path.substr(path.rfind('/') + 1));
}

// The file is written without a line end, over what a longer number left there.
std::optional<pid_t> pid_of(const std::string& text) {
  const auto number = parse_unsigned(trimmed(split(trimmed(text), '\n').front()));
  if (!number || *number == 0 || *number > 4194304) return std::nullopt;
  return static_cast<pid_t>(*number);
}

std::optional<pid_t> pid_in_file(const PoolDirs& dirs) {
  const auto text = dirs.read_pid_file();
  return text ? pid_of(*text) : std::nullopt;
}

std::unexpected<Error> foreign(pid_t pid, const std::string& what, const PoolDirs& dirs) {
  return fail(
      Kind::kConflict,
      fmt::format("an MPS control daemon (pid {}) that this program did not start holds the pipe directory ({}); "
                  "stop it with: echo quit | CUDA_MPS_PIPE_DIRECTORY={} nvidia-cuda-mps-control",
                  pid, what, dirs.pipe()),
      dirs.pipe());
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

std::optional<mps::Tier> tier_of_leftover(const allocate::Paths& paths, const std::string& pool) {
  const auto text = read_file(paths.pipe(pool) + "/" + kPidFile);
  const auto pid = text ? pid_of(*text) : std::nullopt;
  if (!pid) return std::nullopt;
  const auto program = program_of(*pid);
  if (!program || *program != kProgram) return std::nullopt;
  const auto options = read_file(fmt::format("/proc/{}/cmdline", *pid));
  if (!options) return std::nullopt;
  auto tier = mps::Tier::kV2;
  for (const auto word : split(*options, '\0')) {
    if (word == "-S" || word == "--static-partitioning") tier = mps::Tier::kStatic;
    if (word == "-p" || word == "--protocol") tier = mps::Tier::kV3;
  }
  return tier;
}

Result<std::vector<LeftPool>> find_left_pools(const std::string& mps_root) {
  const auto root = Dir::open(mps_root + "/pools");
  if (!root && root.error().kind == Kind::kNotFound) return std::vector<LeftPool>{};
  if (!root) return std::unexpected(root.error());
  TRY(const auto names, root->list());
  std::vector<LeftPool> left;
  for (const auto& id : names) {
    const auto text = root->read(id + "/pipe/" + kPidFile, 64);
    const auto pid = text ? pid_of(*text) : std::nullopt;
    if (!pid) continue;
    const auto program = program_of(*pid);
    const auto environ = read_file(fmt::format("/proc/{}/environ", *pid));
    if (!program || *program != kProgram || !environ) continue;
    const auto variables = parse_environ(*environ);
    const auto pipe = variables.find("CUDA_MPS_PIPE_DIRECTORY");
    if (pipe == variables.end() || !pipe->second.ends_with("/pools/" + id + "/pipe")) continue;
    LeftPool pool{id, *pid, {}};
    if (const auto devices = variables.find("CUDA_VISIBLE_DEVICES"); devices != variables.end())
      for (const auto device : split(devices->second, ',')) pool.devices.emplace_back(device);
    left.push_back(std::move(pool));
  }
  return left;
}

Result<std::optional<ProcessRef>> find_leftover(const PoolDirs& dirs,
                                                const std::map<std::string, std::string>& environment) {
  const auto pid = pid_in_file(dirs);
  if (!pid) return std::nullopt;
  const auto ref = process_ref(*pid);
  if (!ref) return std::nullopt;
  const auto program = program_of(*pid);
  if (program && *program != kProgram) return std::nullopt;  // the number belongs to another program by now
  const auto environ = read_file(fmt::format("/proc/{}/environ", *pid));
  if (!program || !environ) {
    const auto again = process_ref(*pid);
    if (!again || *again != *ref) return std::nullopt;  // it ended while we looked
    return foreign(*pid, to_string(program ? environ.error() : program.error()), dirs);
  }
  const auto variables = parse_environ(*environ);
  for (const char* name : {"CUDA_MPS_PIPE_DIRECTORY", "CUDA_VISIBLE_DEVICES"}) {
    const auto theirs = variables.find(name);
    const auto ours = environment.find(name);
    const std::string value = theirs == variables.end() ? "" : theirs->second;
    if (ours != environment.end() && value == ours->second) continue;
    // Another pipe directory means another daemon: a stale pid file met a recycled number.
    if (std::string_view(name) == "CUDA_MPS_PIPE_DIRECTORY") return std::nullopt;
    return foreign(*pid, fmt::format("its {} is {}", name, in_quotes(value)), dirs);
  }
  return *ref;
}

}  // namespace tranche::host
