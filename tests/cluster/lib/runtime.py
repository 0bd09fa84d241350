"""containerd with runc. A wrapper takes what this machine may not grant (a lower oom_score_adj, higher limits, the capability for both)
out of the configuration of a container, or of a further process in it, before runc sees it."""

import os
import signal
import sys

from .network import NETWORK, plugin
from .programs import Program, run, write
from .report import until

SOCKET = "/run/containerd/containerd.sock"
WRAPPER = '''#!{python}
import json, os, sys
arguments = sys.argv[1:]
for word, value in zip(arguments, arguments[1:]):
    bundle = word in ("--bundle", "-b")
    if bundle or word == "--process":
        path = os.path.join(value, "config.json") if bundle else value
        with open(path) as file:
            spec = json.load(file)
        process = spec.get("process", {{}}) if bundle else spec
        process.pop("oomScoreAdj", None)
        process.pop("rlimits", None)
        for names in process.get("capabilities", {{}}).values():
            names[:] = [name for name in names if name != "CAP_SYS_RESOURCE"]
        if bundle and {profiles!r}:  # scripts/coverage: where the programs count
            spec.setdefault("mounts", []).append({{"destination": {profiles!r}, "source": {profiles!r}, "type": "bind", "options": ["rbind", "rw"]}})
        with open(path, "w") as file:
            json.dump(spec, file)
os.execvp("runc", ["runc", *arguments])
'''
CONFIG = '''version = 3
root = "/var/lib/containerd"
state = "/run/containerd"
[grpc]
  address = "{socket}"
[plugins."io.containerd.cri.v1.images"]
  snapshotter = "{snapshotter}"
  [plugins."io.containerd.cri.v1.images".pinned_images]
    sandbox = "{pause}"
[plugins."io.containerd.cri.v1.runtime"]
  enable_cdi = true
  cdi_spec_dirs = ["/etc/cdi", "/var/run/cdi"]
  restrict_oom_score_adj = true
  [plugins."io.containerd.cri.v1.runtime".cni]
    conf_dir = "{networks}"
    bin_dirs = ["{networks}/programs"]
    use_internal_loopback = true
  [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
      BinaryName = "{wrapper}"
      SystemdCgroup = false
  [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.nvidia]
    runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.nvidia.options]
      BinaryName = "{nvidia}"
      SystemdCgroup = false
'''
PAUSE = "tranche.test/pause:1"


class Runtime:
    def __init__(self, machine, binaries):
        self.machine, self.binaries = machine, binaries
        self.program = None
        self.wrapper = machine.path("runc-here")
        self.nvidia = machine.path("nvidia-container-runtime")  # lib/nvidia_runtime.py writes it

    def start(self):
        wrapper = self.wrapper
        write(wrapper, WRAPPER.format(python=sys.executable, profiles=os.environ.get("TRANCHE_PROFILES", "")), 0o755)
        networks = self.machine.path("networks")
        os.makedirs(networks, exist_ok=True)
        write(f"{networks}/point.conflist", NETWORK)
        write(f"{networks}/programs/point", plugin(self.machine.identity), 0o755)
        write("/etc/containerd/config.toml",
              CONFIG.format(socket=SOCKET, networks=networks, pause=PAUSE, wrapper=wrapper, snapshotter="overlayfs",
                            nvidia=self.nvidia))
        env = dict(os.environ, PATH=f"{self.binaries}:{os.environ['PATH']}")
        self.program = Program("containerd", [f"{self.binaries}/containerd", "-c", "/etc/containerd/config.toml"],
                               self.machine.path("containerd.log"), env=env)
        until("containerd to answer", lambda: self.ctr("version", check=False).returncode == 0)

    def stop(self, number=signal.SIGTERM):
        """containerd alone: the containers go on, each with its shim."""
        self.program.stop(number, 30)

    def ctr(self, *words, check=True):
        return run(f"{self.binaries}/ctr", "--address", SOCKET, "--namespace", "k8s.io", *words, check=check)

    def load(self, image):
        path = self.machine.path(image.name.replace("/", "_").replace(":", "_") + ".tar")
        image.save(path)
        self.ctr("images", "import", path)
        os.unlink(path)
