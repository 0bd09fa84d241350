#include <fmt/format.h>
#include <sys/utsname.h>

#include <algorithm>
#include <array>
#include <functional>

#include "base/text.h"
#include "cdi/csv.h"
#include "cdi/live/cdi_specs.h"
#include "gpu/platform/platform.h"
#include "os/files/files.h"
#include "os/files/root_view.h"

namespace tranche::cdi {
namespace {

// All paths in a root that match `patterns` and pass `is`, with their real paths.
template <class Test>
std::set<Found> find_all(const os::RootView& root, const std::vector<std::string>& patterns, Test is) {
  std::set<Found> found;
  for (const std::string& pattern : patterns) {
    for (const std::string& path : root.matching(pattern)) {
      const auto place = root.look(path);
      if (place && std::invoke(is, *place)) found.insert({path, place->path});
    }
  }
  return found;
}

// The first of the folders that has it, as in a shell.
void find_first(const os::RootView& root, const auto& folders, const std::string& name, auto is,
                std::set<Found>& found) {
  for (const auto& folder : folders) {
    const std::string path = std::string(folder) + name;
    if (const auto place = root.look(path); place && std::invoke(is, *place))
      return void(found.insert({path, place->path}));
  }
}

std::set<Found> find_files(const os::RootView& root, const std::vector<std::string>& patterns) {
  return find_all(root, patterns, &os::RootView::Place::is_file);
}

std::set<Found> find_nodes(const os::RootView& root, const std::vector<std::string>& patterns) {
  return find_all(root, patterns, &os::RootView::Place::is_char_device);
}

// A node without, for example, modeset is normal.
constexpr std::array<std::string_view, 4> kControlNodes{"/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools",
                                                        "/dev/nvidia-modeset"};

// After gpu::kLibraryFolders: where Debian, Fedora, NixOS and container platforms (a driver mounted as one
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
  std::vector<std::string> folders(gpu::kLibraryFolders.begin(), gpu::kLibraryFolders.end());
  folders.insert(folders.end(), kMoreFolders.begin(), kMoreFolders.end());
  for (auto& folder : loader_folders(root)) folders.push_back(std::move(folder));
  for (const std::string& folder : folders)
    if (const auto place = root.look(folder + "/" + name); place && place->is_file()) return folder;
  for (const std::string& folder : folders) {
    const auto place = root.look(folder + "/libcuda.so.1");
    if (!place || !place->is_file()) continue;
    if (auto [target, target_name] = os::parts_of(place->path); target_name == name) return target;
  }
  return {};
}

// Adds the path if it is a link that leads to one of the files.
void find_link_to(const os::RootView& root, const std::string& path, const std::set<Found>& files,
                  std::set<Link>& links) {
  const auto text = root.link_text(path);
  const auto place = text ? root.look(path) : std::nullopt;
  if (place && std::ranges::find(files, place->path, &Found::real) != files.end())
    links.insert({path, text->front() == '/' ? place->path : *text, place->path});
}

// Regular files only: links to them are created in the container.
std::set<Found> real_files(const os::RootView& root, const std::vector<std::string>& patterns) {
  std::set<Found> found = find_files(root, patterns);
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

  for (const std::string inner : {"", "/vdpau", "/gbm", "/nvidia/xorg"})
    for (const std::string& name : root.list(folder + inner))
      find_link_to(root, folder + inner + "/" + name, files.libraries, files.links);
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
  for (const std::string program : kPrograms)
    find_first(root, kProgramFolders, "/" + program, &os::RootView::Place::is_program, files.binaries);
}

void find_sockets(const os::RootView& root, DriverFiles& files) {
  const auto is_no_folder = [](const auto& place) { return !place.is_directory(); };
  for (const std::string name : {"nvidia-persistenced/socket", "nvidia-fabricmanager/socket"})
    find_first(root, std::array{"/run/", "/var/run/"}, name, is_no_folder, files.sockets);
  files.mps_pipe = find_all(root, {"/tmp/nvidia-mps"}, &os::RootView::Place::is_directory);
}

void find_wsl(const os::RootView& driver, const os::RootView& devices, DriverFiles& files) {
  const std::string folder = "/usr/lib/wsl/lib";
  files.gpu_nodes = find_nodes(devices, {"/dev/dxg"});
  files.libraries = find_files(driver, {folder + "/lib*.so*"});
  files.binaries = find_files(driver, {folder + "/nvidia-smi"});
  for (const auto& [path, real] : files.binaries) files.links.insert({"/usr/bin/nvidia-smi", path, real});
}

constexpr const char* kDri = "/dev/dri/";

// sysfs lists the DRM nodes of a PCI function; udev creates links to the nodes by function.
DrmNodes find_drm(const os::RootView& devices, const os::RootView& system, const std::string& address) {
  DrmNodes drm;
  for (const std::string& name : system.list("/sys/bus/pci/devices/" + address + "/drm")) {
    if (name.starts_with("card") || name.starts_with("renderD")) drm.nodes.merge(find_nodes(devices, {kDri + name}));
  }
  for (const std::string suffix : {"-card", "-render"})
    find_link_to(devices, std::string(kDri) + "by-path/pci-" + address + suffix, drm.nodes, drm.by_path_links);
  return drm;
}

void find_gpu_nodes(const os::RootView& devices, const os::RootView& system, const gpu::Inventory& inventory,
                    DriverFiles& files) {
  std::vector<std::string> wanted;
  for (const auto& gpu : inventory.gpus) {
    wanted.push_back("/dev/nvidia" + std::to_string(gpu.minor));
    for (const auto& mig : gpu.mig_devices)
      for (const auto& cap : {mig.gi_cap, mig.ci_cap})
        if (cap) wanted.push_back("/dev/nvidia-caps/nvidia-cap" + std::to_string(*cap));
    const std::string address = gpu::sysfs_address(gpu.pci_bus_id);
    if (address.empty()) continue;
    if (auto drm = find_drm(devices, system, address); !drm.nodes.empty()) files.drm[gpu.uuid] = std::move(drm);
  }
  files.gpu_nodes = find_nodes(devices, wanted);
  files.control_nodes = find_nodes(devices, {kControlNodes.begin(), kControlNodes.end()});
}

void find_link(const os::RootView& driver, const std::string& path, DriverFiles& files) {
  if (is_library_link(path)) return;  // the loader's cache creates these
  const auto place = driver.look(path);
  if (!place || !place->is_file()) return;
  files.files.insert({place->path, place->path});
  if (driver.link_text(path)) files.links.insert({path, place->path, place->path});
}

void find_entry(const CsvEntry& entry, const os::RootView& driver, const os::RootView& devices, DriverFiles& files) {
  if (entry.kind == CsvKind::kDevice) {
    files.gpu_nodes.merge(find_nodes(devices, {entry.path}));
    return;
  }
  for (const std::string& path : driver.matching(entry.path)) {
    const auto place = driver.look(path);
    if (!place) continue;
    if (entry.kind == CsvKind::kDirectory && place->is_directory()) files.directories.insert({path, place->path});
    if (entry.kind == CsvKind::kLibrary && place->is_file()) files.libraries.insert({place->path, place->path});
    if (entry.kind == CsvKind::kLink) find_link(driver, path, files);
  }
}

void read_csv(const os::RootView& root, const std::string& path, const os::RootView& driver,
              const os::RootView& devices, DriverFiles& files) {
  const std::string path_here = os::under_root(root.path(), path);
  const auto text = root.read(path);
  if (!text) {
    files.problems.push_back(
        warning_in(path_here, text.error().what, "install NVIDIA's packages for Tegra if containers miss something"));
    return;
  }
  const auto parsed = parse_csv(*text, path_here);
  files.problems.insert(files.problems.end(), parsed.problems.begin(), parsed.problems.end());
  for (const CsvEntry& entry : parsed.entries) find_entry(entry, driver, devices, files);
}

void find_tegra(const os::RootView& driver, const os::RootView& system, const os::RootView& devices,
                DriverFiles& files) {
  for (const os::RootView* root : {&driver, &system}) {
    const auto folder = root->look(kCsvDirectory);
    if (!folder || !folder->is_directory()) continue;
    for (const std::string_view name : kCsvFiles)
      read_csv(*root, std::string(kCsvDirectory) + "/" + std::string(name), driver, devices, files);
    return;
  }
  files.problems.push_back(warning_in(kCsvDirectory,
                                      "is neither below the driver root nor on the system, so containers get nothing",
                                      "install NVIDIA's packages for Tegra on the node"));
}

// A missing program proves something only if the host's driver root is visible through a mount.
bool is_hook_program_missing(const os::RootView& driver, bool mounted, const config::Flags& flags) {
  const std::string root = os::under_root(flags.nvidia_driver_root, "/"), &path = flags.plugin.nvidia_ctk_path;
  if (!mounted || !path.starts_with(root)) return false;
  const auto place = driver.look(path.substr(root.size() - 1));
  return !place || !place->is_program();
}

void find_extras(const os::RootView& driver, const os::RootView& devices, const os::RootView& system,
                 DriverFiles& files) {
  for (const os::RootView* root : {&devices, &system})
    for (const Found& node : find_nodes(*root, {config::kImexChannelNode}))
      if (!files.imex_channel) files.imex_channel = node;
  files.gdrcopy = find_nodes(devices, {"/dev/gdrdrv"});
  files.gds = find_nodes(devices, {"/dev/nvidia-fs*"});
  files.mofed = find_nodes(devices, {"/dev/infiniband/rdma_cm", "/dev/infiniband/uverbs*"});
  files.gds_files = find_files(driver, {"/etc/cufile.json"});
  files.gds_files.merge(find_all(driver, {"/run/udev"}, &os::RootView::Place::is_directory));
}

std::optional<mode_t> mode_of(const std::string& root, std::string_view path) {
  const auto view = os::RootView::open(root);
  const auto place = view ? view->look(path) : std::nullopt;
  return place ? std::optional(place->mode) : std::nullopt;
}

}  // namespace

