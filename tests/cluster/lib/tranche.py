"""Tranche's programs on the machine, over the stand-ins for driver and control daemon, at their usual paths."""

import json
import os
import signal
import socket

from .programs import Program, run, write
from .report import until

CONFIG = "/etc/kubernetes/tranche.yaml"
SIM_NODE = "/run/sim-node"  # what the stand-ins of one node share; pods that run sim-cuda mount it


class Tranche:
    def __init__(self, machine, build):
        self.machine, self.build = machine, build
        self.env = {"TRANCHE_SIM_NODE": SIM_NODE, "LD_LIBRARY_PATH": f"{build}/standins",
                    "PATH": f"{build}/standins:/usr/bin:/bin:/usr/sbin:/sbin", "HOME": machine.path("home")}
        self.node = self.mps = None
        self.started = 0

    def make_gpus(self, count, profile="H200", more=""):
        os.makedirs(SIM_NODE, exist_ok=True)
        write(f"{SIM_NODE}/node.yaml", f"{more}gpus: {{profile: {profile}, count: {count}}}\n")
        self.machine.device_nodes(count)
        return self.gpus()

    def sim_node(self, *words):
        return run(f"{self.build}/standins/sim-node", *words, env=self.env).stdout

    def gpus(self):
        return [word for word in self.sim_node("show").split() if word.startswith("GPU-")]

    def configure(self, text):
        write(CONFIG, text)

    def start_node(self, argv=None, env=None, name="node"):
        """The node agent; by default `tranche node`, with nothing but its configuration file."""
        self.started += 1
        argv = argv or [f"{self.build}/bin/tranche", "node", "--config-file", CONFIG]
        self.node = Program(name, argv, self.machine.path(f"{name}-{self.started}.log"), env=dict(self.env, **(env or {})))
        return self.node

    def start_mps(self):
        self.started += 1
        self.mps = Program("mps", [f"{self.build}/bin/tranche", "mps", "--config-file", CONFIG],
                           self.machine.path(f"mps-{self.started}.log"), env=self.env)
        return self.mps

    def stop(self):
        for program in (self.node, self.mps):
            if program and program.running():
                program.stop(signal.SIGTERM)

    @staticmethod
    def status(path="/run/tranche/node.sock"):
        try:
            with socket.socket(socket.AF_UNIX) as sock:
                sock.settimeout(60)
                sock.connect(path)
                sock.sendall(b"status\n")
                return json.loads(sock.makefile().readline() or "{}")
        except OSError:
            return {}

    def resource(self, name="nvidia.com/gpu"):
        return next((r for r in self.status().get("resources", []) if r["name"] == name), {})

    def until_serves(self, slots, name="nvidia.com/gpu", seconds=120):
        def serves():
            resource = self.resource(name)
            return resource.get("healthy") == slots and resource.get("registered") and resource
        return until(f"{slots} healthy slots of {name}, registered", serves, seconds)


def sharing(strategy, replicas, more=""):
    return (f"version: v1\n{more}sharing:\n  {strategy}:\n    failRequestsGreaterThanOne: false\n"
            f"    resources:\n    - name: nvidia.com/gpu\n      replicas: {replicas}\n")
