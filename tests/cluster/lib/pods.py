"""Pods for the tests, and what a container says about itself."""

import json
import re

from .tranche import SIM_NODE

TOOLS = "tranche.test/tools:1"
MARK = "=== "
# A container that prints what it was given, then lives on.
PRINT_ALL = (f"echo '{MARK}env'; env; echo '{MARK}mounts'; cat /proc/self/mountinfo; echo '{MARK}nodes'; ls -ln /dev/ | grep nvidia; "
        f"echo '{MARK}endpoint'; ls -A /run/tranche/mps 2>/dev/null; echo '{MARK}listed'; ls -A /var/run/nvidia-container-devices 2>/dev/null; "
        f"echo '{MARK}end'; exec sleep 100000")


def pod(name, limits=None, command=None, containers=None, env=None, restart="Never"):
    if containers is None:
        containers = [container("main", limits, command, env)]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"}, "spec": {
        # The stand-in for the driver knows processes by the id that they see themselves, hence hostPID.
        "hostNetwork": True, "hostPID": True, "automountServiceAccountToken": False, "enableServiceLinks": False, "restartPolicy": restart,
        "terminationGracePeriodSeconds": 1, "containers": containers,
        "volumes": [{"name": "sim", "hostPath": {"path": SIM_NODE}}]}}


def container(name, limits=None, command=None, env=None):
    return {"name": name, "image": TOOLS, "imagePullPolicy": "IfNotPresent", "command": command or ["/bin/sh", "-c", PRINT_ALL],
            "env": [{"name": "TRANCHE_SIM_NODE", "value": SIM_NODE},
                    *[{"name": key, "value": value} for key, value in (env or {}).items()]],
            "resources": {"limits": {key: str(value) for key, value in (limits or {}).items()}},
            "volumeMounts": [{"name": "sim", "mountPath": SIM_NODE}]}


def cuda(*words):
    return ["/usr/bin/sim-cuda", *[str(word) for word in words]]


CLIENT = cuda("--allocate", "1G", "--kernel-ms", "1", "--hold", "--report-every", "1")


class PodOutput:
    """What a container of PRINT_ALL printed."""

    def __init__(self, log):
        sections = dict(re.findall(rf"^{MARK}(\w+)\n(.*?)(?=^{MARK})", log, re.MULTILINE | re.DOTALL))
        self.complete = f"{MARK}end" in log
        self.env = dict(line.split("=", 1) for line in sections.get("env", "").splitlines() if "=" in line)
        self.mounts, self.roots = {}, {}
        for line in sections.get("mounts", "").splitlines():
            fields = line.split()
            if len(fields) > 5:
                self.mounts[fields[4]], self.roots[fields[4]] = fields[5], fields[3]
        self.nodes = {line.split()[-1]: tuple(line.replace(",", " ").split()[4:6]) for line in sections.get("nodes", "").splitlines() if line}
        self.endpoint = sections.get("endpoint", "").split()
        self.listed = sections.get("listed", "").split()


def events(log):
    """The JSON lines of sim-cuda."""
    found = []
    for line in log.splitlines():
        try:
            found.append(json.loads(line))
        except ValueError:
            pass
    return [event for event in found if isinstance(event, dict)]
