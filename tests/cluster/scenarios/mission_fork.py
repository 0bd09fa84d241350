"""Rows M3 of the mission: a fork's setup guide with this repository's scripts, on four RTX 5090 (32,607 MiB): aggregate and individual modes."""

import re

from lib.installation import SOURCE
from lib.machine import NODE
from lib.mission import GPU, SIM, play, tenant
from lib.report import until

SCRIPTS = f"{SOURCE}/scripts"
TOTAL, SMS = 32607, 170
HALF, QUARTER = TOTAL * 10 // 20, TOTAL * 5 // 20


def aggregate(m):
    report = m.report
    said = m.shell(f"{SCRIPTS}/setup.sh", "20", "aggregate", "all", "tranche.io/tranche", "v0.1.0", timeout=200).stdout
    report.check("M3.1 setup.sh REPLICAS MODE all IMAGE TAG: installed on every node that is known to have a GPU", "installed" in said and NODE in said, said.splitlines()[-1:])
    m.check_amounts("M3.2 aggregate, 4 GPUs x 20: nvidia.com/gpu 80", {GPU: 80})
    m.serves()
    pods = m.kubectl("-n", "tranche", "logs", "-l", "app.kubernetes.io/component=mps", "--tail=-1").stdout
    lines = [line for line in pods.splitlines() if "Set device pinned" in line]
    wanted = [f"device={gpu} total_memory_gb=31.84 replicas=20 limit_per_replica_mib=1630" for gpu in range(4)]
    report.check("M3.4 kubectl logs … | grep 'Set device pinned': the guide's own line for each GPU", all(any(want in line for line in lines) for want in wanted), lines[-1:])
    output = m.probe("half", {GPU: 10}, "--find-limit", "--allocate", "14G", "--allocate", "17G")
    granted = [each["granted"] if "granted" in each else not each.get("error") for each in output["allocations"]]
    report.check("M3.2 a pod that asks 10 has 10/20 of one GPU: 14 GiB are granted, 17 GiB (more than 15.9) are not, and half the SMs", granted == [True, False] and output["sms"]["attribute"] <= SMS // 2 + 2
                 and output["memory"]["largestAllocation"] <= HALF << 20, [output["allocations"], output["sms"], output["memory"]])
    m.remove("pod", "half")


def verify(m):
    report = m.report
    done = m.shell(f"{SCRIPTS}/verify-mps-setup.sh", NODE, check=False)
    report.check("M3.5 verify-mps-setup.sh NODE: resources, configuration, daemons and memory of a slot are checked; nothing fails",
                 done.returncode == 0 and "PASS" in done.stdout and "FAIL" not in done.stdout, [done.returncode, done.stderr[-200:], *done.stdout.splitlines()[-4:]])
    again = m.shell(f"{SCRIPTS}/verify-mps-setup.sh", "no-such-node", check=False)
    report.check("M3.5 … of a node that has no agent: status 2, and says so", again.returncode == 2 and "no node agent runs on no-such-node" in again.stderr, again.stderr.strip())


def individual(m):
    report = m.report
    said = m.shell(f"{SCRIPTS}/setup.sh", "20", "individual", NODE, env={"PLUGIN_IMAGE_REPO": "tranche.io/tranche", "PLUGIN_IMAGE_TAG": "v0.1.0"}, timeout=200).stdout
    report.check("M3.1 the same for one node, the image by PLUGIN_IMAGE_REPO and PLUGIN_IMAGE_TAG", "installed" in said, said.splitlines()[-1:])
    m.check_amounts("M3.3 individual: nvidia.com/gpu0 … gpu3, 20 each", {f"{GPU}{gpu}": 20 for gpu in range(4)})
    m.serves()
    # Which GPUs a pod sees is NVIDIA's runtime's to do, by what the resources answered; the stand-in has the variable only, and kubelet keeps one of two.
    uuids = re.findall(r"GPU-[0-9a-f-]+", m.shell(f"{SIM}/sim-node", "show").stdout)[:2]
    both = tenant("both", {f"{GPU}0": 5, f"{GPU}1": 5}, [f"{SIM}/sim-cuda", "--all-devices", "--hold"])
    both["spec"]["containers"][0]["env"].append({"name": "NVIDIA_VISIBLE_DEVICES", "value": ",".join(uuids)})
    m.apply(both)
    m.kubectl("wait", "pod/both", "--for=jsonpath={.status.phase}=Running", "--timeout=60s")
    lines = until("contexts on both GPUs", lambda: len(got := [line for line in m.log("both").splitlines() if '"attached"' in line]) == 2 and got)
    limits = sorted(int(re.search(r'"limit": ?(\d+)', line).group(1)) >> 20 for line in lines)
    report.check("M3.3 a pod that asks gpu0: 5 and gpu1: 5 computes on both, with 5/20 of each", limits == [QUARTER] * 2 and len({re.search(r"GPU-[0-9a-f-]+", line).group(0) for line in lines}) == 2, limits)
    m.remove("pod", "both")


