"""A cluster in which NVIDIA's manifests run as they are: the flavour compat of our image, the runtime class "nvidia", the API
server's service address and a stand-in for node feature discovery."""

import os
import subprocess

from . import driver_root, nvidia_runtime
from .around import NODE_FEATURES, FeatureMaster, ServiceAddress
from .containers import called, delete_and_time, of_daemon_set, of_pod
from .installation import make_image
from .machine import NODE
from .nvidia_objects import LABEL, RUNTIME_CLASS, apply
from .pods import CLIENT, PodOutput, pod
from .report import Failed, until

PRESENT = "nvidia.com/gpu.present"


class NvidiaWorld:
    def __init__(self, world, namespace, gpus=2):
        self.world, self.namespace, self.report = world, namespace, world.report
        self.api, self.kubelet, self.tranche = world.control_plane, world.kubelet, world.tranche
        driver_root.make(world.build)
        self.gpus = self.tranche.make_gpus(gpus)
        nvidia_runtime.write_script(world.runtime.nvidia, world.runtime.wrapper, self.gpus)
        world.start_cluster(accounts=True)
        self.api.namespace(namespace)
        ServiceAddress()
        apply(self.api, [RUNTIME_CLASS, NODE_FEATURES])
        self.image = make_image(world, "--compat")
        self.label(**{PRESENT: "true"})
        self.features = FeatureMaster(self.api, namespace)

    # --- the node -----------------------------------------------------------------------------------------------------
    def label(self, **labels):
        self.api.call("PATCH", f"/api/v1/nodes/{NODE}", {"metadata": {"labels": labels}})

    def choose(self, name):
        self.label(**{LABEL: name})

    def labels(self):
        return {key: value for key, value in self.api.node()["metadata"]["labels"].items() if key.startswith("nvidia.com/")}

    def amounts(self, wanted, what, seconds=120):
        """Of what is gone, kubelet shows the capacity for some minutes yet, with nothing of it allocatable."""
        def has(name, count):
            return self.api.amounts(name) == (count, count) if count else self.api.amounts(name)[1] in (0, None)
        self.report.comes(what, lambda: all(has(name, count) for name, count in wanted.items()),
                          lambda: {name: self.api.amounts(name) for name in wanted}, seconds)

    def units(self):
        """What NVIDIA's validator looks for: resources by its two prefixes, with how many the node has."""
        return {name: int(count) for name, count in self.api.node()["status"]["capacity"].items() if name.startswith(("nvidia.com/gpu", "nvidia.com/mig-")) and int(count) > 0}

    def modes(self):
        return self.tranche.sim_node("show")

    # --- pods of the DaemonSets ---------------------------------------------------------------------------------------
    def set_pod(self, name, seconds=120, other_than=None):
        def found():
            seen = of_daemon_set(self.api, self.namespace, name)
            return seen if seen and seen["metadata"]["uid"] != other_than else None
        return until(f"the pod of {name}", found, seconds)

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

    def ends_soon(self, name, program):
        """The pod of a DaemonSet is deleted; its programs end, and another comes."""
        old = self.set_pod(name)
        took = delete_and_time(self.api, old)
        self.report.check(f"{program}: ends by the deletion of its pod within the grace of 30 s, with all beside it",
                          program in took and max(took.values()) < 28, {one: f"{end:.2f} s" for one, end in took.items()})
        self.set_pod(name, other_than=old["metadata"]["uid"])

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
        self.user(name, limits, CLIENT)
        return self.world.attached(name)

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
