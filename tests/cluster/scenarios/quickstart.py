"""docs/guide/quick-start.md, "A cluster with GPUs", command by command as they are written there, with the real kubectl and Helm. What the
test adds is what its stand-ins need and a GPU's node has: values for their driver root, and libraries in the pod."""

import json
import os
import re
import sys

from lib import driver_root
from lib.installation import SOURCE, make_image
from lib.kubectl import Shell
from lib.machine import NODE
from lib.mission import programs
from lib.programs import write
from lib.report import Failed, until
from lib.tranche import SIM_NODE

SECTION = "## 3. A cluster with GPUs"
OTHERS = r"\./dev image|skopeo "  # what they come to: `make_image`

# What NVIDIA's runtime would bring into a pod; the stand-ins know processes by the node's ids, and there is no network for pods.
IN_POD = f"""  hostPID: true
  hostNetwork: true
  volumes:
  - {{name: sim, hostPath: {{path: {SIM_NODE}}}}}
  - {{name: cuda, hostPath: {{path: {driver_root.FOLDER}/libcuda.so.1}}}}
  - {{name: libraries, hostPath: {{path: {driver_root.LIBRARIES}}}}}
"""
IN_CONTAINER = f"""    env:
    - {{name: TRANCHE_SIM_NODE, value: {SIM_NODE}}}
    - {{name: LD_LIBRARY_PATH, value: "/driver:/libraries"}}
    volumeMounts:
    - {{name: sim, mountPath: {SIM_NODE}}}
    - {{name: cuda, mountPath: /driver/libcuda.so.1}}
    - {{name: libraries, mountPath: /libraries}}
"""


def commands():
    """(line, command) of the section's blocks of shell."""
    sys.path.insert(0, f"{SOURCE}/tests/docs")
    import documents
    with open(f"{SOURCE}/docs/guide/quick-start.md") as file:
        start = file.read().split(SECTION)[0].count("\n")
    for block in documents.blocks_of(SOURCE, "docs/guide/quick-start.md"):
        if block.language == "sh" and block.line > start:
            for command in documents.commands_of(block):
                if not re.match(OTHERS, command.text):
                    yield command.line, command.text


class Reader:
    """Somebody in a shell, in a folder of his own, with kubectl and helm."""

    def __init__(self, world, kubectl, helm):
        self.dir = world.machine.path("reader")
        os.makedirs(self.dir)
        os.symlink(f"{SOURCE}/deploy", f"{self.dir}/deploy")
        values = world.machine.path("stand-ins.json")
        write(values, json.dumps(driver_root.values()))
        here = world.machine.path("helm-here")
        write(here, f'#!/bin/sh\ncase $1 in install | upgrade) exec {helm} "$@" -f {values} ;; *) exec {helm} "$@" ;; esac\n', 0o755)
        self.shell = Shell(world.machine, world.control_plane.kubeconfig, kubectl=kubectl, helm=here)

    def types(self, text):
        text = re.sub(r"\bNODE\b", NODE, text).replace("REGISTRY", "tranche.io")
        if ".yaml" in text:  # NVIDIA's runtime is the default of this node, so to say
            text = re.sub(r"\n *runtimeClassName:.*", "", text)
        if "half.yaml" in text and "<<" in text:
            text = text.replace("  containers:\n", IN_POD + "  containers:\n").replace("    resources:", IN_CONTAINER + "    resources:")
        return self.shell("bash", "-ec", text, check=False, cwd=self.dir, timeout=180)


def run_section(report, reader):
    for line, text in commands():
        what, last = f"line {line}: {text.splitlines()[0][:90]}", ""

        def shown():
            nonlocal last
            done = reader.types(text)
            last = (done.stdout + done.stderr)[:900]
            return done.returncode == 0 and enough(text, done.stdout)
        try:  # what only looks may have to look again
            until(what, shown, 60 if re.search(r"describe|logs|status", text) else 0)
            report.check(what, True)
        except Failed:
            report.check(what, False, last)
            print(reader.types("kubectl describe pod half; kubectl logs half; true").stdout[-3000:], flush=True)
            return False
    return True


def edit_under_it(report, reader):
    """The sentence below: ten slots while the pod runs."""
    edited = reader.types("KUBE_EDITOR=\"sed -i 's/replicas: 4/replicas: 10/'\" kubectl -n tranche edit configmap tranche-configs")

    def status():
        return reader.types("kubectl -n tranche exec ds/tranche-node -- tranche status").stdout

    def settled():
        seen = status()
        keeps = re.search(r"default/half\S* +2 slots .* of +71885 MiB", seen)
        return keeps and int(re.search(r"gpu.shared: (\d+) slots", seen).group(1)) > 8
    report.comes("the edited ConfigMap: new slots, and the pod keeps its half", settled, lambda: [edited.stderr, *status().splitlines()[:12]])


def run(world):
    report = world.report
    report.start("quickstart: docs/guide/quick-start.md as it is written")
    found = programs(world)
    if not found:
        return
    driver_root.make(world.build)
    world.tranche.make_gpus(2)
    world.start_cluster(accounts=True)
    make_image(world)
    reader = Reader(world, **found)
    if run_section(report, reader):
        edit_under_it(report, reader)


def enough(text, said):
    """Whether a command shows what the document says that one sees."""
    if "describe" in text:
        return len(re.findall(r"nvidia.com/gpu: +0\n", said)) >= 1 and len(re.findall(r"nvidia.com/gpu.shared: +8\n", said)) == 2
    if "logs half" in text:
        return "right" in said
    if "tranche status" in text:
        return re.search(r"default/half\S* +2 slots", said)
    return True
