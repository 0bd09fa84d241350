#include "cdi/make_specs.h"

#include <algorithm>
#include <array>
#include <functional>
#include <span>
#include <string_view>

#include "base/text.h"
#include "os/files/files.h"

namespace tranche::cdi {
namespace {

using gpu::Gpu;
using gpu::Inventory;
using gpu::MigDevice;
using gpu::Platform;

const std::vector<std::string> kFileOptions{"ro", "nosuid", "nodev", "rbind", "rprivate"};
// Writable, as sockets require.
const std::vector<std::string> kSocketOptions{"nosuid", "nodev", "noexec", "rbind", "rprivate"};
constexpr std::array kNeededNodes{"/dev/nvidiactl", "/dev/nvidia-uvm"};  // CUDA does not start without them

constexpr const char* kAnnotations = "enable-coherent-annotations";
// Most of them change something that Tranche's specs do not contain anyway.
constexpr std::string_view kFeatures[] = {"enable-explicit-driver-libraries",
                                          "disable-ipc-discoverer",
                                          "disable-nvsandboxutils",               // that library is never used
                                          "disable-multiple-csv-devices",         // a Tegra system is one device
                                          "no-additional-gids-for-device-nodes",  // none are ever written
                                          kAnnotations};
// "chmod" is never written: off in NVIDIA's programs as well.
constexpr std::string_view kHooks[] = {"all",
                                       "create-symlinks",
                                       "enable-cuda-compat",
                                       "update-ldcache",
                                       "disable-device-node-modification",
                                       "update-application-profile",
                                       "chmod"};

bool has(const std::vector<std::string>& words, std::string_view word) {
  return std::ranges::find(words, word) != words.end();
}

void find_unknown(const char* flag, const std::vector<std::string>& words, std::span<const std::string_view> known,
                  std::vector<Problem>& problems) {
  for (const std::string& word : words) {
    if (std::ranges::find(known, word) != known.end()) continue;
    const std::string meant = did_you_mean(word, {known.begin(), known.end()});
    problems.push_back(warning_in(
        flag, "has the unknown word " + in_quotes(word),
        meant.empty() ? "write one of " + join(known, ", ", std::identity()) : "did you mean " + meant + "?"));
  }
}

const Found* find(const std::set<Found>& all, const std::string& path) {
  const auto found = std::ranges::find(all, path, &Found::path);
  return found == all.end() ? nullptr : &*found;
}

class Maker {
 public:
  Maker(const Inventory& inventory, const config::Config& config, const DriverFiles& files)
      : inventory_(inventory), config_(config), files_(files) {}

  MadeSpecs make() {
    switch (inventory_.platform) {
      case Platform::kNvml:
        make_gpus();
        break;
      case Platform::kWsl:
        make_wsl();
        break;
      case Platform::kTegra:
        make_tegra();
        break;
    }
    make_imex_channel();
    const config::Flags& flags = config_.flags;
    if (flags.gdrcopy_enabled) make_extra("gdrcopy", files_.gdrcopy, {}, "/dev/gdrdrv");
    if (flags.gds_enabled) make_extra("gds", files_.gds, files_.gds_files, "/dev/nvidia-fs*");
    if (flags.mofed_enabled) make_extra("mofed", files_.mofed, {}, "/dev/infiniband/uverbs* or rdma_cm");
    std::ranges::sort(made_.specs, {}, &Spec::cls);
    return std::move(made_);
  }

 private:
  bool by_index() const { return config_.flags.plugin.device_id_strategy == config::IdStrategy::kIndex; }

  void note(std::string text) { made_.notes.push_back(std::move(text)); }

  void keep(const std::string& cls, std::vector<Device> devices, Edits common) {
    if (devices.empty()) return;
    made_.specs.push_back({kVendor, cls, std::move(devices), std::move(common)});
  }

  // ---- edits

