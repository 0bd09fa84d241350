"""A cluster in which NVIDIA's manifests run as they are: the flavour compat of our image, the runtime class "nvidia", the API
server's service address and a stand-in for node feature discovery."""

import os
import subprocess

from . import driver_root, nvidia_runtime
from .around import NODE_FEATURES, FeatureMaster, ServiceAddress
from .containers import called, of_daemon_set, of_pod
from .image import image_limit
from .machine import NODE
from .nvidia_objects import LABEL, RUNTIME_CLASS, apply
from .pods import PodOutput, cuda, events, pod
from .programs import run
from .report import Failed, until

SOURCE = os.path.abspath(os.path.join(os.path.dirname(__file__), "../../.."))
PRESENT = "nvidia.com/gpu.present"


class NvidiaWorld:
    def __init__(self, world, namespace, gpus=2):
        self.world, self.namespace, self.report = world, namespace, world.report
        self.api, self.kubelet, self.tranche = world.control_plane, world.kubelet, world.tranche
        driver_root.make(world.build)
        self.api.start(accounts=True)
        self.gpus = self.tranche.make_gpus(gpus)
        nvidia_runtime.write_script(world.runtime.nvidia, world.runtime.wrapper, self.gpus)
        self.kubelet.start(self.api.kubeconfig)
        until("the node to be ready", lambda: any(c["type"] == "Ready" and c["status"] == "True" for c in self.api.node().get("status", {}).get("conditions", [])))
        until("the node to be free of taints", lambda: not self.api.node().get("spec", {"taints": 1}).get("taints"))
        self.api.create("/api/v1/namespaces", {"metadata": {"name": namespace}})
        for space in ("default", namespace):
            until(f"what pods of {space} need", lambda n=space: self.api.call("GET", f"/api/v1/namespaces/{n}/serviceaccounts/default")[0] == 200
                  and self.api.call("GET", f"/api/v1/namespaces/{n}/configmaps/kube-root-ca.crt")[0] == 200)
        ServiceAddress()
        apply(self.api, [RUNTIME_CLASS, NODE_FEATURES])
        self.image = self._image()
        self.label(**{PRESENT: "true"})
        self.features = FeatureMaster(self.api, namespace)

    def _image(self):
        archive = self.world.machine.path("compat.tar")
        made = run(f"{SOURCE}/deploy/image/build", "--compat", "--programs", f"{self.world.build}/bin", "-o", archive, *image_limit()).stdout
        self.world.runtime.ctr("images", "import", archive)
        os.unlink(archive)
        return made.split()[1].rstrip(",")

    def close(self):
        self.features.stop()
        self.kubelet.stop()
        self.api.stop()

    # --- the node -----------------------------------------------------------------------------------------------------
    def label(self, **labels):
        self.api.call("PATCH", f"/api/v1/nodes/{NODE}", {"metadata": {"labels": labels}})

    def choose(self, name):
        self.label(**{LABEL: name})

    def labels(self):
        return {key: value for key, value in self.api.node()["metadata"]["labels"].items() if key.startswith("nvidia.com/")}

    def amounts(self, wanted, what, seconds=120):
        """Of what is gone, kubelet shows the capacity for some minutes yet, with nothing of it allocatable."""
        def seen():
            return {name: self.api.amounts(name) for name in wanted}

        def has(name, count):
            return self.api.amounts(name) == (count, count) if count else self.api.amounts(name)[1] in (0, None)

        try:
            until(f"{what}: {wanted}", lambda: all(has(name, count) for name, count in wanted.items()), seconds)
            holds = True
        except Failed:
            holds = False
        self.report.check(what, holds, seen())

    def units(self):
        """What NVIDIA's validator looks for: resources by its two prefixes, with how many the node has."""
        return {name: int(count) for name, count in self.api.node()["status"]["capacity"].items() if name.startswith(("nvidia.com/gpu", "nvidia.com/mig-")) and int(count) > 0}

    def modes(self):
        return self.tranche.sim_node("show")

    # --- pods of the DaemonSets ---------------------------------------------------------------------------------------
    def set_pod(self, name, seconds=120, other_than=None):
        found = until(f"the pod of {name}", lambda: (p := of_daemon_set(self.api, self.namespace, name)) and p["metadata"]["uid"] != other_than and p, seconds)
        return found

    def no_pod(self, name):
        return of_daemon_set(self.api, self.namespace, name, ready=False) is None

    def said(self, p, container):
        return self.kubelet.log(p, container)

    def kill(self, name, program):
        """SIGKILL for the program of a DaemonSet's pod; waits for another in the same pod."""
        p = self.set_pod(name)
        before = called(p, program)
        if before is None:
            raise Failed(f"{program} does not run in {name}: {of_pod(p)}")
        os.kill(before, 9)
        until(f"another {program}", lambda: (now := called(p, program)) and now != before)

    # --- pods that use GPUs -------------------------------------------------------------------------------------------
    def user(self, name, limits, command=None, env=None):
        made = pod(name, limits, command, env=env)
        made["spec"]["runtimeClassName"] = "nvidia"
        self.api.add(made)
        return self.api.until_phase(name, "Running")

    def output_of(self, name, limits):
        """A pod that prints what it was given, then goes."""
        found = self.user(name, limits)
        said = until(f"{name} to print", lambda: (t := PodOutput(self.kubelet.log(found))).complete and t)
        self.api.remove(name)
        return said

    def client(self, name, limits):
        """A CUDA process that attached, and goes on; what it said."""
        found = self.user(name, limits, cuda("--allocate", "1G", "--kernel-ms", "1", "--hold", "--report-every", "1"))
        return until(f"{name} to attach", lambda: next((e for e in events(self.kubelet.log(found)) if e.get("event") == "attached"), None))

    def go_on(self, name, what):
        before = len(events(self.kubelet.log(self.api.pod(name))))
        said = until(f"{name} to go on", lambda: len(got := events(self.kubelet.log(self.api.pod(name)))) > before + 1 and got)
        errors = [e for e in said if e.get("error", "CUDA_SUCCESS") != "CUDA_SUCCESS"]
        self.report.check(what, not errors, errors[:1] or "")

    def capabilities(self, p, program):
        with open(f"/proc/{called(p, program)}/status") as file:
            return next(line.split()[1] for line in file if line.startswith("CapEff"))


def show_pods(nvidia):
    """For a test that failed: states, and the last lines of each container of the namespace."""
    status, listed = nvidia.api.call("GET", f"/api/v1/namespaces/{nvidia.namespace}/pods")
    for p in listed["items"] if status == 200 else []:
        for kind in ("initContainerStatuses", "containerStatuses"):
            for state in p["status"].get(kind, []):
                print(f"--- {p['metadata']['name']} {state['name']}: {state['state']} restarts {state['restartCount']}")
                print("\n".join(nvidia.kubelet.log(p, state["name"]).splitlines()[-12:]))
    print(subprocess.run(["ls", "-la", "/var/lib/kubelet/device-plugins", "/run/nvidia/mps", "/run/nvidia"], capture_output=True, text=True, check=False).stdout)


def play(world, title, namespace, *acts):
    """A scenario: `acts`, one after the other; where one ends early, what the pods said."""
    world.report.start(title)
    nvidia = NvidiaWorld(world, namespace)
    try:
        for act in acts:
            act(nvidia)
    except Exception:
        show_pods(nvidia)
        raise
    nvidia.close()
