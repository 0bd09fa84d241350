"""Rows M4.2, M4.3 and the MIG half of M2.6: A100 partitioned by the node's label, under the strategies single and mixed, plain and time-sliced, with kubectl."""

import json
import re

from lib.machine import NODE
from lib.mission import AGENT, GPU, SIM, play, tools
from lib.report import until

PLAIN = "version: v1\n"
CONFIGS = {
    "single": f"{PLAIN}flags: {{migStrategy: single}}\n",
    "single-shared": f"{PLAIN}flags: {{migStrategy: single}}\nsharing:\n  timeSlicing:\n    resources:\n    - {{name: nvidia.com/gpu, replicas: 2}}\n",
    "mixed": f"{PLAIN}flags: {{migStrategy: mixed}}\n",
    "mixed-shared": f"{PLAIN}flags: {{migStrategy: mixed}}\nsharing:\n  timeSlicing:\n    resources:\n    - {{name: nvidia.com/mig-1g.5gb, replicas: 2}}\n",
}
MIXED = ["3g.20gb", "2g.10gb", "1g.5gb", "1g.5gb"]


def single(m):
    report = m.report
    for gpu in ("0", "1"):
        m.shell(f"{SIM}/sim-node", "gpu", gpu, "mig", *["1g.5gb"] * 7)
    m.install(config={"map": CONFIGS, "default": "single"})
    m.check_amounts("M4.3 single: two A100 of seven 1g.5gb each are nvidia.com/gpu 14", {GPU: 14})
    wanted = {"nvidia.com/mig.capable": "true", "nvidia.com/mig.strategy": "single", "nvidia.com/gpu.product": "NVIDIA-A100-PCIE-40GB-MIG-1g.5gb", "nvidia.com/gpu.count": "14",
              "nvidia.com/gpu.memory": "4864", "nvidia.com/gpu.multiprocessors": "14", "nvidia.com/gpu.slices.gi": "1", "nvidia.com/gpu.slices.ci": "1"}
    report.check("M4.2 labels of the MIG devices: strategy, profile, memory, slices, count", bool(m.label_is(wanted)), wanted)
    offered = {p["profile"]: (p["memoryBytes"] >> 20, p["slices"], p["atMost"]) for p in json.loads(m.kubectl(*AGENT, "mig", "profiles", "--driver-root", "/driver-root", "--json").stdout)[0]["profiles"]}
    wanted = {"1g.5gb": (4864, 1, 7), "1g.5gb+me": (4864, 1, 1), "1g.10gb": (9856, 1, 4), "2g.10gb": (9856, 2, 3), "3g.20gb": (19968, 3, 2), "4g.20gb": (19968, 4, 1), "7g.40gb": (40192, 7, 1)}
    report.check("M4.2 `tranche mig profiles`: which profiles the GPU offers, with memory, slices and counts", offered == wanted, offered)
    m.choose("single-shared", {GPU: 28})
    shared = {"nvidia.com/gpu.product": "NVIDIA-A100-PCIE-40GB-MIG-1g.5gb-SHARED", "nvidia.com/gpu.replicas": "2", "nvidia.com/gpu.sharing-strategy": "time-slicing"}
    report.check("M2.6 M4.3 single and shared: …-MIG-1g.5gb-SHARED, twice as many", bool(m.label_is(shared)), shared)


def mixed(m):
    report = m.report
    for gpu in ("0", "1"):
        m.shell(f"{SIM}/sim-node", "gpu", gpu, "mig", *MIXED)
    m.kubectl("label", "node", NODE, "nvidia.com/device-plugin.config=mixed", "--overwrite")
    m.check_amounts("M4.3 mixed: a resource for each profile; the devices were cut anew under a running agent", {"nvidia.com/mig-3g.20gb": 2, "nvidia.com/mig-2g.10gb": 2, "nvidia.com/mig-1g.5gb": 4})
    wanted = {"nvidia.com/mig.strategy": "mixed", "nvidia.com/mig-3g.20gb.count": "2", "nvidia.com/mig-3g.20gb.memory": "19968", "nvidia.com/mig-3g.20gb.slices.gi": "3", "nvidia.com/mig-2g.10gb.count": "2",
              "nvidia.com/mig-1g.5gb.count": "4", "nvidia.com/mig-1g.5gb.replicas": "1"}
    report.check("M4.2 labels for each profile: count, memory, slices", bool(m.label_is(wanted)), wanted)

    shown = m.shell(f"{SIM}/sim-node", "show").stdout
    devices, threes = set(re.findall(r"MIG-[0-9a-f-]{36}", shown)), re.findall(r"3g\.20gb\s+(MIG-[0-9a-f-]{36})", shown)
    m.apply(tools("three", {"nvidia.com/mig-3g.20gb": 1}, "echo visible=$NVIDIA_VISIBLE_DEVICES; sleep 1000"))
    m.kubectl("wait", "pod/three", "--for=jsonpath={.status.phase}=Running", "--timeout=60s")
    text = until("it to print", lambda: (text := m.log("three")) and "visible=" in text and text)
    seen = re.search(r"visible=(\S+)", text).group(1)
    report.check("M4.3 a pod that asks nvidia.com/mig-3g.20gb: 1 is given exactly one device, of that profile", seen in threes and len(threes) == 2 and len(devices) == 8, [seen, threes])
    m.apply(tools("too-many", {"nvidia.com/mig-3g.20gb": 2}, "sleep 1000"))
    why = until("the scheduler's word", lambda: (text := m.events("too-many")) and "Insufficient" in text and text)
    report.check("M4.3 one that asks for two while one is held waits", "nvidia.com/mig-3g.20gb" in why, why[:80])
    m.remove("pod", "three", "too-many")
    m.choose("mixed-shared", {"nvidia.com/mig-1g.5gb": 8, "nvidia.com/mig-3g.20gb": 2, "nvidia.com/mig-2g.10gb": 2})
    shared = {"nvidia.com/mig-1g.5gb.replicas": "2", "nvidia.com/mig-1g.5gb.product": "NVIDIA-A100-PCIE-40GB-MIG-1g.5gb-SHARED", "nvidia.com/mig-3g.20gb.replicas": "1"}
    report.check("M4.3 mixed, nvidia.com/mig-1g.5gb time-sliced by two: eight of them, the other profiles as they were", bool(m.label_is(shared)), shared)