  // Without the trailing "/dev" that NVIDIA's flag may have.
  std::string device_root() const {
    const config::Flags& flags = config_.flags;
    if (files_.nodes_in_driver_root || flags.nvidia_dev_root.empty()) return flags.nvidia_driver_root;
    std::string root = os::under_root(flags.nvidia_dev_root, "");
    if (root.ends_with("/dev")) root.resize(root.size() - 4);
    return root;
  }

  // No major and minor: those of nvidia-uvm and nvidia-caps change when their modules are reloaded, and the runtime
  // reads the node itself. No mode and group either: the runtime then makes the node usable for the container's user,
  // so that no supplementary group is needed (and no newer version of the specification).
  void add_node(Edits& edits, const Found& node) const {
    DeviceNode added;
    added.path = node.path;
    if (std::string host = os::under_root(device_root(), node.real); host != added.path)
      added.host_path = std::move(host);
    if (std::ranges::find(edits.device_nodes, added) == edits.device_nodes.end())
      edits.device_nodes.push_back(std::move(added));
  }

  void add_nodes(Edits& edits, const std::set<Found>& nodes) const {
    for (const Found& node : nodes) add_node(edits, node);
  }

  void add_files(Edits& edits, const std::set<Found>& files,
                 const std::vector<std::string>& options = kFileOptions) const {
    for (const Found& file : files) edits.mounts.push_back(mount_of(file.real, file.path, options));
  }

  // By hook, or by a mount for each if the hook program is known to be missing: a link that the loader needs to find a
  // library can be a second mount of that library.
  void add_links(Edits& edits, const std::set<Link>& links) const {
    if (links.empty()) return;
    if (!files_.hook_program_missing) {
      std::vector<std::string> arguments;
      for (const Link& link : links) {
        arguments.emplace_back("--link");
        arguments.push_back(link.target + "::" + link.path);
      }
      return add_hook(edits, "create-symlinks", std::move(arguments));
    }
    if (is_disabled("create-symlinks")) return;
    for (const Link& link : links)
      if (!link.real.empty()) edits.mounts.push_back(mount_of(link.real, link.path, kFileOptions));
  }

  bool is_disabled(std::string_view hook) const {
    const auto& disabled = config_.run.cdi_disable_hooks;
    return has(disabled, hook) || has(disabled, "all");
  }

  // Does nothing if the hook is disabled or its program is missing.
  void add_hook(Edits& edits, std::string_view name, std::vector<std::string> arguments = {}) const {
    if (files_.hook_program_missing || is_disabled(name)) return;
    Hook hook;
    hook.path = config_.flags.plugin.nvidia_ctk_path;
    hook.args = {os::parts_of(hook.path).name};
    if (hook.args.front() == "nvidia-ctk") hook.args.emplace_back("hook");
    hook.args.emplace_back(name);
    hook.args.insert(hook.args.end(), arguments.begin(), arguments.end());
    edits.hooks.push_back(std::move(hook));
  }

  void add_ldcache_hook(Edits& edits, const std::set<Found>& libraries) const {
    std::set<std::string> folders;
    for (const Found& library : libraries) {
      const auto [folder, base] = os::parts_of(library.path);
      const auto suffix = base.rfind(".so");
      const bool is_library = base.starts_with("lib") && suffix != std::string::npos &&
                              (suffix + 3 == base.size() || base[suffix + 3] == '.');
      if (is_library) folders.insert(folder);
    }
    std::vector<std::string> arguments;
    for (const std::string& folder : folders) {
      arguments.emplace_back("--folder");
      arguments.push_back(folder);
    }
    add_hook(edits, "update-ldcache", std::move(arguments));
  }

  Mount mount_of(const std::string& real, const std::string& path, std::vector<std::string> options) const {
    return {os::under_root(config_.flags.nvidia_driver_root, real), path, std::move(options)};
  }

  // ---- GPUs and MIG devices

