#include "doctor/check/check.h"

#include <unistd.h>

#include "base/text.h"
#include "os/files/files.h"

namespace tranche::doctor {

Findings run_checks(const CheckOptions& options) {
  Findings findings;
  const gpu::Inventory node = check_driver(options, findings);
  check_devices(options, node, findings);
  check_mps_programs(options, findings);
  check_mps_root(options, findings);
  check_other_daemons(options, findings);
  check_kubelet(options, findings);
  check_dra(options, findings);
  check_runtime(options, findings);
  check_containers(options, findings);
  check_system(options, findings);
  check_config(options, findings);
  return findings;
}

std::string under_root(const CheckOptions& options, const std::string& path) {
  return options.root == "/" || options.root.empty() ? path : options.root + path;
}

std::string find_in_path(const CheckOptions& options, const std::string& name) {
  for (const std::string_view folder : split(options.search_path, ':')) {
    const std::string path = std::string(folder) + "/" + name;
    if (::access(under_root(options, path).c_str(), X_OK) == 0) return path;
  }
  return {};
}

std::filesystem::file_status status_of(const std::string& real_path) {
  std::error_code unreadable;
  return std::filesystem::status(real_path, unreadable);
}

bool is_socket(const CheckOptions& options, const std::string& path) {
  return std::filesystem::is_socket(status_of(under_root(options, path)));
}

bool is_folder(const CheckOptions& options, const std::string& path) {
  return std::filesystem::is_directory(status_of(under_root(options, path)));
}

std::string first_line(const std::string& real_path) {
  const Result<std::string> text = os::read_file(real_path, 64 << 10);
  if (!text) return {};
  const std::vector<std::string_view> lines = lines_of(*text);
  return lines.empty() ? std::string() : std::string(trimmed(lines.front()));
}

}  // namespace tranche::doctor
