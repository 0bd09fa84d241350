"""Tranche as its chart installs it from the image that deploy/image makes: what scenarios ask of it, and what it may leave behind."""

import os

from . import driver_root
from .helm import CHART, Helm
from .image import image_limit
from .kubectl import Shell
from .machine import NODE
from .programs import run
from .report import until

SOURCE = os.path.abspath(os.path.join(CHART, "../../.."))
PODS = "/api/v1/namespaces/tranche/pods"
MPS = "/run/nvidia/mps/mps.sock"
EMPTY = {"/run/tranche", "/run/nvidia", "/run/nvidia/mps", "/run/cdi"}  # docs/guide/install.md, "Remove"


class Node:
    """What uninstalling has to leave as it was."""

    def __init__(self, world):
        self.files = world.machine.files()
        node = world.control_plane.node()
        self.labels = {key: value for key, value in node["metadata"]["labels"].items() if "nvidia" in key or "tranche" in key}
        self.annotations = {key: value for key, value in node["metadata"].get("annotations", {}).items() if "tranche" in key}
        self.processes = sorted(name for name in map(name_of, filter(str.isdigit, os.listdir("/proc"))) if name in ("tranche", "nvidia-cuda-mps", "tranche-keeper"))
        with open("/proc/self/mountinfo") as mounts:
            self.mounts = sorted(fields[4] for fields in map(str.split, mounts) if "tranche" in fields[4] or "nvidia" in fields[4])


def uninstalled(report, before, after):
    report.check("uninstalled: no process is left", after.processes == before.processes, after.processes)
    report.check("uninstalled: no mount is left", after.mounts == before.mounts, after.mounts)
    left = sorted(path for path, what in after.files.items() if before.files.get(path) != what)
    report.check("uninstalled: files are as found, but for folders that the pods had mounted, which are empty",
                 set(left) <= EMPTY and set(before.files) <= set(after.files), left[:20])
    report.check("uninstalled: labels and annotations are as found", (after.labels, after.annotations) == (before.labels, before.annotations),
                 [sorted(after.labels)[:5], after.annotations])


def name_of(pid):
    """Of a process that runs. One that has ended and that nobody waits for is this test's own, which is everybody's first process here."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            name, _, rest = file.read().partition("(")[2].rpartition(") ")
            return "" if rest.startswith("Z") else name
    except OSError:
        return ""


class Cluster:
    def __init__(self, world, helm, configs, default):
        self.world, self.api, self.report = world, world.control_plane, world.report
        self.helm = Helm(Shell(world.machine, self.api.kubeconfig, helm=helm))
        self.map, self.default = dict(configs), default

    def values(self, **more):
        return {**driver_root.values(), "config": {"map": self.map, "default": self.default}, "log": {"format": "text", "level": "info"}, **more}

    def pods(self, component):
        status, listed = self.api.call("GET", f"{PODS}?labelSelector=app.kubernetes.io/component={component}")
        return [p for p in listed["items"] if not p["metadata"].get("deletionTimestamp")] if status == 200 else []

    def ready(self, component, image=None):
        """The one pod of the DaemonSet, once it is ready."""
        found = self.pods(component)
        if len(found) != 1 or (image and found[0]["spec"]["containers"][0]["image"] != image):
            return None
        conditions = {c["type"]: c["status"] for c in found[0]["status"].get("conditions", [])}
        return found[0] if conditions.get("Ready") == "True" else None

    def serves(self, name, seconds=120):
        """The named configuration is in force in both programs, and every pool serves."""
        def both():
            node, mps = self.world.tranche.status(), self.world.tranche.status(MPS)
            return (node.get("config", {}).get("name") == name and mps.get("config", {}).get("name") == name and not node.get("change", {}).get("waitingFor")
                    and all(p["state"] == "serving" for p in mps.get("pools", [])))
        until(f"{name} to be in force", both, seconds)
        until("the MPS pod to say so by its readiness", lambda: self.ready("mps"), seconds)


def make_image(world, *words):
    """The image of the programs of this build, in containerd; its name."""
    archive = world.machine.path("image.tar")
    made = run(f"{SOURCE}/deploy/image/build", *words, "--programs", f"{world.build}/bin", "-o", archive, *image_limit()).stdout
    world.runtime.ctr("images", "import", archive)
    name, digest = made.split()[1].rstrip(","), made.split("sha256:")[1].split()[0]
    listed = next((line for line in world.runtime.ctr("images", "ls").stdout.splitlines() if line.startswith(name)), "")
    world.report.check("containerd imports the image under its name and digest", digest in listed, listed[:120])
    os.unlink(archive)
    return name


def begin(world):
    """A cluster, the namespace as docs/guide/install.md makes it, and the image in containerd: its name."""
    api = world.control_plane
    world.start_cluster(accounts=True)
    api.namespace("tranche", {"pod-security.kubernetes.io/enforce": "privileged"})
    image = make_image(world)
    has_gpus(api, NODE)
    return image


def has_gpus(api, name):
    """The label that feature discovery gives, by which the chart's pods come."""
    api.call("PATCH", f"/api/v1/nodes/{name}", {"metadata": {"labels": {"nvidia.com/gpu.present": "true"}}})