  void make_gpus() {
    std::vector<Device> devices;
    for (const Gpu& gpu : inventory_.gpus) {
      if (gpu::is_display_gpu(gpu)) continue;
      const std::string path = "/dev/nvidia" + std::to_string(gpu.minor);
      const Found* node = find(files_.gpu_nodes, path);
      if (node == nullptr) {
        note("GPU " + gpu.uuid + " is in no CDI spec: " + path + " is not on the node");
      } else if (!gpu.mig_enabled) {
        Edits& edits = devices.emplace_back(by_index() ? std::to_string(gpu.index) : gpu.uuid, Edits{}).edits;
        add_node(edits, *node);
        add_drm(edits, gpu);
      } else {
        for (const MigDevice& mig : gpu.mig_devices) add_mig(devices, gpu, mig, *node);
      }
    }
    for (const char* path : kNeededNodes) {
      if (!devices.empty() && find(files_.control_nodes, path) == nullptr)
        note(std::string(path) +
             " is not on the node: CUDA will not start in containers until it is (nvidia-modprobe)");
    }
    if (!devices.empty() && files_.hook_program_missing)
      note("the hook program " + config_.flags.plugin.nvidia_ctk_path +
           " is not on the node: specs are without hooks, and links to libraries are mounts, which is enough where the "
           "container's loader looks into " +
           files_.library_dir + "; install NVIDIA's container toolkit or set nvidiaCTKPath");
    keep("gpu", std::move(devices), common_edits());
  }

  void add_drm(Edits& edits, const Gpu& gpu) const {
    const auto found = files_.drm.find(gpu.uuid);
    if (found == files_.drm.end()) return;
    add_nodes(edits, found->second.nodes);
    // Only by hook: a mount cannot replace a link to a device node.
    if (!files_.hook_program_missing) add_links(edits, found->second.by_path_links);
  }

  void add_mig(std::vector<Device>& devices, const Gpu& gpu, const MigDevice& mig, const Found& node) {
    Device device{by_index() ? std::to_string(gpu.index) + ":" + std::to_string(mig.slot) : mig.uuid, {}};
    add_node(device.edits, node);
    for (const auto& cap : {mig.gi_cap, mig.ci_cap}) {
      const std::string path = "/dev/nvidia-caps/nvidia-cap" + (cap ? std::to_string(*cap) : "<unknown>");
      const Found* found = cap ? find(files_.gpu_nodes, path) : nullptr;
      if (found == nullptr)
        return note("MIG device " + mig.uuid + " is in no CDI spec: " + path + ", which opens it, is not on the node");
      add_node(device.edits, *found);
    }
    if (mig.profile.find("+gfx") != std::string::npos) add_drm(device.edits, gpu);
    devices.push_back(std::move(device));
  }

  // Adds links that applications expect and that some driver packages lack.
  std::set<Link> with_usual_links(std::set<Link> links) const {
    const auto want = [&](const Found& library, const std::string& prefix, const std::string& link,
                          const std::string& target) {
      const auto [folder, base] = os::parts_of(library.path);
      const std::string path = folder + "/" + link;
      if (!base.starts_with(prefix)) return;
      if (std::ranges::find(links, path, &Link::path) == links.end())
        links.insert({path, target.empty() ? base : target, library.real});
    };
    for (const Found& library : files_.libraries) {
      want(library, "libcuda.so.", "libcuda.so", "libcuda.so.1");
      want(library, "libGLX_nvidia.so.", "libGLX_indirect.so.0", "");
      want(library, "libnvidia-opticalflow.so.", "libnvidia-opticalflow.so", "libnvidia-opticalflow.so.1");
    }
    return links;
  }

