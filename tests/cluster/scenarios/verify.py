"""`tranche verify` and `tranche reset` with a real API server and kubelet: a working node passes, from outside and here; a pod that poses as
the agent is not believed; a pod keeps reset away; afterwards the Node has nothing of ours."""

import json
import os
import subprocess

from lib import uvm
from lib.machine import NODE
from lib.pods import cuda, pod
from lib.report import until
from lib.tranche import CONFIG, sharing

GPU = "nvidia.com/gpu"
PLACES = ["--config-file", CONFIG]


def run(world):
    report, tranche, api = world.report, world.tranche, world.control_plane
    report.start("verify and reset")
    world.start_cluster()
    tranche.make_gpus(2)
    tranche.configure(sharing("mps", 4))
    before = set(api.node()["metadata"].get("labels", {}))
    program = f"{tranche.build}/bin/tranche"
    cluster = ["--kubeconfig", api.kubeconfig]
    tranche.start_mps()
    report.check("the keeper sees the stand-in of the nvidia-uvm device", uvm.show(os.getpid()))
    tranche.start_node([program, "node", "--config-file", CONFIG, *cluster, "--node-name", NODE, "--label-output", "node", "--listen", ":9400"])
    tranche.until_serves(8)
    until("eight slots", lambda: api.amounts() == (8, 8))

    def conditions():
        return {c["type"]: c for c in api.node().get("status", {}).get("conditions", [])}

    until("the condition", lambda: conditions().get("TrancheReady", {}).get("reason") == "Serving")
    until("the labels", lambda: "nvidia.com/gpu.count" in api.node()["metadata"]["labels"])

    def tranche_says(*words):
        return subprocess.run([program, *words], env=tranche.env, capture_output=True, text=True, timeout=120)

    def verify(*words):
        done = tranche_says("verify", "--json", *words)
        checks = json.loads(done.stdout)["checks"] if done.stdout.startswith("{") else []
        return done, {f"{c['id']} {c['about']}".strip(): c for c in checks}

    # Pods in the place of the agent's: the status page is asked for at their address, which is the node's.
    labels = {"app.kubernetes.io/name": "tranche"}
    api.namespace("tranche")
    pods = "/api/v1/namespaces/tranche/pods"

    def ours():
        status, listed = api.call("GET", pods)
        return listed["items"] if status == 200 else []

    def ready(name):
        return any(c["type"] == "Ready" and c["status"] == "True" for p in ours() if p["metadata"]["name"].startswith(name) for c in p["status"].get("conditions", []))

    bare = pod("agent", None, ["sleep", "100000"])
    bare["metadata"]["labels"] = labels
    api.add(bare)
    api.until_phase("agent", "Running")
    done, checks = verify(NODE, "--deep", *cluster)
    report.check("from outside: a bare pod of another namespace is not believed", done.returncode == 1 and "has no node agents" in checks.get("agent.pods tranche", {}).get("what", "")
                 and not any(name.startswith("agent.ready") for name in checks), [done.returncode, checks.get("agent.pods tranche"), done.stderr[-300:]])
    bare["metadata"]["namespace"] = "tranche"
    bare["spec"]["serviceAccountName"] = "tranche-node"
    api.create(pods, bare)
    until("the bare pod to be ready", lambda: ready("agent"))
    done, checks = verify(NODE, *cluster)
    report.check("from outside: a bare pod of the agents' namespace is not believed", done.returncode == 1 and "no DaemonSet" in checks.get("agent.pods tranche/agent", {}).get("what", "")
                 and not any(name.startswith("agent.ready") for name in checks), [done.returncode, checks.get("agent.pods tranche/agent"), done.stderr[-300:]])
    api.call("DELETE", f"{pods}/agent", {"gracePeriodSeconds": 0})
    until("the bare pod to be gone", lambda: not ours())

    body = pod("agent", None, ["sleep", "100000"], restart="Always")["spec"]
    body["serviceAccountName"] = "tranche-node"
    body["containers"][0]["ports"] = [{"name": "metrics", "containerPort": 9400, "hostPort": 9400}]
    api.create("/apis/apps/v1/namespaces/tranche/daemonsets", {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "tranche-node"},
                                                               "spec": {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": body}}})
    until("the agent's pod to be ready", lambda: ready("tranche-node-"))
    name = ours()[0]["metadata"]["name"]

    done, checks = verify(NODE, *cluster)
    failed = {name: c["what"] for name, c in checks.items() if c["verdict"] == "FAIL"}
    report.check("from outside: nothing fails", done.returncode == 0 and not failed, [done.returncode, failed, done.stderr[-300:]])
    wanted = ("node.ready", "node.condition", f"node.resources {GPU}", "node.labels", f"agent.pods tranche/{name}")
    report.check("from outside: conditions, resources, labels and pods pass", all(checks.get(name, {}).get("verdict") == "PASS" for name in wanted),
                 {name: checks.get(name) for name in wanted})
    report.check("from outside: the agent's status page through the API server", checks.get("agent.ready", {}).get("verdict") == "PASS", checks.get("agent.ready"))

    done, checks = verify("--local", *PLACES)
    failed = {name: c["what"] for name, c in checks.items() if c["verdict"] == "FAIL"}
    report.check("here: nothing fails", done.returncode == 0 and not failed, [done.returncode, failed, done.stderr[-300:]])

    api.add(pod("tenant", {GPU: 1}, cuda("--allocate", "1G", "--hold")))
    api.until_phase("tenant", "Running")
    done, checks = verify("--local", "--deep", *PLACES)
    deep = {name: c["what"] for name, c in checks.items() if name.startswith("deep") and c["verdict"] != "PASS"}
    report.check("deep, beside a running pod: every check on both GPUs passes",
                 sum(name.startswith("deep.") for name in checks) >= 20 and set(name.split()[0] for name in deep) <= {"deep.other-user"}, [done.returncode, deep])

    places = [*PLACES, *cluster, "--node-name", NODE]
    done = tranche_says("reset", *places)
    report.check("reset while the agent runs is refused", done.returncode == 1 and "tranche node runs here" in done.stderr, done.stderr)
    tranche.node.stop()
    done = tranche_says("reset", *places)
    report.check("reset while a pod holds a GPU is refused, and names it", done.returncode == 1 and "default/tenant" in done.stderr, done.stderr)
    api.remove("tenant")
    until("its client to have ended", lambda: not any(endpoint["clients"] for pool in tranche.status("/run/nvidia/mps/mps.sock")["pools"] for endpoint in pool["endpoints"]))
    done = tranche_says("reset", *places)
    report.check("reset", done.returncode == 0, [done.stdout, done.stderr])
    left = {label for label in api.node()["metadata"].get("labels", {}) if label not in before}
    report.check("no label, no annotation and no condition of ours is left on the Node",
                 not left and "TrancheReady" not in conditions() and "tranche.io/labels" not in api.node()["metadata"].get("annotations", {}), [left, list(conditions())])
    report.check("the other conditions of the Node are there", {"Ready", "MemoryPressure", "DiskPressure"} <= set(conditions()), list(conditions()))
    done = tranche_says("reset", *places)
    report.check("reset again finds nothing", done.returncode == 0 and "nothing of ours is left" in done.stdout, [done.stdout, done.stderr])
    uvm.hide(os.getpid())
