#include "host/mps/leftover.h"

#include <fmt/format.h>
#include <unistd.h>

#include "base/text.h"

namespace tranche::host {
namespace {

constexpr std::string_view kProgram = "nvidia-cuda-mps-control";

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

std::optional<pid_t> pid_in_file(const PoolDirs& dirs) {
  const auto text = dirs.read_pid_file();
  if (!text) return std::nullopt;
  // The file is written without a line end, over what a longer number left there.
  const auto number = parse_unsigned(trimmed(split(trimmed(*text), '\n').front()));
  if (!number || *number == 0 || *number > 4194304) return std::nullopt;
  return static_cast<pid_t>(*number);
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
