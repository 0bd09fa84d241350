"""A real kubelet, alone (pods from files) or in a cluster."""

import json
import os
import signal
import urllib.request

from .programs import Program, write
from .report import until
from .runtime import SOCKET

CONFIG = {
    "apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration",
    "failCgroupV1": False, "cgroupDriver": "cgroupfs", "containerRuntimeEndpoint": f"unix://{SOCKET}",
    "enforceNodeAllocatable": [], "failSwapOn": False, "localStorageCapacityIsolation": False,
    "authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": False}},
    "authorization": {"mode": "AlwaysAllow"}, "address": "0.0.0.0", "makeIPTablesUtilChains": False,
    "staticPodPath": "/etc/kubernetes/manifests", "fileCheckFrequency": "1s", "syncFrequency": "2s",
    "nodeStatusUpdateFrequency": "1s", "evictionHard": {}, "volumePluginDir": "/var/lib/kubelet/volume-plugins",
    "imageGCHighThresholdPercent": 100, "registerNode": True,
}
PLUGINS = "/var/lib/kubelet/device-plugins"


class Kubelet:
    def __init__(self, machine, binaries):
        self.machine, self.binaries = machine, binaries
        self.program = None
        self.kubeconfig = None
        os.makedirs("/etc/kubernetes/manifests", exist_ok=True)

    def start(self, kubeconfig=None):
        self.kubeconfig = kubeconfig or self.kubeconfig
        config = dict(CONFIG, resolvConf=self.machine.path("resolv.conf"), cgroupRoot=self.machine.cgroup_root())
        write("/etc/kubernetes/kubelet.json", json.dumps(config))
        argv = [f"{self.binaries}/kubelet", "--config=/etc/kubernetes/kubelet.json", f"--hostname-override={self.machine.identity.name}",
                f"--node-ip={self.machine.identity.address}", "--v=2"]
        if self.kubeconfig:
            argv.append(f"--kubeconfig={self.kubeconfig}")
        self.program = Program("kubelet", argv, self.machine.path("kubelet.log"))
        until("kubelet's device plugin socket", lambda: os.path.exists(f"{PLUGINS}/kubelet.sock"))
        until("kubelet to answer", lambda: self.get("/healthz") == "ok")

    def stop(self, number=signal.SIGTERM):
        self.program.stop(number, 30)

    @staticmethod
    def get(path):
        """From kubelet's own port; None while it does not answer."""
        import ssl
        context = ssl._create_unverified_context()
        try:
            with urllib.request.urlopen(f"https://127.0.0.1:10250{path}", timeout=60, context=context) as answer:
                return answer.read().decode()
        except OSError:
            return None

    def pods(self):
        return {pod["metadata"]["name"]: pod for pod in json.loads(self.get("/pods") or '{"items": []}').get("items") or []}

    # --- pods from files, without an API server ---------------------------------------------------------------------
    @staticmethod
    def put(pod):
        write(f"/etc/kubernetes/manifests/{pod['metadata']['name']}.json", json.dumps(pod))

    @staticmethod
    def remove(name):
        os.unlink(f"/etc/kubernetes/manifests/{name}.json")

    def static(self, name):
        """The pod of the file, under the name that kubelet gives it; None while it has none."""
        return self.pods().get(f"{name}-{self.machine.identity.name}")

    # --- logs ---------------------------------------------------------------------------------------------------------
    @staticmethod
    def log(pod, container=""):
        """What the pod's containers wrote (or one of them), without kubelet's prefixes."""
        meta = pod["metadata"]
        folder = f"/var/log/pods/{meta['namespace']}_{meta['name']}_{meta.get('annotations', {}).get('kubernetes.io/config.hash') or meta['uid']}"
        lines = []
        for top, _, files in sorted(os.walk(os.path.join(folder, container))):
            for name in sorted(files):
                with open(os.path.join(top, name), errors="replace") as log:
                    lines += [line.split(" ", 3)[-1] for line in log]
        return "".join(lines)
