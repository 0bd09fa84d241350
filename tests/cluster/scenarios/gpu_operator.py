"""The flavour compat of our image where NVIDIA's GPU Operator puts its own (lib/gpu_operator.py): started by the operator's mounted
script, configured by variables, waiting for ready files, with CDI; judged as the operator's validator does."""

import os

from lib.containers import called, of_daemon_set, restarts
from lib.gpu_operator import DEPLOY, GFD, MIG, MPS, NAMESPACE, PLUGIN, PRESENT, TOOLKIT, Node, Operator
from lib.nvidia_objects import apply
from lib.nvidia_world import play
from lib.pods import pod
from lib.report import until
from lib.tranche import sharing

GPU, SHARED = "nvidia.com/gpu", "nvidia.com/gpu.shared"
TOTAL = 143771  # MiB of an H200
CONFIG = "plugin-configs"
PROGRAMS = {PLUGIN: "nvidia-device-plugin", GFD: "gpu-feature-discovery", MPS: "mps-control-daemon"}
SPECS = "/var/run/cdi"


def validated(nvidia, what):
    """The operator's validator: something of its two prefixes, and a pod that asks one unit of any of it, alone."""
    units = nvidia.units()
    nvidia.report.check(f"{what}: the validator finds capacity", bool(units), units)
    for resource in (name for name in units if nvidia.api.amounts(name)[1]):
        said = nvidia.output_of("unit", {resource: 1})
        held = [name for name in said.nodes if name.removeprefix("nvidia").isdigit()]
        library = [path for path in said.mounts if "libcuda.so" in path]
        nvidia.report.check(f"{what}: one unit of {resource} alone is one GPU's node and the driver's library", len(held) == 1 and "nvidiactl" in said.nodes and library, [held, library])


def waits(nvidia):
    """The pods come before toolkit and driver are validated."""
    report = nvidia.report
    os.makedirs("/run/nvidia/validations", exist_ok=True)
    os.makedirs("/etc/kubernetes/node-feature-discovery/features.d", exist_ok=True)
    nvidia.label(**PRESENT)
    apply(nvidia.api, Operator(nvidia.image).objects())
    plugin = until("the plugin's pod", lambda: of_daemon_set(nvidia.api, NAMESPACE, PLUGIN, ready=False))
    until("its init container", lambda: any("running" in s["state"] for s in (of_daemon_set(nvidia.api, NAMESPACE, PLUGIN, ready=False) or plugin)["status"].get("initContainerStatuses", [])))
    Node.toolkit()
    plugin = nvidia.set_pod(PLUGIN)
    until("the script to wait", lambda: "no driver yet" in nvidia.said(plugin, "nvidia-device-plugin"))
    report.check("before driver-ready: the script waits, nothing is advertised", nvidia.units() == {})
    Node.driver()
    nvidia.amounts({GPU: 2}, "driver-ready: the script hands on, two GPUs", 60)
    plugin = nvidia.set_pod(PLUGIN)
    with open(f"/proc/{called(plugin, 'nvidia-device-plugin')}/status") as status:
        ids = next(line.split()[1:] for line in status if line.startswith("NSpid"))
    report.check("the plugin is the first process of its container, under its own name", ids[-1] == "1", ids)
    until("labels", lambda: nvidia.labels().get("nvidia.com/gpu.count") == "2")
    wanted = {"nvidia.com/mps.capable": "false", "nvidia.com/mig.capable": "true", "nvidia.com/mig.strategy": "single", "nvidia.com/gpu.sharing-strategy": "none"}
    report.check("labels by a NodeFeature object, MIG_STRATEGY=single on GPUs that are not cut", wanted.items() <= nvidia.labels().items(), {key: nvidia.labels().get(key) for key in wanted})
    ours = [name for name in os.listdir(SPECS) if name.startswith("k8s.device-plugin.nvidia.com-gpu")]
    report.check("CDI: the specification has NVIDIA's file name", ours == ["k8s.device-plugin.nvidia.com-gpu.json"], ours)
    validated(nvidia, "plain GPUs by CDI")
    said = nvidia.said(nvidia.set_pod(PLUGIN), "nvidia-device-plugin")
    report.check("kubelet is asked who holds what, through the root of the node that the operator mounts", "change.unguarded" not in said and "pod_resources" not in said, [
        line for line in said.splitlines() if "unguarded" in line or "pod_resources" in line][:2])
    with open(f"{TOOLKIT}/calls") as calls:
        report.check("CDI: the toolkit's hook program is called where the operator says it is", "update-ldcache" in calls.read())
    for name in (PLUGIN, GFD):
        again = restarts(nvidia.set_pod(name))
        report.check(f"{PROGRAMS[name]}: at most one restart while it waited", max(again.values()) <= 1, again)


