#include "cdi/edit_writer.h"

#include <algorithm>
#include <set>

namespace tranche::cdi {
namespace {

const std::vector<std::string> kFileOptions{"ro", "nosuid", "nodev", "rbind", "rprivate"};
const std::vector<std::string> kSocketOptions{"nosuid", "nodev", "noexec", "rbind", "rprivate"};

}  // namespace

std::string folder_of(const std::string& path) {
  const auto slash = path.rfind('/');
  return slash == std::string::npos || slash == 0 ? "/" : path.substr(0, slash);
}

std::string base_of(const std::string& path) {
  return path.substr(path.rfind('/') + 1);
}

EditWriter::EditWriter(const Settings& settings, DriverFiles::HookProgram program)
    : settings_(settings),
      roots_(host_roots(settings)),
      program_missing_(program == DriverFiles::HookProgram::kNotThere) {}

Mount EditWriter::mount_of(const std::string& real, const std::string& path, std::vector<std::string> options) const {
  return {below(roots_.driver, real), path, "", std::move(options)};
}

// No major and minor: those of nvidia-uvm and nvidia-caps change when their modules are reloaded, and the runtime reads
// the node itself. No mode and group either: the runtime then makes the node usable for the container's user, so that
// no supplementary group is needed (and no newer version of the specification).
void EditWriter::add_node(Edits& edits, const Found& node) const {
  DeviceNode added;
  added.path = node.path;
  added.permissions = "rw";
  if (std::string host = below(roots_.devices, node.real); host != added.path) added.host_path = std::move(host);
  if (std::ranges::find(edits.device_nodes, added) == edits.device_nodes.end())
    edits.device_nodes.push_back(std::move(added));
}

void EditWriter::add_nodes(Edits& edits, const std::vector<Found>& nodes) const {
  for (const Found& node : nodes) add_node(edits, node);
}

void EditWriter::add_files(Edits& edits, const std::vector<Found>& files) const {
  for (const Found& file : files) edits.mounts.push_back(mount_of(file.real, file.path, kFileOptions));
}

void EditWriter::add_sockets(Edits& edits, const std::vector<Found>& files) const {
  for (const Found& file : files) edits.mounts.push_back(mount_of(file.real, file.path, kSocketOptions));
}

void EditWriter::add_links(Edits& edits, const std::vector<Link>& links) const {
  if (links.empty()) return;
  if (!program_missing_) {
    std::vector<std::string> arguments;
    for (const Link& link : links) {
      arguments.emplace_back("--link");
      arguments.push_back(link.target + "::" + link.path);
    }
    return add_hook(edits, HookName::kCreateSymlinks, std::move(arguments));
  }
  if (settings_.features.disabled_hooks.contains(HookName::kCreateSymlinks)) return;
  for (const Link& link : links)
    if (!link.real.empty()) edits.mounts.push_back(mount_of(link.real, link.path, kFileOptions));
}

void EditWriter::add_hook(Edits& edits, HookName name, std::vector<std::string> arguments) const {
  if (program_missing_ || settings_.features.disabled_hooks.contains(name)) return;
  Hook hook;
  hook.name = "createContainer";
  hook.path = settings_.flags.plugin.nvidia_ctk_path;
  hook.args = {base_of(hook.path)};
  if (hook.args.front() == "nvidia-ctk") hook.args.emplace_back("hook");
  hook.args.emplace_back(to_string(name));
  hook.args.insert(hook.args.end(), arguments.begin(), arguments.end());
  hook.env = {"NVIDIA_CTK_DEBUG=false"};
  edits.hooks.push_back(std::move(hook));
}

void EditWriter::add_ldcache_hook(Edits& edits, const std::vector<Found>& libraries) const {
  std::set<std::string> folders;
  for (const Found& library : libraries) {
    const std::string base = base_of(library.path);
    const auto suffix = base.rfind(".so");
    const bool is_library = base.starts_with("lib") && suffix != std::string::npos &&
                            (suffix + 3 == base.size() || base[suffix + 3] == '.');
    if (is_library) folders.insert(folder_of(library.path));
  }
  std::vector<std::string> arguments;
  for (const std::string& folder : folders) {
    arguments.emplace_back("--folder");
    arguments.push_back(folder);
  }
  add_hook(edits, HookName::kUpdateLdcache, std::move(arguments));
}

namespace {

std::string_view without_slash_at_end(std::string_view path) {
  while (!path.empty() && path.back() == '/') path.remove_suffix(1);
  return path;
}

}  // namespace

std::string below(std::string_view root, std::string_view path) {
  return std::string(without_slash_at_end(root)).append(path);
}

HostRoots host_roots(const Settings& settings) {
  const config::Flags& flags = settings.flags;
  HostRoots roots;
  roots.driver = without_slash_at_end(flags.nvidia_driver_root);
  if (settings.nodes_in_driver_root || flags.nvidia_dev_root.empty()) {
    roots.devices = roots.driver;
    return roots;
  }
  std::string_view devices = without_slash_at_end(flags.nvidia_dev_root);
  if (devices.ends_with("/dev")) devices = without_slash_at_end(devices.substr(0, devices.size() - 4));
  roots.devices = devices;
  return roots;
}

}  // namespace tranche::cdi
