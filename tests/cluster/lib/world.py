"""Everything a scenario uses: the first node, the control plane, Tranche, the second node where it asks for one, and the report."""

import glob
import os

from .control_plane import ControlPlane
from .node import Node, SecondNode
from .pods import CLIENT, events, pod
from .report import until


class World(Node):
    def __init__(self, scratch, binaries, build, report):
        super().__init__(scratch, binaries, build)
        self.report = report
        self.second_node = None

    def open(self):
        self.report.start("prepare the machine")
        super().open()
        self.control_plane = ControlPlane(self.machine, self.binaries)

    def start_cluster(self, accounts=False):
        """A cluster of this node, to which pods may go."""
        self.control_plane.start(accounts)
        self.control_plane.join(self, self.control_plane.kubeconfig)

    def share(self, config, gpus=2):
        """A cluster of this node, whose GPUs Tranche's programs share by a configuration; the GPUs."""
        found = self.tranche.make_gpus(gpus)
        self.tranche.configure(config)
        self.start_cluster()
        self.tranche.start_mps()
        self.tranche.start_node()
        return found

    # --- pods whose containers run sim-cuda -----------------------------------------------------------------------------
    def said(self, name, container=""):
        """What they said so far, on either node."""
        found = self.control_plane.pod(name)
        second = self.second_node and found["spec"]["nodeName"] == self.second_node.identity.name
        return events((self.second_node if second else self).kubelet.log(found, container))

    def attached(self, name, container=""):
        """What the container said when it had its context, once the pod runs."""
        self.control_plane.until_phase(name, "Running")
        return until(f"{name} to attach", lambda: next((e for e in self.said(name, container) if e.get("event") == "attached"), None))

    def client(self, name, limits):
        """A pod that computes once a second, and what it said when it had its context."""
        self.control_plane.add(pod(name, limits, CLIENT))
        return self.attached(name)

    def go_on(self, what, *names):
        """Each computes on, without an error and without a restart of its container."""
        before = {name: len(self.said(name)) for name in names}
        until(f"{', '.join(names)} to go on", lambda: all(len(self.said(name)) > before[name] for name in names))
        errors = [e for name in names for e in self.said(name) if e.get("error", "CUDA_SUCCESS") != "CUDA_SUCCESS"]
        again = [name for name in names if self.control_plane.pod(name)["status"]["containerStatuses"][0]["restartCount"]
                 or sum(e.get("event") == "attached" for e in self.said(name)) != 1]
        self.report.check(what, not errors and not again, [*errors[:1], *again])

    def second(self):
        """The second node, prepared; only in scenarios that scenarios/__init__.py lists in TWO_NODES."""
        self.second_node = self.second_node or SecondNode(self)
        return self.second_node

    def close(self):
        if self.second_node:
            self.second_node.leave()
        for part in ("tranche", "control_plane"):
            if hasattr(self, part):
                getattr(self, part).stop()

    def show_logs(self):
        for path in sorted(glob.glob(self.machine.path("*.log")) + glob.glob(self.machine.path("second/*.log"))):
            with open(path, errors="replace") as log:
                print(f"--- {os.path.relpath(path, self.machine.scratch)}\n{''.join(log.readlines()[-25:])}")
