"""Mission row 1.1 with the real Docker and kind: `deploy/kind/setup.sh --without-gpu` creates a cluster of two nodes, installs the chart, and
deploy/kind/without-gpu shares the simulated GPUs; then the same command again. Docker runs here, on the scenario's containerd; the node
image is lib/kind_node.py's."""

import json
import os
import shutil
import tempfile

from lib import kind_node
from lib.image import image_limit
from lib.installation import SOURCE
from lib.kubectl import Shell
from lib.mission import GPU, KIND, SHARED
from lib.programs import Program, run as run_program, write
from lib.report import Failed, until

PROGRAMS = ["kubectl", "helm", "kubeadm", "kube-proxy", "etcd", "kind", "kind-node"]
TOOLS = ["dockerd", "docker", "debootstrap", "xtables-nft-multi"]
IMAGE = "tranche.test/kind-node:1"
CLUSTER = "tranche-test"
WORKER, WORKERS = f"{CLUSTER}-worker", f"{SOURCE}/build/kind-{CLUSTER}"  # the latter: the simulated GPUs that setup.sh makes
FOLDERS = ["/lib/modules", "/etc/docker"]  # which Docker makes where there are none
SLOT = ("32 seen at work", "34.96 GiB free of 139.80 GiB", "MPS          connected", "answers      right")  # a quarter of an H200


def archive(build):
    return f"{build}/kind/node.tar"


def prepare(binaries, build):
    """The node image below the build folder, unless it is there and newer than what it is made of; why there is none."""
    lacking = [name for name in TOOLS if not shutil.which(name)]
    if lacking:
        return f"{', '.join(lacking)} not installed; apt-get install docker.io debootstrap"
    parts = [kind_node.__file__, *(f"{binaries}/{name}" for name in (*PROGRAMS, "kubelet", "containerd"))]
    if os.path.exists(archive(build)) and os.path.getmtime(archive(build)) > max(map(os.path.getmtime, parts)):
        return ""
    print("making the image of kind's nodes, once (about 2 minutes on 2 cores)", flush=True)
    os.makedirs(os.path.dirname(archive(build)), exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="tranche-kind.") as scratch:
        try:
            kind_node.make(binaries, scratch, archive(build))
        except Failed as failure:
            return f"no image of kind's nodes: {failure}"
    return ""


def docker_daemon(world):
    machine = world.machine
    write(machine.path("daemon.json"), json.dumps({
        "data-root": machine.path("docker"), "runtimes": {"here": {"path": world.runtime.wrapper}}, "default-runtime": "here",
        "exec-opts": ["native.cgroupdriver=cgroupfs"], "cgroup-parent": "tranche"}))  # machine.remove_cgroups() knows it
    return Program("dockerd", ["dockerd", "--config-file", machine.path("daemon.json")], machine.path("dockerd.log"))


def person(world):
    """With kind, whose default node image is one of a registry: this one's is the archive's."""
    machine, programs = world.machine, world.binaries
    write(machine.path("kind-here"), f'#!/bin/sh\n[ "$1 $2" != "create cluster" ] || set -- "$@" --image {IMAGE}\nexec {programs}/kind "$@"\n', 0o755)
    return Shell(machine, machine.path("kubeconfig"), docker=shutil.which("docker"), kind=machine.path("kind-here"), kubectl=f"{programs}/kubectl", helm=f"{programs}/helm")


def run(world):
    report, shell = world.report, person(world)
    new = [path for path in FOLDERS if not os.path.exists(path)]
    report.start("kind")
    dockerd = docker_daemon(world)
    try:
        until("dockerd to answer, or to end", lambda: not dockerd.running() or shell("docker", "info", check=False).returncode == 0)
        if dockerd.running():
            play(world, shell)
        else:
            print(f"SKIPPED: dockerd does not run here: {dockerd.tail(1).strip()}", flush=True)
            report.check("kind: skipped without Docker", True)
    finally:
        dockerd.stop()
        for path in (*new, WORKERS):
            shutil.rmtree(path, ignore_errors=True)


def play(world, shell):
    shell("docker", "import", "-c", 'ENTRYPOINT ["/usr/local/bin/entrypoint", "/sbin/init"]', "-c", "ENV container=docker", archive(world.build), IMAGE)
    image = world.machine.path("tranche-image.tar")
    run_program(f"{SOURCE}/deploy/image/build", "--programs", f"{world.build}/bin", "-o", image, *image_limit())

    shutil.rmtree(WORKERS, ignore_errors=True)  # of a run that was killed

    def set_up():
        return shell(f"{KIND}/setup.sh", "--without-gpu", "--name", CLUSTER, "--archive", image, env={"TRANCHE_STANDINS": f"{world.build}/standins"}, timeout=900)
    try:
        share(world.report, shell, set_up)
    except Failed:
        print(shell.kubectl("get", "pods", "-A", "-o", "wide", check=False).stdout)  # world.show_logs() has no log of the nodes
        raise
    finally:
        shell("kind", "delete", "cluster", "--name", CLUSTER, check=False)
        left = shell("docker", "ps", "-aq").stdout.split()
        world.report.check("kind delete cluster leaves no container", not left, left)


def amounts(shell):
    """Of `kubectl describe node`: by the name of the section, its resources of NVIDIA's name."""
    sections = {}
    for line in shell.kubectl("describe", "node", WORKER).stdout.splitlines():
        words = line.split()
        if not line.startswith(" "):
            section = sections.setdefault(line.partition(":")[0], {})
        elif len(words) == 2 and words[0].startswith("nvidia.com/"):
            section[words[0].rstrip(":")] = words[1]
    return sections["Capacity"], sections["Allocatable"]


def share(report, shell, set_up):
    printed = set_up().stdout
    report.check("M1.1 setup.sh --without-gpu creates the cluster and installs Tranche; its table has eight shares", [WORKER, "0", "8"] in [line.split() for line in printed.splitlines()], printed.splitlines()[-2:])
    slots = {GPU: "0", SHARED: "8"}
    seen = amounts(shell)
    report.check(f"M1.4 kubectl describe node: {GPU}: 0 and {SHARED}: 8, capacity and allocatable", seen == (slots, slots), seen)

    shell.kubectl("apply", "-k", f"{KIND}/without-gpu")
    for name in ("tranche-probe", "tranche-products"):
        shell.kubectl("rollout", "status", f"deployment/{name}", "--timeout=180s")
    probes = until("five probes to print", lambda: (text := shell.kubectl("logs", "-l", "app.kubernetes.io/name=tranche-probe", "--tail=-1").stdout).count("answers") == 5 and text)
    found = {mark: probes.count(mark) for mark in SLOT}
    report.check("five pods of deploy/kind/without-gpu each get a quarter of an H200 by MPS, and it computes right", set(found.values()) == {5}, found)

    def pods():
        listed = json.loads(shell.kubectl("get", "pods", "-A", "-l", "app.kubernetes.io/name in (tranche, tranche-probe, tranche-products)", "-o", "json").stdout)["items"]
        return {pod["metadata"]["name"]: [state["restartCount"] for state in pod["status"]["containerStatuses"]] for pod in listed}
    before = pods()
    set_up()
    report.check("setup.sh again: the same pods, none restarted", len(before) == 9 and pods() == before, sorted(before))
