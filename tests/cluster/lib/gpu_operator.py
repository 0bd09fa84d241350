"""The objects that NVIDIA's GPU Operator (26.7) makes of a ClusterPolicy whose image fields name our image: written anew from
what is known of them. What else the operator's pods leave on a node is `Node`."""

import os
import shutil

from . import driver_root
from .nvidia_objects import CONFIGS, NODE_NAME, PRIVILEGED, account, container, daemon_set, env, field, host, manager, mount, role, rule
from .pods import TOOLS
from .programs import write

NAMESPACE = "gpu-operator"
PLUGIN, MPS, GFD = "nvidia-device-plugin-daemonset", "nvidia-device-plugin-mps-control-daemon", "gpu-feature-discovery"
MIG = "nvidia-mig-manager"
ROOT = "/run/nvidia/mps"
VALIDATIONS = "/run/nvidia/validations"
DRIVER = "/run/nvidia/driver"
TOOLKIT = "/run/nvidia-toolkit"  # toolkit.installDir, out of the way of the machine's own /usr/local
DEPLOY = "nvidia.com/gpu.deploy."
PRESENT = {f"{DEPLOY}{name}": "true" for name in ("device-plugin", "gpu-feature-discovery")}
# The same steps as the operator's: wait, take over what the driver's validation found, ask for two modules, hand on.
ENTRYPOINT = f"""#!/bin/sh
while [ ! -f {VALIDATIONS}/driver-ready ]; do echo "no driver yet"; sleep 5; done
set -a
cat {VALIDATIONS}/driver-ready
. {VALIDATIONS}/driver-ready
echo -n > feature-flags.env
for module in gdrdrv nvidia_fs; do
  lsmod | grep -q "^$module" || continue
  case $module in
    gdrdrv) [ -n "$GDRCOPY_ENABLED" ] || echo GDRCOPY_ENABLED=true >> feature-flags.env ;;
    nvidia_fs) [ -n "$GDS_ENABLED" ] || echo GDS_ENABLED=true >> feature-flags.env
               [ -n "$MOFED_ENABLED" ] || echo MOFED_ENABLED=true >> feature-flags.env ;;
  esac
done
if [ -s feature-flags.env ]; then cat feature-flags.env; . ./feature-flags.env; fi
exec nvidia-device-plugin
"""
MIG_ENTRYPOINT = f"""#!/bin/bash
until [[ -f {VALIDATIONS}/driver-ready ]]; do echo "no driver yet"; sleep 5; done
set -o allexport
cat {VALIDATIONS}/driver-ready
. {VALIDATIONS}/driver-ready
export WITH_SHUTDOWN_HOST_GPU_CLIENTS=$IS_HOST_DRIVER
exec nvidia-mig-manager
"""
# Of the operator's default-mig-parted-config, the shape and a part of the names; `one-three` as an administrator adds it.
MIG_CONFIGS = """version: v1
mig-configs:
  all-disabled:
    - devices: all
      mig-enabled: false
  all-3g.71gb:
    - device-filter: ["0x233510DE", "0x233B10DE"]
      devices: all
      mig-enabled: true
      mig-devices:
        "3g.71gb": 2
  all-1g.18gb:
    - device-filter: ["0x233510DE", "0x233B10DE"]
      devices: all
      mig-enabled: true
      mig-devices:
        "1g.18gb": 7
  one-three:
    - devices: all
      mig-enabled: true
      mig-devices:
        "3g.71gb": 1
        "1g.18gb": 3
"""
GPU_CLIENTS = "version: v1\nsystemd-services:\n  - nvidia-dcgm.service\n  - dcgm-exporter.service\n"
DRIVER_READY = f"""IS_HOST_DRIVER=false
NVIDIA_DRIVER_ROOT={DRIVER}
DRIVER_ROOT_CTR_PATH=/driver-root
NVIDIA_DEV_ROOT=/
DEV_ROOT_CTR_PATH=/host
"""


class Node:
    """What the operator's other pods leave on the node: a driver container's root, the toolkit, ready files."""

    @staticmethod
    def toolkit():
        shutil.copytree(driver_root.ROOT, DRIVER, symlinks=True, dirs_exist_ok=True)
        hook = f"{TOOLKIT}/toolkit/nvidia-cdi-hook"
        write(hook, f'#!/bin/sh\ncat >/dev/null\necho "$0 $*" >>{TOOLKIT}/calls\n', 0o755)
        os.makedirs(VALIDATIONS, exist_ok=True)
        write(f"{VALIDATIONS}/toolkit-ready", "")

    @staticmethod
    def driver(ready=True):
        if ready:
            write(f"{VALIDATIONS}/driver-ready", DRIVER_READY)
        else:
            os.unlink(f"{VALIDATIONS}/driver-ready")


