#include "gpu/platform/signs.h"

#include <dlfcn.h>
#include <unistd.h>

#include "os/files/files.h"
#include "os/files/root_view.h"

namespace tranche::gpu {
namespace {

constexpr const char* kDxcore = "libdxcore.so";
constexpr const char* kTegraRelease = "/etc/nv_tegra_release";
constexpr const char* kSocFamily = "/sys/devices/soc0/family";
constexpr std::size_t kFamilyLimit = 4096;  // one page, the maximum in sysfs

bool is_tegra_under(const std::string& root) {
  const auto view = os::RootView::open(root);
  if (!view) return false;
  if (view->look(kTegraRelease)) return true;
  const auto family = view->read(kSocFamily, kFamilyLimit);
  return family && is_tegra_family(*family);
}

}  // namespace

std::string library_in_root(const std::string& driver_root, const std::string& soname) {
  if (driver_root.find_first_not_of('/') == std::string::npos) return {};
  const auto view = os::RootView::open(driver_root);
  for (const char* folder : kLibraryFolders) {
    const auto place = view ? view->look(std::string(folder) + "/" + soname) : std::nullopt;
    if (!place) continue;
    std::string path = os::under_root(driver_root, place->path);
    if (::access(path.c_str(), R_OK) == 0) return path;
  }
  return {};
}

bool library_loads(const std::string& driver_root, const std::string& soname) {
  const std::string found = library_in_root(driver_root, soname);
  void* handle = ::dlopen((found.empty() ? soname : found).c_str(), RTLD_LAZY | RTLD_LOCAL);
  if (handle == nullptr) return false;
  ::dlclose(handle);
  return true;
}

PlatformSigns look_for_signs(const std::string& driver_root, const std::string& system_root) {
  PlatformSigns signs;
  signs.dxcore = library_loads(driver_root, kDxcore);
  signs.tegra_system = is_tegra_under(driver_root) || is_tegra_under(system_root);
  return signs;
}

}  // namespace tranche::gpu
