#include "gpu/platform/platform.h"

#include <dlfcn.h>
#include <unistd.h>

#include "base/text.h"
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

Platform platform_of(config::DiscoveryStrategy strategy, const PlatformSigns& signs) {
  using enum config::DiscoveryStrategy;
  // Under WSL the same library serves, so naming it does not change how a GPU is reached.
  if (strategy == kNvml) return signs.dxcore ? Platform::kWsl : Platform::kNvml;
  if (strategy == kTegra) return Platform::kTegra;
  if (signs.dxcore) return Platform::kWsl;
  if ((signs.tegra_system && !signs.nvml_loads) || signs.integrated_gpu) return Platform::kTegra;
  return Platform::kNvml;
}

bool is_tegra_family(std::string_view soc_family) {
  constexpr std::string_view kTegra = "tegra";
  return same_in_any_case(trimmed(soc_family).substr(0, kTegra.size()), kTegra);
}

bool is_integrated_gpu(std::string_view device_name) {
  return device_name.find("(nvgpu)") != std::string_view::npos ||
         device_name.find("NVIDIA Thor") != std::string_view::npos;
}

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