Result<DriverFiles> find_driver_files(const config::Config& config, const std::string& driver_root,
                                      const std::string& system_root, const gpu::Inventory& inventory) {
  auto driver = os::RootView::open(driver_root);
  const bool mounted = driver.has_value() && driver->path() != "/";
  if (!driver) driver = os::RootView::open("/");
  if (!driver) return std::unexpected(within(driver.error(), "cannot look for the driver's files"));
  TRY(const auto system, os::RootView::open(system_root));
  const auto dev = driver->look("/dev");

  DriverFiles files;
  files.nodes_in_driver_root = dev && dev->is_directory();
  const os::RootView& devices = files.nodes_in_driver_root ? *driver : system;
  switch (inventory.platform) {
    case gpu::Platform::kNvml:
      TRY_STATUS(find_libraries(*driver, inventory.driver_version, files));
      find_graphics_firmware_and_programs(*driver, system, inventory.driver_version, files);
      find_sockets(*driver, files);
      find_gpu_nodes(devices, system, inventory, files);
      break;
    case gpu::Platform::kWsl:
      find_wsl(*driver, devices, files);
      break;
    case gpu::Platform::kTegra:
      find_tegra(*driver, system, devices, files);
      break;
  }
  find_extras(*driver, devices, system, files);
  files.hook_program_missing = is_hook_program_missing(*driver, mounted, config.flags);
  return files;
}

