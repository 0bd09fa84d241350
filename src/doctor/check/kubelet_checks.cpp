// Kubelet's folders and sockets, and the container runtime's GPU support.
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <nlohmann/json.hpp>

#include "base/json_read.h"
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

// The sockets by which the node agent on this node has registered; none where it does not answer.
std::vector<std::string> own_sockets(const std::string& agent_status) {
  std::vector<std::string> sockets;
  const auto status = json_of(agent_status);
  for (const auto& resource : list_at(status, "resources"))
    if (auto endpoint = text_at(resource, "endpoint"); !endpoint.empty()) sockets.push_back(std::move(endpoint));
  return sockets;
}

// Whether a program accepts connections on the socket. Where that cannot be tried it counts as one.
bool listens(const std::string& path) {
  const auto connected = os::connect_to(path, /*blocking=*/false);
  return connected || connected.error().code != ECONNREFUSED;
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
  const auto own = own_sockets(options.agent_status);
  std::vector<std::string> others, left;
  for (const std::string& name : os::names_in(under_root(options, plugins))) {
    const bool ours = std::ranges::find(own, name) != own.end();
    if (!name.starts_with("nvidia") || !name.ends_with(".sock") || ours) continue;
    (listens(under_root(options, plugins + "/" + name)) ? others : left).push_back(name);
  }
  if (!left.empty()) {
    findings.note("kubelet.left-behind", plugins,
                  "sockets of a device plugin on which no program listens: " + join(left, ", "),
                  "none needed: a device plugin replaces its socket, and tranche reset removes them");
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

}  // namespace tranche::doctor
