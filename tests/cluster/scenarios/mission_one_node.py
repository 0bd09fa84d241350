"""docs/guide/migrate.md, "One node at a time", and docs/guide/install.md, "From one node": a node's own label brings both programs there and takes
them away again, and a second release resets that node alone. There is one node here, so that others stay untouched is not seen; that the first
release stays is."""

from lib.helm import CHART
from lib.installation import Node, uninstalled
from lib.machine import NODE
from lib.mission import FOUR, SHARED, play
from lib.report import until

VALUES = {"config": FOUR, "nodeSelector": {"gpu-stack": "tranche"}}


def pods(m):
    return m.get("pods", "-n", "tranche", "-l", "app.kubernetes.io/name=tranche")["items"]


def there(m):
    m.kubectl("label", "node", NODE, "gpu-stack=tranche", "--overwrite")
    m.amounts({SHARED: 8})
    m.serves()


def back(m):
    m.kubectl("label", "node", NODE, "gpu-stack=none", "--overwrite")
    until("both pods to leave the node", lambda: not pods(m))
    m.shell("helm", "install", "tranche-reset", CHART, "-n", "tranche", "-f", m.machine.path("home/values.json"),
            "--set", "reset.enabled=true", "--set", f"reset.nodes={{{NODE}}}", "--wait", "--wait-for-jobs", "--timeout", "150s", timeout=200)
    m.shell("helm", "uninstall", "tranche-reset", "-n", "tranche", "--wait", "--timeout", "120s", timeout=200)
    until("the job's pod to be gone", lambda: not pods(m))
    m.kubectl("label", "node", NODE, "gpu-stack-")


def one_node(m):
    report = m.report
    m.helm("install", "--wait", "--timeout", "60s", values=VALUES)
    until("the controllers to have seen both sets", lambda: [d["status"].get("observedGeneration") for d in m.get("daemonsets", "-n", "tranche")["items"]] == [1, 1])
    report.check("installed for labelled nodes: no pod comes, the node says nothing of Tranche", not pods(m) and SHARED not in m.get("node", NODE)["status"]["capacity"])
    there(m)
    output = m.probe("first", {SHARED: 1})
    report.check("labelled: both programs come, a pod has its share", output["answers"]["wrong"] == 0 and output["mps"]["connected"], output["sms"])
    m.remove("pod", "first")

    back(m)
    conditions = [c["type"] for c in m.get("node", NODE)["status"]["conditions"]]
    report.check("reset by a second release: the node says nothing of Tranche", "TrancheReady" not in conditions, conditions)
    uninstalled(report, m.before, Node(m.world))
    sets = {d["metadata"]["name"]: d["status"]["desiredNumberScheduled"] for d in m.get("daemonsets", "-n", "tranche")["items"]}
    report.check("the first release is still there, for other nodes", sets == {"tranche-node": 0, "tranche-mps": 0}, sets)

    there(m)
    output = m.probe("again", {SHARED: 1})
    report.check("labelled again: it serves as before", output["answers"]["wrong"] == 0 and output["mps"]["connected"], output["sms"])
    m.remove("pod", "again")


def run(world):
    play(world, "one node there and back", "H200", 2, one_node)
