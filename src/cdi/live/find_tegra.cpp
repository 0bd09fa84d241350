#include "cdi/csv.h"
#include "cdi/live/finder.h"
#include "os/files/files.h"

namespace tranche::cdi {
namespace {

void find_link(const os::RootView& driver, const std::string& path, DriverFiles& files) {
  if (is_library_link(path)) return;  // the loader's cache creates these
  const auto place = driver.look(path);
  if (!place || !place->is_file()) return;
  files.files.push_back({place->path, place->path});
  if (driver.link_text(path)) files.file_links.push_back({path, place->path, place->path});
}

void find_entry(const CsvEntry& entry, const os::RootView& driver, const os::RootView& devices, DriverFiles& files) {
  if (entry.kind == CsvKind::kDevice) {
    for (const Found& node : find_nodes(devices, {entry.path})) files.gpu_nodes.push_back(node);
    return;
  }
  for (const std::string& path : driver.matching(entry.path)) {
    const auto place = driver.look(path);
    if (!place) continue;
    if (entry.kind == CsvKind::kDirectory && place->is_directory()) files.directories.push_back({path, place->path});
    if (entry.kind == CsvKind::kLibrary && place->is_file()) files.libraries.push_back({place->path, place->path});
    if (entry.kind == CsvKind::kLink) find_link(driver, path, files);
  }
}

void read_csv(const os::RootView& root, const std::string& path, const os::RootView& driver,
              const os::RootView& devices, FoundDriverFiles& found) {
  const std::string path_here = os::under_root(root.path(), path);
  const auto text = root.read(path);
  if (!text) {
    found.problems.push_back({Severity::kWarning,
                              {path_here, 0, 0},
                              "",
                              text.error().what,
                              "install NVIDIA's packages for Tegra if containers miss something"});
    return;
  }
  const auto parsed = parse_csv(*text, path_here);
  found.problems.insert(found.problems.end(), parsed.problems.begin(), parsed.problems.end());
  for (const CsvEntry& entry : parsed.entries) find_entry(entry, driver, devices, found.files);
}

}  // namespace

void find_tegra(const os::RootView& driver, const os::RootView& system, const os::RootView& devices,
                FoundDriverFiles& found) {
  for (const os::RootView* root : {&driver, &system}) {
    const auto folder = root->look(kCsvDirectory);
    if (!folder || !folder->is_directory()) continue;
    for (const std::string_view name : kCsvFiles)
      read_csv(*root, std::string(kCsvDirectory) + "/" + std::string(name), driver, devices, found);
    return;
  }
  found.problems.push_back({Severity::kWarning,
                            {kCsvDirectory, 0, 0},
                            "",
                            "is neither below the driver root nor on the system, so containers get nothing",
                            "install NVIDIA's packages for Tegra on the node"});
}

}  // namespace tranche::cdi