class Operator:
    """`mig` is mig.strategy, `config` (name, default) devicePlugin.config; `cdi` as since 25.10, or the variables of before; `specs` is
    PASS_DEVICE_SPECS, which devicePlugin.env may set to "false"."""

    def __init__(self, image, config=None, mig="single", cdi=True, specs="true"):
        self.image, self.config, self.mig, self.cdi, self.specs = image, config, mig, cdi, specs

    def objects(self):
        accounts = [account("nvidia-device-plugin", NAMESPACE), account("nvidia-gpu-feature-discovery", NAMESPACE)]
        nodes = rule("", "nodes", "get", "list", "watch")
        roles = [*role("nvidia-device-plugin", "nvidia-device-plugin", NAMESPACE, [nodes]), *role("nvidia-gpu-feature-discovery", "nvidia-gpu-feature-discovery", NAMESPACE, [nodes]),
                 *role("nvidia-gpu-feature-discovery", "nvidia-gpu-feature-discovery", NAMESPACE, [
                     rule("nfd.k8s-sigs.io", "nodefeatures", "get", "list", "watch", "create", "update"), rule("", "pods", "get")], of=NAMESPACE)]
        script = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "nvidia-device-plugin-entrypoint", "namespace": NAMESPACE}, "data": {"entrypoint.sh": ENTRYPOINT}}
        return [*accounts, *roles, script, self.plugin(), self.mps(), self.gfd()]

    @staticmethod
    def toolkit_validation(path=VALIDATIONS):
        return container("toolkit-validation", TOOLS, ["/bin/sh", "-c", f"until [ -f {VALIDATIONS}/toolkit-ready ]; do sleep 1; done"], [], [mount("run-nvidia", path)], PRIVILEGED)

    def _set(self, name, account_name, reader, inits, main, volumes, selector, more=None, run_nvidia=VALIDATIONS):
        inits, sides, more = [self.toolkit_validation(run_nvidia), *inits], [], dict(more or {})
        main["env"] = [*main["env"], *env(MIG_STRATEGY=self.mig, **({} if self.mig == "none" else {"NVIDIA_MIG_MONITOR_DEVICES": "all"}))]
        if self.config:
            name_of_map, default = self.config
            inits.append(manager("config-manager-init", self.image, default, "empty"))
            sides.append(manager("config-manager", self.image, default, "empty", reader, PRIVILEGED))
            volumes = [*volumes, {"name": name_of_map, "configMap": {"name": name_of_map}}, {"name": "config", "emptyDir": {}}]
            mounts = [{**one, "name": name_of_map} if one["name"] == "available-configs" else one for one in CONFIGS]
            for one in (inits[-1], sides[-1]):
                one["volumeMounts"] = mounts
            main["env"] = [*main["env"], *env(CONFIG_FILE="/config/config.yaml")]
            main["volumeMounts"] = [*main["volumeMounts"], *mounts]
            if not more.get("hostPID"):
                more["shareProcessNamespace"] = True
        return daemon_set(name, NAMESPACE, {"app": name}, {
            "serviceAccountName": account_name, "nodeSelector": selector, "initContainers": inits, "containers": [main, *sides], "volumes": [
                host("run-nvidia", run_nvidia, "DirectoryOrCreate" if run_nvidia == VALIDATIONS else "Directory"), *volumes], **more})

    def plugin(self):
        listing = {"DEVICE_LIST_STRATEGY": "cdi-annotations,cdi-cri", "CDI_ENABLED": "true", "CDI_ANNOTATION_PREFIX": "cdi.k8s.io/",
                   "NVIDIA_CDI_HOOK_PATH": f"{TOOLKIT}/toolkit/nvidia-cdi-hook"} if self.cdi else {"DEVICE_LIST_STRATEGY": "envvar"}
        main = container("nvidia-device-plugin", self.image, ["/bin/sh", "-c"], env(
            PASS_DEVICE_SPECS=self.specs, FAIL_ON_INIT_ERROR="true", DEVICE_ID_STRATEGY="uuid", NVIDIA_VISIBLE_DEVICES="all", NVIDIA_DRIVER_CAPABILITIES="all", MPS_ROOT=ROOT, **listing), [
                mount("entrypoint", "/bin/entrypoint.sh", readOnly=True, subPath="entrypoint.sh"), mount("device-plugin", "/var/lib/kubelet/device-plugins"),
                mount("run-nvidia", VALIDATIONS), mount("driver-install-dir", "/driver-root", mountPropagation="HostToContainer"),
                mount("host-root", "/host", readOnly=True, mountPropagation="HostToContainer"), mount("cdi-root", "/var/run/cdi"), mount("mps-root", "/mps"), mount("mps-shm", "/dev/shm")],
                         PRIVILEGED, args=["/bin/entrypoint.sh"])
        return self._set(PLUGIN, "nvidia-device-plugin", "nvidia-device-plugin", [], main, [
            {"name": "entrypoint", "configMap": {"name": "nvidia-device-plugin-entrypoint", "defaultMode": 0o700}}, host("device-plugin", "/var/lib/kubelet/device-plugins"),
            host("driver-install-dir", DRIVER, "DirectoryOrCreate"), host("host-root", "/"), host("cdi-root", "/var/run/cdi", "DirectoryOrCreate"),
            host("mps-root", ROOT, "DirectoryOrCreate"), host("mps-shm", f"{ROOT}/shm")], {f"{DEPLOY}device-plugin": "true"})

    def mps(self):
        mounts = container("mps-control-daemon-mounts", self.image, ["mps-control-daemon", "mount-shm"], [],
                           [mount("mps-root", "/mps", mountPropagation="Bidirectional")], PRIVILEGED)
        main = container("mps-control-daemon-ctr", self.image, ["mps-control-daemon"], [NODE_NAME, *env(NVIDIA_VISIBLE_DEVICES="all", NVIDIA_DRIVER_CAPABILITIES="compute,utility")],
                         [mount("mps-shm", "/dev/shm"), mount("mps-root", "/mps")], PRIVILEGED)
        return self._set(MPS, "nvidia-device-plugin", "/usr/bin/mps-control-daemon", [mounts], main, [host("mps-root", ROOT, "DirectoryOrCreate"), host("mps-shm", f"{ROOT}/shm")],
                         {f"{DEPLOY}device-plugin": "true", "nvidia.com/mps.capable": "true"}, {"hostPID": True}, run_nvidia="/run/nvidia")

    def gfd(self):
        main = container("gpu-feature-discovery", self.image, ["gpu-feature-discovery"], [
            *env(GFD_SLEEP_INTERVAL="60s", GFD_FAIL_ON_INIT_ERROR="true"), field("NAMESPACE", "metadata.namespace"), NODE_NAME, field("POD_NAME", "metadata.name")],
                         [mount("output-dir", "/etc/kubernetes/node-feature-discovery/features.d"), mount("host-sys", "/sys", readOnly=True)], PRIVILEGED)
        return self._set(GFD, "nvidia-gpu-feature-discovery", "gpu-feature-discovery", [], main, [
            host("output-dir", "/etc/kubernetes/node-feature-discovery/features.d"), host("host-sys", "/sys")], {f"{DEPLOY}gpu-feature-discovery": "true"}, run_nvidia="/run/nvidia")

    def mig_objects(self):
        """What the operator makes for its MIG manager, with our image in migManager.repository, .image and .version."""
        def config(name, key, text):
            return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": NAMESPACE}, "data": {key: text}}
        maps = [config("default-mig-parted-config", "config.yaml", MIG_CONFIGS), config("default-gpu-clients", "clients.yaml", GPU_CLIENTS), config("nvidia-mig-manager-entrypoint", "entrypoint.sh", MIG_ENTRYPOINT)]
        roles = [*role(MIG, MIG, NAMESPACE, [rule("", "nodes", "get", "list", "watch", "update", "patch")]), *role(MIG, MIG, NAMESPACE, [{"apiGroups": [""], "resources": ["pods", "nodes"], "verbs": ["*"]}], of=NAMESPACE)]
        main = container(MIG, self.image, ["/bin/sh", "-c"], [NODE_NAME, *env(CONFIG_FILE="/mig-parted-config/config.yaml", GPU_CLIENTS_FILE="/gpu-clients/clients.yaml"), field("DEFAULT_GPU_CLIENTS_NAMESPACE", "metadata.namespace")], [
            mount("entrypoint", "/bin/entrypoint.sh", readOnly=True, subPath="entrypoint.sh"), mount("run-nvidia", "/run/nvidia", mountPropagation="HostToContainer"), mount("host-sys", "/sys"),
            mount("mig-parted-config", "/mig-parted-config"), mount("host-root", "/host", mountPropagation="HostToContainer"), mount("gpu-clients", "/gpu-clients"), mount("cdi-root", "/var/run/cdi")],
                         PRIVILEGED, args=["/bin/entrypoint.sh"])
        pods = daemon_set(MIG, NAMESPACE, {"app": MIG}, {
            "serviceAccountName": MIG, "nodeSelector": {f"{DEPLOY}mig-manager": "true"}, "hostPID": True, "hostIPC": True, "initContainers": [self.toolkit_validation("/run/nvidia")], "containers": [main], "volumes": [
                {"name": "entrypoint", "configMap": {"name": "nvidia-mig-manager-entrypoint", "defaultMode": 0o700}}, host("run-nvidia", "/run/nvidia", "Directory"), host("host-sys", "/sys", "Directory"),
                {"name": "mig-parted-config", "configMap": {"name": "default-mig-parted-config"}}, host("host-root", "/"), {"name": "gpu-clients", "configMap": {"name": "default-gpu-clients"}},
                host("cdi-root", "/var/run/cdi", "DirectoryOrCreate")]})
        return [account(MIG, NAMESPACE), *roles, *maps, pods]