def configured(nvidia):
    """devicePlugin.config: no default, so the empty configuration counts until the node has a label."""
    report = nvidia.report
    mps = sharing("mps", 4).replace("  mps:\n", "  mps:\n    renameByDefault: true\n")
    apply(nvidia.api, [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": CONFIG, "namespace": NAMESPACE}, "data": {
        "mps-four": mps, "slices": sharing("timeSlicing", 3, "flags: {migStrategy: mixed}\n")}}])
    nvidia.choose("slices")
    apply(nvidia.api, Operator(nvidia.image, config=(CONFIG, "")).objects())
    for name in (PLUGIN, GFD):
        until(f"{name} with a sidecar", lambda n=name: len(nvidia.set_pod(n)["spec"]["containers"]) == 2)
    nvidia.amounts({GPU: 6}, "config.name: the label that the node has is in force from the start", 90)
    until("labels", lambda: nvidia.labels().get("nvidia.com/gpu.replicas") == "3")
    report.check("the operator's MIG_STRATEGY beats the file's", nvidia.labels().get("nvidia.com/mig.strategy") == "single", nvidia.labels().get("nvidia.com/mig.strategy"))
    validated(nvidia, "time-slicing")

    nvidia.choose("mps-four")
    nvidia.set_pod(MPS)
    nvidia.amounts({GPU: 0, SHARED: 8}, "labelled mps-four: the MPS pod comes by feature discovery's label, eight slots", 90)
    validated(nvidia, "MPS")
    attached = nvidia.client("tenant", {SHARED: 1})
    report.check("MPS by CDI: a client has a quarter of one GPU's memory", attached["limit"] >> 20 == TOTAL // 4, attached)
    for name in PROGRAMS:
        again = restarts(nvidia.set_pod(name))
        report.check(f"{PROGRAMS[name]}: no container of its pod had to start again", not any(again.values()), again)


def paused(nvidia):
    """What the MIG manager and the driver manager do: labels that take the pods away, which must be gone soon."""
    report = nvidia.report
    nvidia.api.remove("tenant")
    Node.driver(ready=False)
    for name in (PLUGIN, GFD):
        nvidia.kill(name, PROGRAMS[name]) if name == GFD else os.kill(called(nvidia.set_pod(name), PROGRAMS[name]), 9)
    until("the script to wait again", lambda: called(nvidia.set_pod(PLUGIN), PROGRAMS[PLUGIN]) is None)
    Node.driver()
    nvidia.amounts({GPU: 0, SHARED: 8}, "killed, and driver-ready away for a moment: the same slots", 90)
    uids = {name: nvidia.set_pod(name)["metadata"]["uid"] for name in PROGRAMS}
    first = {name: called(nvidia.set_pod(name), program) for name, program in PROGRAMS.items()}
    nvidia.label(**{f"{DEPLOY}device-plugin": "paused-for-mig-change", f"{DEPLOY}gpu-feature-discovery": "paused-for-mig-change"})
    until("the pods to go", lambda: all(nvidia.no_pod(name) for name in PROGRAMS))
    alive = until("their programs to end", lambda: not any(os.path.exists(f"/proc/{pid}") for pid in first.values()) and "ended")
    report.check("paused by label: all three end", alive == "ended")
    servers = [name for name in filter(str.isdigit, os.listdir("/proc")) if b"nvidia-cuda-mps" in open(f"/proc/{name}/cmdline", "rb").read()]
    report.check("paused by label: no MPS daemon or server is left, the compute modes are as before", not servers and "exclusive" not in nvidia.modes().lower(), servers)
    report.check("paused by label: feature discovery's labels stay", nvidia.labels().get("nvidia.com/mps.capable") == "true")
    nvidia.label(**PRESENT)
    for name in PROGRAMS:
        nvidia.set_pod(name, other_than=uids[name])
    nvidia.amounts({GPU: 0, SHARED: 8}, "back by label: the same slots", 90)
    validated(nvidia, "back by label")
    for name in (GFD, PLUGIN, MPS):
        nvidia.ends_soon(name, PROGRAMS[name])


THREE, ONE = "nvidia.com/mig-3g.71gb", "nvidia.com/mig-1g.18gb"
STATE = "nvidia.com/mig.config.state"


def partitioned(nvidia):
    """The DaemonSet nvidia-mig-manager with our image: its label flow, with the operands paused for a change and for no longer.
    Devices go by variable: the table of the nodes that open MIG devices is the kernel's, and no stand-in can put a file there."""
    report = nvidia.report
    nvidia.choose("slices")
    apply(nvidia.api, Operator(nvidia.image, config=(CONFIG, ""), mig="mixed", cdi=False, specs="false").objects())
    nvidia.amounts({GPU: 6, SHARED: 0}, "mig.strategy mixed, MIG off: time-slicing as before", 120)
    apply(nvidia.api, Operator(nvidia.image).mig_objects())
    report.check("no pod of the MIG manager without nvidia.com/gpu.deploy.mig-manager", nvidia.no_pod(MIG))
    nvidia.label(**{f"{DEPLOY}mig-manager": "true"})
    manager = nvidia.set_pod(MIG)
    until("the program", lambda: called(manager, MIG))
    plugin = nvidia.set_pod(PLUGIN)["metadata"]["uid"]

    def ask(name):
        nvidia.label(**{"nvidia.com/mig.config": name})

    def state_is(state, seconds=120):
        return until(f"{STATE}={state}", lambda: nvidia.labels().get(STATE) == state and state, seconds)

    ask("all-3g.71gb")
    paused_label = until("the plugin to be paused", lambda: nvidia.labels().get(f"{DEPLOY}device-plugin") == "paused-for-mig-change")
    report.check("nvidia.com/mig.config=all-3g.71gb: the operands are paused for the change", paused_label, nvidia.labels().get(STATE))
    report.check("nvidia.com/mig.config.state becomes success", state_is("success") == "success")
    nvidia.set_pod(PLUGIN, other_than=plugin)
    nvidia.amounts({THREE: 4, GPU: 0}, "two H200 whose MIG mode was off are nvidia.com/mig-3g.71gb 4", 120)
    back = {key: value for key, value in nvidia.labels().items() if key.startswith(DEPLOY)}
    report.check("the operands' labels are true again", set(back.values()) == {"true"}, back)

    nvidia.api.add(pod("stays", {THREE: 1}))
    nvidia.api.until_phase("stays", "Running")
    before = nvidia.api.pod("stays")["status"]["containerStatuses"][0]
    ask("one-three")
    nvidia.amounts({THREE: 2, ONE: 6}, "a configuration of the ConfigMap: the instance that a pod holds is kept", 120)
    state_is("success")
    after = nvidia.api.pod("stays")["status"]["containerStatuses"][0]
    report.check("the pod on it does not notice", after["containerID"] == before["containerID"] and after["restartCount"] == 0, after["restartCount"])

    plugin = nvidia.set_pod(PLUGIN)["metadata"]["uid"]
    ask("all-1g.18gb")
    state_is("pending")
    until("the wait to be logged", lambda: "pod default/stays" in nvidia.said(nvidia.set_pod(MIG), MIG))
    runs = until("the plugin to run", lambda: nvidia.labels().get(f"{DEPLOY}device-plugin") == "true" and nvidia.labels().get(STATE) == "pending")
    report.check("what a pod holds is waited for, and the plugin goes on meanwhile", runs, {key: value for key, value in nvidia.labels().items() if key in (f"{DEPLOY}device-plugin", STATE)})
    nvidia.api.remove("stays")
    nvidia.amounts({ONE: 14, THREE: 0}, "the pod ends, and the change is made", 120)
    report.check("the state is success again", state_is("success") == "success")
    again = restarts(nvidia.set_pod(MIG))
    report.check("nvidia-mig-manager: no container of its pod had to start again", not any(again.values()), again)


def run(world):
    play(world, "our image where the GPU Operator puts NVIDIA's", NAMESPACE, waits, configured, paused, partitioned)
