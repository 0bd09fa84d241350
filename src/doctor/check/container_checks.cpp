// Kubelet's folders and sockets, and what a container needs for a GPU besides the driver: the container runtime's GPU
// support and its reading of CDI, SELinux, and whose user ids count.
#include <unistd.h>

#include <array>
#include <nlohmann/json.hpp>

#include "base/json_text.h"
#include "base/text.h"
#include "doctor/check/check.h"
#include "os/files/files.h"
#include "os/socket/unix_socket.h"

namespace tranche::doctor {
namespace {

bool has_gpu_spec(const CheckOptions& options, const std::string& folder) {
  for (const std::string& name : os::names_in(under_root(options, folder))) {
    if (!name.ends_with(".yaml") && !name.ends_with(".json")) continue;
    const Result<std::string> text = os::read_file(under_root(options, folder) + "/" + name, 4 << 20);
    if (text && text->find("nvidia.com/") != std::string::npos) return true;
  }
  return false;
}

}  // namespace

void check_kubelet(const CheckOptions& options, Findings& findings) {
  // Whatever kubelet's root is (kubernetes/kubernetes#120626).
  const std::string plugins = "/var/lib/kubelet/device-plugins";
  if (!is_folder(options, plugins))
    return findings.fail("kubelet.plugins", plugins, "kubelet's device-plugin folder is not there",
                         "start kubelet, or mount the folder into this container");
  findings.pass_or(Verdict::kFail, is_socket(options, plugins + "/kubelet.sock"), "kubelet.plugins",
                   plugins + "/kubelet.sock", "kubelet listens for device plugins",
                   "kubelet is not listening for device plugins", "start kubelet");
  const auto status = json_of(options.agent_status);  // with the sockets by which the node agent has registered
  std::vector<std::string> others;  // that listen: a socket that a program left is replaced by the next one
  for (const std::string& name : os::names_in(under_root(options, plugins))) {
    const bool ours = entry_at(status, "resources", "endpoint", name).is_object();
    if (name.starts_with("nvidia") && name.ends_with(".sock") && !ours &&
        os::probe_listener(under_root(options, plugins + "/" + name)).alive)
      others.push_back(name);
  }
  if (!others.empty()) {
    findings.warn("kubelet.others", plugins, "another NVIDIA device plugin has sockets here: " + join(others, ", "),
                  "remove NVIDIA's device plugin from this node: both would advertise the same GPUs");
  }
  const std::string pods = options.kubelet_root + "/pod-resources/kubelet.sock";
  findings.pass_or(Verdict::kWarning, is_socket(options, pods), "kubelet.pod-resources", pods,
                   "kubelet answers which pod holds what",
                   "kubelet's pod-resources socket is not there: status and metrics cannot name pods",
                   "mount it into this container; it exists since Kubernetes 1.20");
}

void check_runtime(const CheckOptions& options, Findings& findings) {
  for (const char* folder : {"/etc/cdi", "/var/run/cdi", "/run/cdi"}) {
    if (has_gpu_spec(options, folder))
      return findings.pass("runtime.gpu", folder, "CDI specifications name NVIDIA devices");
  }
  for (const char* name : {"nvidia-container-runtime", "nvidia-container-runtime-hook", "nvidia-ctk"}) {
    if (!find_in_path(options, name).empty())
      return findings.pass("runtime.gpu", "", std::string("the NVIDIA container toolkit is installed (") + name + ")");
  }
  findings.warn(
      "runtime.gpu", "PATH",
      "neither CDI specifications nor NVIDIA's container toolkit were found: containers may start without the driver",
      "install nvidia-container-toolkit and configure the runtime (`nvidia-ctk runtime configure`), or generate CDI "
      "(`nvidia-ctk cdi generate`)");
}

namespace {

struct Runtime {
  const char* name;
  const char* socket;
  const char* config;  // "" = reads CDI by default
};
constexpr std::array kRuntimes =
    std::to_array<Runtime>({{"containerd", "/run/containerd/containerd.sock", "/etc/containerd/config.toml"},
                            {"containerd of k3s", "/run/k3s/containerd/containerd.sock",
                             "/var/lib/rancher/k3s/agent/etc/containerd/config.toml"},
                            {"CRI-O", "/run/crio/crio.sock", ""}});

// The value of `enable_cdi = …`, comments left out; "" when the file does not say.
std::string cdi_switch(const std::string& config) {
  for (const auto line : lines_of(config)) {
    const auto setting = trimmed(line.substr(0, line.find('#')));
    const auto equals = setting.find('=');
    if (equals == std::string_view::npos || trimmed(setting.substr(0, equals)) != "enable_cdi") continue;
    return std::string(trimmed(setting.substr(equals + 1)));
  }
  return {};
}

void check_cdi(const CheckOptions& options, const Runtime& runtime, Findings& findings) {
  const bool configured = *runtime.config != '\0';
  const std::string value =
      configured ? cdi_switch(os::read_file(under_root(options, runtime.config)).value_or("")) : "true";
  if (value == "true") {
    findings.pass("runtime.cdi", configured ? runtime.config : runtime.socket,
                  std::string(runtime.name) + " reads CDI specs");
  } else if (value == "false") {
    findings.warn("runtime.cdi", runtime.config,
                  std::string(runtime.name) + " does not read CDI specs (enable_cdi = false)",
                  "set enable_cdi = true and restart it, or keep to deviceListStrategy: envvar with NVIDIA's "
                  "runtime");
  } else {
    findings.note("runtime.cdi", runtime.config,
                  std::string(runtime.name) +
                      "'s configuration does not say whether it reads CDI specs: it does "
                      "from version 2.0 on",
                  "with containerd 1.7 and a cdi- word in deviceListStrategy: set enable_cdi = true and restart "
                  "it");
  }
}

void check_runtimes(const CheckOptions& options, Findings& findings) {
  bool any = false;
  for (const Runtime& runtime : kRuntimes) {
    if (!is_socket(options, runtime.socket)) continue;
    any = true;
    findings.pass("runtime.socket", runtime.socket, std::string(runtime.name) + " runs containers here");
    check_cdi(options, runtime, findings);
  }
  if (!any)
    findings.note("runtime.socket", "/run", "no container runtime's socket was found",
                  "expected inside a container; on the node, start containerd or CRI-O");
}

void check_selinux(const CheckOptions& options, Findings& findings) {
  const std::string path = "/sys/fs/selinux/enforce";
  const std::string mode = first_line(under_root(options, path));
  if (mode.empty()) {
    findings.pass("system.selinux", path, "SELinux does not enforce");
  } else if (mode == "0") {
    findings.pass("system.selinux", path, "SELinux is permissive: it denies nothing");
  } else {
    findings.note("system.selinux", path,
                  "SELinux is enforcing: containers reach only MPS sockets whose label allows it",
                  "run Tranche's pods as spc_t (their files get the label container_file_t), or: chcon -R -t "
                  "container_file_t " +
                      options.mps_root);
  }
}

// The MPS daemon goes by the kernel's user ids, and setting compute modes needs root.
void check_users(const CheckOptions& options, Findings& findings) {
  const std::string path = "/proc/self/uid_map";
  const std::string text = first_line(under_root(options, path));
  const auto map = words_of(text);
  const bool mapped = map.size() == 3 && (map[0] != "0" || map[1] != "0" || map[2] != "4294967295");
  if (mapped) {
    findings.warn(
        "system.users", path,
        "this program runs in a user namespace, so its root is a different user for the driver and the MPS daemon",
        "run Tranche's pods with hostUsers: true (the default)");
  } else if (::geteuid() != 0) {
    findings.note("system.users", "",
                  "this program runs as user " + std::to_string(::geteuid()) +
                      ", so some findings may be due to missing privileges",
                  "run it as root, like the agents");
  } else {
    findings.pass("system.users", path, "root, in the node's own user ids");
  }
}

}  // namespace

void check_containers(const CheckOptions& options, Findings& findings) {
  check_runtimes(options, findings);
  check_selinux(options, findings);
  check_users(options, findings);
}

}  // namespace tranche::doctor
