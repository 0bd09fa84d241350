"""`nvidia-device-plugin` by its name, with NVIDIA's variables and nothing else: each way to hand a device to a container."""

import os

from lib import driver_root
from lib.pods import pod
from lib.programs import write
from lib.report import until
from lib.tranche import CONFIG, sharing

from .kubelet_alone import GPU, take_away, output_of

NODES = {"nvidiactl": ("195", "255"), "nvidia-uvm": ("511", "0"), "nvidia-uvm-tools": ("511", "1")}


def plugin(world, **variables):
    """Starts the program under NVIDIA's name; only variables configure it."""
    link = world.machine.path("bin/nvidia-device-plugin")
    if not os.path.exists(link):
        os.makedirs(os.path.dirname(link))
        os.symlink(f"{world.build}/bin/tranche", link)
    return world.tranche.start_node([link], env=variables, name="nvidia-device-plugin")


def hook_program(world):
    """Stands in for NVIDIA's hook program: takes the runtime's state and notes how it was called."""
    path = world.machine.path("bin/nvidia-cdi-hook")
    write(path, f'#!/bin/sh\ncat >/dev/null\necho "$0 $*" >>{path}.calls\n', 0o755)
    return path


def run(world):
    report, kubelet, tranche = world.report, world.kubelet, world.tranche
    report.start("drop-in for nvidia-device-plugin")
    gpus = tranche.make_gpus(2)
    kubelet.start()

    def case(name, limits, slots, resource=GPU, **variables):
        """One start of the plugin and one pod; what the pod's container was given."""
        plugin(world, **variables)
        tranche.until_serves(slots, resource)
        kubelet.put(pod(name, limits))
        said = output_of(world, name)
        take_away(world, name)
        status = tranche.node.stop()
        report.check(f"{name}: ends with status 0 after SIGTERM", status == 0, status)
        return said

    said = case("whole", {GPU: 1}, 2)
    report.check("no configuration at all: NVIDIA_VISIBLE_DEVICES is one UUID", said.env.get("NVIDIA_VISIBLE_DEVICES") in gpus)
    report.check("no configuration at all: no device nodes, no mounts of ours", not said.nodes and not said.endpoint and not said.listed)

    said = case("index", {GPU: 2}, 2, DEVICE_ID_STRATEGY="index")
    report.check("DEVICE_ID_STRATEGY=index: both GPUs by index", said.env.get("NVIDIA_VISIBLE_DEVICES") == "0,1", said.env.get("NVIDIA_VISIBLE_DEVICES"))

    said = case("specs", {GPU: 1}, 2, PASS_DEVICE_SPECS="true")
    at = gpus.index(said.env["NVIDIA_VISIBLE_DEVICES"])
    wanted = dict(NODES, **{f"nvidia{at}": ("195", str(at))})
    report.check("PASS_DEVICE_SPECS: its GPU's node and the control nodes, no others", said.nodes == wanted, said.nodes)

    said = case("volumes", {GPU: 1}, 2, DEVICE_LIST_STRATEGY="volume-mounts")
    report.check("volume-mounts: the variable names the folder, the folder lists the GPU",
                 said.env.get("NVIDIA_VISIBLE_DEVICES") == "/var/run/nvidia-container-devices" and len(said.listed) == 1 and said.listed[0] in gpus, said.listed)

    tranche.configure(sharing("timeSlicing", 4))
    said = case("sliced", {GPU: 2}, 8, CONFIG_FILE=CONFIG)
    report.check("time-slicing: two slots of one request lie on two GPUs, as NVIDIA spreads them", set(said.env["NVIDIA_VISIBLE_DEVICES"].split(",")) == set(gpus))

    tranche.configure(sharing("timeSlicing", 4).replace("    resources:", "    renameByDefault: true\n    resources:"))
    said = case("renamed", {"nvidia.com/gpu.shared": 1}, 8, "nvidia.com/gpu.shared", CONFIG_FILE=CONFIG)
    report.check("renameByDefault: nvidia.com/gpu.shared", said.env["NVIDIA_VISIBLE_DEVICES"] in gpus)

    # The driver in a root of its own, as a driver container has it, with its nodes in the host's /dev.
    driver_root.make(world.build)
    hook = hook_program(world)
    for strategy in ("cdi-cri", "cdi-annotations"):
        said = case(strategy, {GPU: 1}, 2, DEVICE_LIST_STRATEGY=strategy, NVIDIA_DRIVER_ROOT=driver_root.ROOT,
                    CONTAINER_DRIVER_ROOT=driver_root.ROOT, NVIDIA_DEV_ROOT="/", NVIDIA_CDI_HOOK_PATH=hook)
        given = [name for name in said.nodes if name.removeprefix("nvidia").isdigit()]
        report.check(f"{strategy}: containerd reads our specification: one GPU's node and the control nodes",
                     len(given) == 1 and NODES.items() <= said.nodes.items(), said.nodes)
        report.check(f"{strategy}: NVIDIA_VISIBLE_DEVICES is void", said.env.get("NVIDIA_VISIBLE_DEVICES") == "void", said.env.get("NVIDIA_VISIBLE_DEVICES"))
        library = f"/usr/lib/x86_64-linux-gnu/libcuda.so.{driver_root.DRIVER}"
        report.check(f"{strategy}: the driver's library is mounted read-only", said.mounts.get(library, "").startswith("ro"), said.mounts.get(library))
    with open(hook + ".calls") as calls:
        called = calls.read()
    report.check("hooks are called with the words that NVIDIA's program takes", "create-symlinks --link" in called and "update-ldcache --folder" in called)
    left = os.listdir("/var/run/cdi")
    report.check("specifications stay for containers that run", any(name.startswith("k8s.device-plugin.nvidia.com") for name in left), left)

    for name, strategy, resource in (("single", "single", GPU), ("mixed", "mixed", "nvidia.com/mig-1g.18gb")):
        for gpu in (0, 1):
            tranche.sim_node("gpu", gpu, "mig", "1g.18gb", "1g.18gb")
        said = case(name, {resource: 1}, 4, resource, MIG_STRATEGY=strategy)
        report.check(f"MIG_STRATEGY={strategy}: {resource} gives one MIG device", said.env["NVIDIA_VISIBLE_DEVICES"].startswith("MIG-"), said.env["NVIDIA_VISIBLE_DEVICES"])
    for gpu in (0, 1):
        tranche.sim_node("gpu", gpu, "mig", "off")

    plugin(world, MIG_STRATEGY="some")
    report.check("a wrong word ends it with status 1 and names the variable", until("its end", lambda: not tranche.node.running())
                 and tranche.node.process.returncode == 1 and "MIG_STRATEGY" in tranche.node.tail(), tranche.node.tail(1).strip()[:150])
