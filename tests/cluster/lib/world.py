"""Everything a scenario uses: the first node, the control plane, Tranche, the second node where it asks for one, and the report."""

import glob
import os

from .control_plane import ControlPlane
from .node import Node, SecondNode


class World(Node):
    def __init__(self, scratch, binaries, build, report):
        super().__init__(scratch, binaries, build)
        self.report = report
        self.second_node = None

    def open(self):
        self.report.start("prepare the machine")
        super().open()
        self.control_plane = ControlPlane(self.machine, self.binaries)

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
