// Texts of the kernel, sockets and log lines.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/text.h"
#include "containers/attribution.h"
#include "fuzz/target.h"
#include "os/http/http.h"
#include "os/log/log.h"
#include "os/process/process.h"
#include "os/process/threads.h"
#include "os/socket/status_socket.h"

using namespace tranche;

// Any bytes in a message: UTF-8 on one line without a control character, not longer than its bound, never cut inside a
// character.
FUZZ(in_quotes) {
  const auto quoted = tranche::in_quotes(text);
  if (!tranche::fuzz::is_harmless(quoted)) std::abort();
  if (quoted.size() > 4 * 80 + 5) std::abort();  // every byte as \xff, the quotes and the ellipsis
  if (!tranche::fuzz::is_harmless(tranche::visible_text(text))) std::abort();
  for (const std::size_t most : {0, 3, 10, 80})
    if (tranche::cut_text(text, most).size() > most) std::abort();
}

// Any bytes in a line of our own log: one line, JSON that can be read, and no exception.
FUZZ(log_line) {
  namespace log = tranche::log;
  const std::string all(text);
  const std::initializer_list<log::Field> fields{{"why", all}, {"count", 3}};
  if (std::ranges::count(log::text_of("config.refused", fields), '\n') != 0) std::abort();
  const auto line = log::json_of({}, log::Level::kWarning, "config.refused", fields);
  const auto read = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (read.is_discarded() || std::ranges::count(line, '\n') != 0) std::abort();
}

namespace {

std::vector<std::string> requests_of(std::string_view bytes, std::size_t piece) {
  tranche::LineReader reader(tranche::os::kLongestRequest);
  std::vector<std::string> requests;
  while (!bytes.empty()) {
    const auto lines = reader.take(bytes.substr(0, piece));
    bytes.remove_prefix(std::min(piece, bytes.size()));
    for (const auto& line : lines) {
      const auto request = tranche::os::read_request(line);
      if (!request) {
        requests.push_back("");  // refused: the connection ends here
        return requests;
      }
      if (request->size() > tranche::os::kLongestRequest) std::abort();
      for (const char c : *request) {
        if (c < 0x20 || c > 0x7e) std::abort();
      }
      requests.push_back(*request);
    }
  }
  return requests;
}

}  // namespace

// Requests on a status socket: the same bytes give the same requests however they are cut into pieces; what is accepted
// is bounded and printable.
FUZZ(status_request) {
  const auto whole = requests_of(text, 4096);
  if (requests_of(text, 1) != whole || requests_of(text, 7) != whole) std::abort();
}

// /proc/<pid>/stat: a process names itself, so the name must not be able to move the field that is read.
FUZZ(proc_stat) {
  const std::string all(text);
  if (const auto read = tranche::os::parse_stat(all)) {
    for (const char c : read->name)
      if (c < ' ' || c > '~') std::abort();
  }
  const std::string stat = "1 (" + all + ") S 1 1 1 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 987654 1 2 3\n";
  if (tranche::os::parse_stat(stat)->ref.start_ticks != 987654u) std::abort();
}

namespace {

constexpr std::size_t kLongestLine = 16;
constexpr std::string_view kCut = "…";

std::vector<std::string> lines_of(std::string_view bytes, std::size_t piece) {
  tranche::LineReader reader(kLongestLine);
  std::vector<std::string> lines;
  while (!bytes.empty()) {
    for (auto& line : reader.take(bytes.substr(0, piece))) lines.push_back(std::move(line));
    bytes.remove_prefix(std::min(piece, bytes.size()));
  }
  for (auto& line : reader.finish()) lines.push_back(std::move(line));
  return lines;
}

}  // namespace

// A child's output → lines: the same bytes give the same lines however they are cut, none longer than the bound.
FUZZ(output_lines) {
  const auto whole = lines_of(text, text.size() + 1);
  for (const auto& line : whole) {
    if (line.size() > kLongestLine + kCut.size() || line.find('\n') != std::string::npos) std::abort();
  }
  for (const std::size_t piece : {1u, 3u, 17u}) {
    if (lines_of(text, piece) != whole) std::abort();
  }
}

// --listen: what is accepted is written back and read again as the same.
FUZZ(listen_address) {
  const auto address = tranche::os::parse_listen_address(text);
  if (!address) return;
  if (address->host.find_first_of(" ,+\n") != std::string::npos) std::abort();  // would be options of the library
  const auto again = tranche::os::parse_listen_address(to_string(*address));
  if (!again || *again != *address) std::abort();
}

// The head of an HTTP request, from any client of the network: read whole or byte by byte, the result is the same.
FUZZ(http_request) {
  constexpr std::size_t kLongest = 256;
  const auto whole = tranche::os::read_http_request(text, kLongest);
  if (!whole && text.size() > kLongest) std::abort();  // the bound holds
  if (!whole) return;
  if (whole->refused == 0 && whole->path.find_first_of(" ?\r\n") != std::string::npos) std::abort();
  (void)tranche::os::is_own_name(whole->host);
  for (std::size_t n = 0; n < text.size(); ++n) {
    const auto part = tranche::os::read_http_request(text.substr(0, n), kLongest);
    if (!part) continue;
    if (part->refused == 0 && (part->method != whole->method || part->path != whole->path || part->host != whole->host))
      std::abort();
    break;
  }
}

// Any text as a process's status: the pids are positive, and no line before "NSpid:" changes them.
FUZZ(namespaced_pids) {
  const std::string all(text);
  const auto pids = tranche::os::parse_namespaced_pids(all);
  if (std::ranges::any_of(pids, [](pid_t pid) { return pid <= 0; })) std::abort();
  if (tranche::os::parse_namespaced_pids("Name:\tx\n" + all) != pids) std::abort();
}

// /proc/self/cgroup → the files with the CPU weight lie below the root; the same text as a weight: a number, or none.
FUZZ(cpu_weight) {
  const std::string all(text);
  for (const auto& file : tranche::os::cpu_weight_files(all)) {
    if (!file.starts_with("/sys/fs/cgroup/")) std::abort();
    if (!file.ends_with("/cpu.weight") && !file.ends_with("/cpu.shares")) std::abort();
    if (file.find("/../") != std::string::npos) std::abort();
    const auto problem = tranche::os::cpu_weight_problem(file, all);
    if (!problem.empty()) std::abort();  // a list of groups is not a weight
  }
  for (const char* file : {"/cpu.weight", "/cpu.shares"})
    if (tranche::os::cpu_weight_problem(file, all).size() > 200) std::abort();
}

// Any text as a mount table: the directory that it says is at a path is one below a root directory, or none.
FUZZ(mountinfo) {
  const auto found = tranche::containers::mounted_at(text, "/run/nvidia/mps");
  if (found && text.find(found->substr(0, found->find(' '))) == std::string_view::npos) std::abort();
}

// Any text as /proc/<pid>/cgroup: a container with a pod's UID and an id of the allowed shape, or none.
FUZZ(cgroup) {
  const auto container = tranche::containers::container_of_cgroup(text);
  if (!container) return;
  const auto plain = [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || c == '-'; };
  if (container->id.size() != 64 || !std::ranges::all_of(container->id, plain)) std::abort();
  if (container->pod_uid.size() < 32 || !std::ranges::all_of(container->pod_uid, plain)) std::abort();
}
