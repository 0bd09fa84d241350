#include <sys/utsname.h>

#include <algorithm>
#include <array>
#include <set>

#include "base/text.h"
#include "cdi/live/finder.h"
#include "gpu/inventory/platform.h"

namespace tranche::cdi {
namespace {

// After inventory::kLibraryFolders: where Debian, Fedora, NixOS and container platforms (a driver mounted as one
// folder) put the driver. The loader's own folders come after those.
constexpr std::array kMoreFolders{"/usr/lib/x86_64-linux-gnu/nvidia/current",
                                  "/usr/lib/aarch64-linux-gnu/nvidia/current",
                                  "/usr/lib64/nvidia",
                                  "/usr/lib",
                                  "/run/opengl-driver/lib",
                                  "/usr/local/nvidia/lib64"};
constexpr std::array kConfigFolders{"/etc", "/usr/local/share", "/usr/share", "/usr/local/nvidia/share"};
constexpr std::array kConfigFiles{"glvnd/egl_vendor.d/10_nvidia.json",
                                  "vulkan/icd.d/nvidia_icd*.json",
                                  "vulkan/icd.d/nvidia_layers.json",
                                  "vulkan/implicit_layer.d/nvidia_layers.json",
                                  "egl/egl_external_platform.d/[0-9][0-9]_nvidia_*.json",
                                  "nvidia/nvoptix.bin",
                                  "X11/xorg.conf.d/10-nvidia.conf"};
constexpr std::array kProgramFolders{"/usr/local/sbin",      "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin",
                                     "/usr/local/nvidia/bin"};
constexpr std::array kPrograms{
    "nvidia-smi",  "nvidia-debugdump", "nvidia-persistenced", "nvidia-cuda-mps-control", "nvidia-cuda-mps-server",
    "nvidia-imex", "nvidia-imex-ctl"};
// Libraries of the graphics stack that the driver package ships in addition; enabled by a feature flag.
constexpr std::array kExplicitLibraries{"libEGL.so*",
                                        "libGL.so*",
                                        "libGLESv1_CM.so*",
                                        "libGLESv2.so*",
                                        "libGLX.so*",
                                        "libGLdispatch.so*",
                                        "libOpenCL.so*",
                                        "libOpenGL.so*",
                                        "libnvidia-api.so*",
                                        "libnvidia-egl-xcb.so*",
                                        "libnvidia-egl-xlib.so*"};

// The folders in the configuration of the root's loader, one per line.
std::vector<std::string> loader_folders(const os::RootView& root) {
  std::vector<std::string> folders;
  for (const std::string& file : root.matching("/etc/ld.so.conf.d/*.conf")) {
    const auto text = root.read(file);
    if (!text) continue;
    for (const std::string_view line : lines_of(*text))
      if (const auto folder = trimmed(line.substr(0, line.find('#'))); folder.starts_with('/'))
        folders.emplace_back(folder);
  }
  return folders;
}

// The folder of this driver's libcuda: one of the list, or the target of a link there (Debian's alternatives).
std::string find_library_folder(const os::RootView& root, const std::string& name) {
  std::vector<std::string> folders(inventory::kLibraryFolders.begin(), inventory::kLibraryFolders.end());
  folders.insert(folders.end(), kMoreFolders.begin(), kMoreFolders.end());
  for (auto& folder : loader_folders(root)) folders.push_back(std::move(folder));
  for (const std::string& folder : folders)
    if (const auto place = root.look(folder + "/" + name); place && place->is_file()) return folder;
  for (const std::string& folder : folders) {
    const auto place = root.look(folder + "/libcuda.so.1");
    if (!place || !place->is_file()) continue;
    const auto slash = place->path.rfind('/');
    if (slash != std::string::npos && place->path.substr(slash + 1) == name) return place->path.substr(0, slash);
  }
  return {};
}

// Links in the folder that lead to one of the libraries.
void find_links(const os::RootView& root, const std::string& folder, const std::set<std::string>& libraries,
                std::vector<Link>& links) {
  for (const std::string& name : root.list(folder)) {
    const std::string path = folder + "/" + name;
    const auto text = root.link_text(path);
    const auto place = text ? root.look(path) : std::nullopt;
    if (!place || !libraries.contains(place->path)) continue;
    links.push_back({path, text->front() == '/' ? place->path : *text, place->path});
  }
}

// Regular files only: links to them are created in the container.
std::vector<Found> real_files(const os::RootView& root, const std::vector<std::string>& patterns) {
  std::vector<Found> found = find_files(root, patterns);
  std::erase_if(found, [&](const Found& file) { return root.link_text(file.path).has_value(); });
  return found;
}

std::vector<std::string> firmware_folders(const os::RootView& system) {
  std::vector<std::string> folders;
  // Set if a driver container has the firmware in its own tree.
  if (const auto custom = system.read("/sys/module/firmware_class/parameters/path")) {
    if (const auto path = trimmed(*custom); path.starts_with('/')) folders.emplace_back(path);
  }
  utsname kernel{};
  const std::string release = ::uname(&kernel) == 0 ? kernel.release : "";
  for (const std::string base : {"/lib/firmware/updates", "/lib/firmware"}) {
    if (!release.empty()) folders.push_back(base + "/" + release);
    folders.push_back(base);
  }
  return folders;
}

}  // namespace

std::vector<Found> find_files(const os::RootView& root, const std::vector<std::string>& patterns) {
  return find_all(root, patterns, [](const os::RootView::Place& place) { return place.is_file(); });
}

std::vector<Found> find_nodes(const os::RootView& root, const std::vector<std::string>& patterns) {
  return find_all(root, patterns, [](const os::RootView::Place& place) { return place.is_char_device(); });
}

Status find_libraries(const os::RootView& root, const std::string& driver_version, DriverFiles& files) {
  const std::string libcuda = "libcuda.so." + driver_version;
  const std::string folder = driver_version.empty() ? "" : find_library_folder(root, libcuda);
  if (folder.empty()) {
    return fail(Kind::kNotFound,
                "the driver's " + libcuda +
                    " is in none of the usual folders and those of /etc/ld.so.conf.d; mount the driver root at "
                    "containerDriverRoot, and see that it is of the driver that is loaded",
                root.path());
  }
  files.library_dir = folder;
  files.libraries = real_files(root, {folder + "/*.so." + driver_version, folder + "/vdpau/*.so." + driver_version,
                                      folder + "/nvidia/xorg/libglxserver_nvidia.so." + driver_version,
                                      folder + "/nvidia/xorg/nvidia_drv.so", folder + "/libnvidia-nvvm70.so.*",
                                      folder + "/libnvidia-egl-gbm.so.*", folder + "/libnvidia-egl-wayland.so.*"});
  std::vector<std::string> named;
  for (const std::string name : kExplicitLibraries) named.push_back(folder + "/" + name);
  files.explicit_libraries = real_files(root, named);

  std::erase_if(files.explicit_libraries,
                [&](const Found& file) { return std::ranges::find(files.libraries, file) != files.libraries.end(); });

  std::set<std::string> reals;
  for (const Found& library : files.libraries) reals.insert(library.real);
  for (const std::string inner : {"", "/vdpau", "/gbm", "/nvidia/xorg"})
    find_links(root, folder + inner, reals, files.library_links);
  return {};
}

void find_graphics_firmware_and_programs(const os::RootView& root, const os::RootView& system,
                                         const std::string& driver_version, DriverFiles& files) {
  std::vector<std::string> patterns;
  for (const std::string folder : kConfigFolders)
    for (const std::string file : kConfigFiles) patterns.push_back(folder + "/" + file);
  for (const std::string& folder : firmware_folders(system))
    patterns.push_back(folder + "/nvidia/" + driver_version + "/gsp*.bin");
  files.files = find_files(root, patterns);
  for (const std::string program : kPrograms) {
    for (const std::string folder : kProgramFolders) {
      const std::string path = folder + "/" + program;
      const auto place = root.look(path);
      if (!place || !place->is_program()) continue;
      files.binaries.push_back({path, place->path});
      break;  // the first match, as in a shell
    }
  }
}

void find_sockets(const os::RootView& root, DriverFiles& files) {
  for (const std::string name : {"nvidia-persistenced/socket", "nvidia-fabricmanager/socket"}) {
    for (const std::string folder : {"/run/", "/var/run/"}) {
      const auto place = root.look(folder + name);
      if (!place || place->is_directory()) continue;
      files.sockets.push_back({folder + name, place->path});
      break;
    }
  }
  if (const auto place = root.look("/tmp/nvidia-mps"); place && place->is_directory())
    files.mps_pipe.push_back({"/tmp/nvidia-mps", place->path});
}

void find_wsl(const os::RootView& driver, const os::RootView& devices, DriverFiles& files) {
  const std::string folder = "/usr/lib/wsl/lib";
  files.gpu_nodes = find_nodes(devices, {"/dev/dxg"});
  files.libraries = find_files(driver, {folder + "/lib*.so*"});
  const std::string program = folder + "/nvidia-smi";
  if (const auto place = driver.look(program); place && place->is_file()) {
    files.binaries.push_back({program, place->path});
    files.file_links.push_back({"/usr/bin/nvidia-smi", program, place->path});
  }
}

}  // namespace tranche::cdi