def troubles(m):
    """What the guide's troubleshooting lists, each caused, and the message that names cause and remedy."""
    report = m.report
    m.apply(tenant("pending", {f"{GPU}": 5}, ["tranche", "probe"]))
    why = until("the scheduler's word", lambda: (text := m.events("pending")) and "Insufficient" in text and text)
    report.check("M3.6 a pod stays Pending (it asks nvidia.com/gpu of a node in individual mode): kubectl describe names the resource", f"Insufficient {GPU}" in why, why[:100])
    m.remove("pod", "pending")

    m.kubectl("-n", "tranche", "patch", "configmap", "tranche-configs", "--type=merge", "-p", '{"data": {"individual-gpu-mps": "version: v1\\nsharing:\\n  mps:\\n    failRequestsGreaterThanOne: false\\n"}}')
    condition = until("the condition", lambda: next((c for c in m.api.node()["status"]["conditions"] if c["type"] == "TrancheReady" and c["reason"] == "ConfigRefused"), None))
    report.check("M3.6 `no resources specified`: the node's condition says line and remedy, and what was in force stays", "resources" in condition["message"] and m.api.amounts(f"{GPU}0") == (20, 20), condition["message"])
    done = m.shell(f"{SCRIPTS}/verify-mps-setup.sh", NODE, check=False)
    report.check("M3.6 … and verify fails and says so", done.returncode == 1 and "resources" in done.stdout, [line for line in done.stdout.splitlines() if "FAIL" in line])

    labels = m.labels()
    report.check("M3.6 memory lower than expected: a label states the memory of a slot", labels.get("tranche.io/gpu0.slot.memory") == str(TOTAL // 20), {key: value for key, value in labels.items() if "slot" in key or "memory" in key})

    m.shell(f"{SIM}/sim-node", "driver", "version", "440.33.01", "--cuda", "10020")
    node = {"TRANCHE_SIM_NODE": f"{SIM}/node", "LD_LIBRARY_PATH": f"{SIM}/libraries"}
    old = m.shell(f"{m.world.build}/bin/tranche", "check", "--driver-root", f"{SIM}/driver", env=node, check=False)
    line = [each for each in old.stdout.splitlines() if "440.33" in each and each.startswith("FAIL")]
    report.check("M3.6 an old driver: tranche check on the node names it and what is needed", old.returncode != 0 and line and "install driver 470" in old.stdout, line or old.stdout)
    m.shell(f"{SIM}/sim-node", "driver", "version", "580.159.04", "--cuda", "13000")

    m.kubectl("-n", "tranche", "delete", "daemonset", "tranche-node", "--wait=true")
    until("the agent's pod to be gone", lambda: not m.get("pods", "-n", "tranche", "-l", "app.kubernetes.io/component=node")["items"])
    nothing = m.shell(f"{SCRIPTS}/verify-mps-setup.sh", NODE, check=False)
    outside = m.shell(f"{m.world.build}/bin/tranche", "verify", NODE, "--kubeconfig", m.api.kubeconfig, check=False)
    report.check("M3.6 nothing visible (no agent on the node): both ways of asking name it", nothing.returncode == 2 and "no node agent runs" in nothing.stderr and outside.returncode == 1 and re.search("FAIL +agent.pods", outside.stdout),
                 [nothing.stderr.strip(), outside.stdout])


def run(world):
    play(world, "M3: a fork's setup guide", "RTX-5090", 4, aggregate, verify, individual, troubles)