CUTS = """version: v1
mig-configs:
  one-three:
  - devices: all
    mig-enabled: true
    mig-devices: {3g.20gb: 1, 1g.5gb: 3}
"""
MIG_LABEL, MIG_STATE = "nvidia.com/mig.config", "nvidia.com/mig.config.state"
THREE = "nvidia.com/mig-3g.20gb"


def managed(m):
    """As the OpenShift guide does it: the node is labelled, its state read, and the resources are there. MIG is off before."""
    report = m.report
    for gpu in ("0", "1"):
        m.shell(f"{SIM}/sim-node", "gpu", gpu, "mig", "off")
    m.apply(m.config_map("cuts", {"config.yaml": CUTS}))
    m.helm("upgrade", "--wait", "--timeout", "120s", values={"config": {"map": CONFIGS, "default": "mixed"}, "mig": {"manager": {"enabled": True, "configMap": "cuts"}}})
    m.kubectl("label", "node", NODE, "nvidia.com/device-plugin.config-", "--overwrite")

    def ask(name, state="success"):
        m.kubectl("label", "node", NODE, f"{MIG_LABEL}={name}", "--overwrite")
        return m.label_is({MIG_STATE: state})

    report.check("M4.2 nvidia.com/mig.config=all-3g.20gb: nvidia.com/mig.config.state is success", bool(ask("all-3g.20gb")), MIG_STATE)
    m.check_amounts("M4.2 two A100 whose MIG mode was off are nvidia.com/mig-3g.20gb 4", {THREE: 4})
    report.check("M4.2 the node's labels count them", bool(m.label_is({f"{THREE}.count": "4", "nvidia.com/mig.strategy": "mixed"})), f"{THREE}.count")

    m.apply(tools("stays", {THREE: 1}, "echo visible=$NVIDIA_VISIBLE_DEVICES; sleep 1000"))
    m.kubectl("wait", "pod/stays", "--for=jsonpath={.status.phase}=Running", "--timeout=60s")
    uuid = re.search(r"visible=(\S+)", until("it to print", lambda: (text := m.log("stays")) and "visible=" in text and text)).group(1)
    before = m.get("pod", "stays")["status"]["containerStatuses"][0]
    ask("one-three", "success")
    m.check_amounts("M4.2 a configuration of a ConfigMap: the 3g.20gb that a pod holds is kept, the others make room", {THREE: 2, "nvidia.com/mig-1g.5gb": 6})
    after = m.get("pod", "stays")["status"]["containerStatuses"][0]
    shown = m.shell(f"{SIM}/sim-node", "show").stdout
    report.check("M4.2 the pod on the kept instance does not notice: the same container, the same MIG device", after == before and uuid in shown, [after["restartCount"], uuid])

    m.kubectl("label", "node", NODE, f"{MIG_LABEL}=all-1g.5gb", "--overwrite")
    wait = until("the wait to be reported", lambda: next((c for c in m.get("node", NODE)["status"]["conditions"] if c["type"] == "TrancheMigReady" and c["reason"] == "Waiting"), None))
    report.check("M4.2 what the pod holds is waited for: pending, and the condition names the pod", "pod default/stays" in wait["message"] and m.labels().get(MIG_STATE) == "pending", wait["message"])
    m.remove("pod", "stays")
    m.check_amounts("M4.2 the pod ends, and the change is made", {"nvidia.com/mig-1g.5gb": 14})
    report.check("M4.2 the state is success again", bool(m.label_is({MIG_STATE: "success"})), MIG_STATE)
    def reasons():
        return {e["reason"] for e in m.get("events", "-n", "default", "--field-selector", f"involvedObject.name={NODE}")["items"]}
    report.check("M4.2 events on the node: MigChanged, MigWaiting", bool(until("the events", lambda: {"MigChanged", "MigWaiting"} <= reasons())), "MigChanged, MigWaiting")
    m.kubectl("label", "node", NODE, f"{MIG_LABEL}-", f"{MIG_STATE}-")


def run(world):
    play(world, "M4: MIG", "A100-PCIE-40GB", 2, single, mixed, managed)