  // "void": NVIDIA's runtime must not process the variable as well, because the specs have everything.
  Edits common_edits() const {
    Edits edits;
    edits.env.emplace_back("NVIDIA_VISIBLE_DEVICES=void");
    if (!files_.library_dir.empty()) edits.env.push_back("NVIDIA_CTK_LIBCUDA_DIR=" + files_.library_dir);
    add_nodes(edits, files_.control_nodes);
    std::set<Found> libraries = files_.libraries;
    if (has(config_.run.cdi_feature_flags, "enable-explicit-driver-libraries"))
      libraries.insert(files_.explicit_libraries.begin(), files_.explicit_libraries.end());
    add_files(edits, libraries);
    add_files(edits, files_.files);
    add_files(edits, files_.binaries);
    if (!has(config_.run.cdi_feature_flags, "disable-ipc-discoverer")) {
      add_files(edits, files_.sockets, kSocketOptions);
      // Where Tranche shares GPUs by MPS, tenants get endpoints, not the host's own MPS directory.
      const bool mps =
          config_.sharing.strategy == config::SharingStrategy::kMps || config_.dra.devices != config::DraDevices::kNone;
      if (!mps) add_files(edits, files_.mps_pipe, kSocketOptions);
    }
    add_links(edits, with_usual_links(files_.links));
    if (!inventory_.driver_version.empty())
      add_hook(edits, "enable-cuda-compat", {"--host-driver-version=" + inventory_.driver_version});
    add_ldcache_hook(edits, libraries);
    add_hook(edits, "disable-device-node-modification");
    add_hook(edits, "update-application-profile");
    return edits;
  }

  // ---- other platforms

  void make_wsl() {
    const Found* node = find(files_.gpu_nodes, "/dev/dxg");
    if (node == nullptr) return note("the WSL system is in no CDI spec: /dev/dxg is not there");
    Device device{gpu::kWslDevice, {}};
    add_node(device.edits, *node);
    Edits common;
    common.env.emplace_back("NVIDIA_VISIBLE_DEVICES=void");
    add_files(common, files_.libraries);
    add_files(common, files_.binaries);
    add_links(common, files_.links);
    add_ldcache_hook(common, files_.libraries);
    keep("gpu", {std::move(device)}, std::move(common));
  }

  void make_tegra() {
    Device device{by_index() ? "0" : gpu::kTegraDevice, {}};
    add_nodes(device.edits, files_.gpu_nodes);
    add_files(device.edits, files_.directories);
    add_files(device.edits, files_.libraries);
    add_files(device.edits, files_.files);
    add_links(device.edits, with_usual_links(files_.links));
    if (device.edits.empty())
      return note("the Tegra system is in no CDI spec: its CSV files name nothing that is on the node");
    add_ldcache_hook(device.edits, files_.libraries);
    Edits common;
    common.env.emplace_back("NVIDIA_VISIBLE_DEVICES=void");
    keep("gpu", {std::move(device)}, std::move(common));
  }

  // ---- other classes

  void make_imex_channel() {
    if (!config_.imex.channel) return;
    if (!files_.imex_channel) return note("IMEX channel 0 is in no CDI spec: its device node is not on the node");
    Device device{"0", {}};
    add_node(device.edits, *files_.imex_channel);
    keep("imex-channel", {std::move(device)}, {});
  }

  void make_extra(const std::string& cls, const std::set<Found>& nodes, const std::set<Found>& mounts,
                  const std::string& looked_for) {
    if (nodes.empty()) return note("there is no CDI spec for " + cls + ": " + looked_for + " is not on the node");
    Device device{"all", {}};
    add_nodes(device.edits, nodes);
    add_files(device.edits, mounts);
    keep(cls, {std::move(device)}, {});
  }

  const Inventory& inventory_;
  const config::Config& config_;
  const DriverFiles& files_;
  MadeSpecs made_;
};

}  // namespace

MadeSpecs make_specs(const Inventory& inventory, const config::Config& config, const DriverFiles& files) {
  return Maker(inventory, config, files).make();
}

std::vector<Problem> flag_problems(const config::PluginRun& run) {
  constexpr const char* kFeatureFlags = "--cdi-feature-flags";
  std::vector<Problem> problems;
  find_unknown(kFeatureFlags, run.cdi_feature_flags, kFeatures, problems);
  find_unknown("--cdi-disable-hooks", run.cdi_disable_hooks, kHooks, problems);
  if (has(run.cdi_feature_flags, kAnnotations))
    problems.push_back(warning_in(kFeatureFlags,
                                  std::string(kAnnotations) + " has no effect: specs are written without annotations",
                                  "leave it out"));
  return problems;
}

}  // namespace tranche::cdi
