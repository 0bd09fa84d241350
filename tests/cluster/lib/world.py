"""Everything a scenario uses: the machine, containerd, kubelet, the control plane, Tranche, and the report."""

import glob
import os
import shutil

from .control_plane import ControlPlane
from .image import Image
from .kubelet import Kubelet
from .machine import Machine
from .pods import TOOLS
from .programs import write
from .runtime import PAUSE, Runtime
from .tranche import Tranche


class World:
    def __init__(self, scratch, binaries, build, report):
        self.report = report
        self.binaries, self.build = binaries, build
        self.machine = Machine(scratch)

    def open(self):
        self.report.start("prepare the machine")
        self.machine.prepare()
        self.runtime = Runtime(self.machine, self.binaries, self.build)
        self.kubelet = Kubelet(self.machine, self.binaries)
        self.control_plane = ControlPlane(self.machine, self.binaries)
        self.tranche = Tranche(self.machine, self.build)
        self.runtime.start()
        pause = Image(PAUSE, ["/bin/sleep", "1000000"])
        pause.busybox()
        self.runtime.load(pause)
        tools = Image(TOOLS, ["/bin/sh"])
        tools.busybox()
        standins = f"{self.build}/standins"
        tools.program("/usr/bin/sim-cuda", f"{standins}/sim-cuda")
        tools.program("/usr/lib/x86_64-linux-gnu/libcuda.so.1", f"{standins}/libcuda.so.1")
        tools.program("/usr/bin/tranche", f"{self.build}/bin/tranche")
        self.runtime.load(tools)

    def close(self):
        for part in ("tranche", "control_plane"):
            if hasattr(self, part):
                getattr(self, part).stop()

    def show_logs(self):
        for path in sorted(glob.glob(self.machine.path("*.log"))):
            with open(path, errors="replace") as log:
                print(f"--- {os.path.basename(path)}\n{''.join(log.readlines()[-25:])}")
