"""The objects of NVIDIA's own chart, nvidia-device-plugin 0.20, as it makes them for a release "nvdp": written anew from
what is known of it, with the field values of its defaults; the image is the only thing that is not NVIDIA's."""

from .nvidia_objects import CONFIGS, NODE_NAME, PRIVILEGED, account, container, daemon_set, env, field, host, manager, mount, role, rule

NAMESPACE = "nvidia-device-plugin"
FULL = "nvdp-nvidia-device-plugin"
PLUGIN, GFD, MPS = FULL, f"{FULL}-gpu-feature-discovery", f"{FULL}-mps-control-daemon"
LABELS = {"app.kubernetes.io/name": "nvidia-device-plugin", "app.kubernetes.io/instance": "nvdp"}
ROOT = "/run/nvidia/mps"
AFFINITY = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
    {"matchExpressions": [{"key": key, "operator": "In", "values": [value]}]} for key, value in (
        ("feature.node.kubernetes.io/pci-10de.present", "true"), ("feature.node.kubernetes.io/cpu-model.vendor_id", "NVIDIA"), ("nvidia.com/gpu.present", "true"))]}}}


class Chart:
    """`configs` as config.map with `default` as config.default; without any, the programs run on variables alone."""

    def __init__(self, image, configs=None, default=""):
        self.image, self.configs, self.default = image, configs, default

    def objects(self):
        service_account = f"{FULL}-service-account"
        found = [account(service_account, NAMESPACE), *role(f"{FULL}-role", service_account, NAMESPACE, [
            rule("", "nodes", "get", "list", "watch"), rule("nfd.k8s-sigs.io", "nodefeatures", "get", "list", "watch", "create", "update"), rule("", "pods", "get")])]
        if self.configs:
            found.append({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": f"{FULL}-configs", "namespace": NAMESPACE}, "data": self.configs})
        return [*found, self.plugin(), self.mps(), self.gfd()]

    def _set(self, name, program, main, volumes, more=None, inits=()):
        """A DaemonSet, with the config manager before and beside its program where there are configurations."""
        sides = []
        more = dict(more or {})
        if self.configs:
            short = name.removeprefix("nvdp-nvidia-device-plugin-") if name != FULL else "nvidia-device-plugin"
            inits = [*inits, manager(f"{short}-init", self.image, self.default, "named,single")]
            sides = [manager(f"{short}-sidecar", self.image, self.default, "named,single", program)]
            volumes = [*volumes, {"name": "available-configs", "configMap": {"name": f"{FULL}-configs"}}, {"name": "config", "emptyDir": {}}]
            main["env"] = [*main["env"], *env(CONFIG_FILE="/config/config.yaml", NVIDIA_MIG_MONITOR_DEVICES="all")]
            main["volumeMounts"] = [*main["volumeMounts"], *CONFIGS]
            if not more.get("hostPID"):
                more["shareProcessNamespace"] = True
        return daemon_set(name, NAMESPACE, LABELS, {
            "serviceAccountName": f"{FULL}-service-account", "affinity": AFFINITY, "tolerations": [{"key": "CriticalAddonsOnly", "operator": "Exists"}],
            "initContainers": list(inits), "containers": [*sides, main], "volumes": volumes, "securityContext": {}, **more})

    def plugin(self):
        security = {"capabilities": {"add": ["SYS_ADMIN"]}} if self.configs else {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
        main = container("nvidia-device-plugin-ctr", self.image, ["nvidia-device-plugin"],
                         env(MPS_ROOT=ROOT, NVIDIA_VISIBLE_DEVICES="all", NVIDIA_DRIVER_CAPABILITIES="compute,utility"),
                         [mount("device-plugin", "/var/lib/kubelet/device-plugins"), mount("mps-shm", "/dev/shm"), mount("mps-root", "/mps"), mount("cdi-root", "/var/run/cdi")], security)
        return self._set(FULL, "nvidia-device-plugin", main, [
            host("device-plugin", "/var/lib/kubelet/device-plugins", "Directory"), host("mps-root", ROOT, "DirectoryOrCreate"), host("mps-shm", f"{ROOT}/shm"),
            host("cdi-root", "/var/run/cdi", "DirectoryOrCreate")])

    def mps(self):
        mounts = container("mps-control-daemon-mounts", self.image, ["mps-control-daemon", "mount-shm"], [],
                           [mount("mps-root", "/mps", mountPropagation="Bidirectional")], PRIVILEGED)
        main = container("mps-control-daemon-ctr", self.image, ["mps-control-daemon"],
                         [NODE_NAME, *env(NVIDIA_VISIBLE_DEVICES="all", NVIDIA_DRIVER_CAPABILITIES="compute,utility")],
                         [mount("mps-shm", "/dev/shm"), mount("mps-root", "/mps")], PRIVILEGED)
        return self._set(MPS, "/usr/bin/mps-control-daemon", main, [host("mps-root", ROOT, "DirectoryOrCreate"), host("mps-shm", f"{ROOT}/shm")],
                         {"hostPID": True, "nodeSelector": {"nvidia.com/mps.capable": "true"}}, [mounts])

    def gfd(self):
        main = container("gpu-feature-discovery-ctr", self.image, ["gpu-feature-discovery"],
                         [NODE_NAME, field("NAMESPACE", "metadata.namespace"), field("POD_NAME", "metadata.name")],
                         [mount("output-dir", "/etc/kubernetes/node-feature-discovery/features.d"), mount("host-sys", "/sys")], PRIVILEGED)
        return self._set(GFD, "gpu-feature-discovery", main, [
            host("output-dir", "/etc/kubernetes/node-feature-discovery/features.d", "DirectoryOrCreate"), host("host-sys", "/sys")])
