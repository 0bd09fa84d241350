#include "node/node_program.h"

#include <filesystem>

#include "os/files/files.h"

namespace tranche::node {
namespace {

constexpr const char* kName = "tranche-drain";
constexpr std::size_t kLargest = 16 << 20;

std::string beside_ourselves() {
  const auto self = os::read_link("/proc/self/exe");
  return self ? os::parts_of(*self).directory + "/" + kName : "";
}

}  // namespace

Status install_drain_program(const std::string& dir, const std::string& source) {
  if (dir.empty()) return {};
  if (!dir.starts_with('/')) return fail(Kind::kInvalid, "--program-dir " + dir + " is not an absolute path");
  auto program = os::read_file(source.empty() ? beside_ourselves() : source, kLargest);
  if (!program) return std::unexpected(within(std::move(program).error(), "tranche-drain is not beside this program"));
  TRY(const auto folder, os::Dir::create(dir, 0755));
  if (const auto there = folder.read(kName, kLargest); there && *there == *program) {
    std::error_code error;
    const auto mode = std::filesystem::status(dir + "/" + kName, error).permissions();
    if (!error && mode == std::filesystem::perms(0755)) return {};
  }
  return folder.write_atomically(kName, *program, 0755);
}

}  // namespace tranche::node