bool imex_channel_exists(const std::string& driver_root, const std::string& system_root) {
  return std::ranges::any_of(std::array{driver_root, system_root}, [](const std::string& root) {
    return S_ISCHR(mode_of(root, config::kImexChannelNode).value_or(0));
  });
}

DeviceNodes find_device_nodes(const config::Imex& imex, gpu::Platform platform, const std::string& driver_root,
                              const std::string& system_root) {
  DeviceNodes nodes;
  nodes.imex_channel = imex.channel && imex_channel_exists(driver_root, system_root);
  // Those in this process's container, as in NVIDIA's plugin; WSL and Tegra have none.
  if (platform == gpu::Platform::kNvml)
    for (const std::string_view path : kControlNodes)
      if (mode_of(system_root, path)) nodes.control.emplace_back(path);
  return nodes;
}

std::vector<Problem> imex_problems(const config::Imex& imex, bool exists) {
  if (!imex.channel || exists) return {};
  const bool required = imex.required;
  return {
      {required ? Severity::kError : Severity::kWarning,
       {},
       required ? "imex.required" : "imex.channelIDs",
       fmt::format("{} channel 0, whose device node {} is not on this node; {}", required ? "is true for" : "names",
                   config::kImexChannelNode,
                   required ? "no device is handed out until it is there" : "it is left out of answers"),
       fmt::format("create it (NVreg_CreateImexChannel0=1, or nvidia-modprobe), mount it into this container, or {}",
                   required ? "write required: false" : "take it out of the list")}};
}

std::string imex_block(const config::Imex& imex, bool exists) {
  if (!imex.required || !imex.channel || exists) return {};
  return fmt::format("IMEX channel 0 is required, and its device node {} is not there", config::kImexChannelNode);
}

}  // namespace tranche::cdi
