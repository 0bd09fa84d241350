"""An upgrade as pods with a network of their own see it: the newer agent starts before the older one ends (maxSurge), under running tenants; then
the two commands of docs/guide/install.md that leave the node as it was found. The charts are archives: `helm package` of a version before, and what
scripts/release writes."""

import importlib.machinery
import importlib.util
import json

from lib.helm import CHART
from lib.installation import SOURCE, Node, uninstalled
from lib.machine import NODE
from lib.mission import FOUR, SHARED, play
from lib.report import until
from lib.watching import Meanwhile

KINDS = ("daemonsets", "configmaps", "serviceaccounts", "services", "clusterroles", "clusterrolebindings", "validatingadmissionpolicies")


class Rollout(Meanwhile):
    """How many agents there are at once during a rollout."""

    def __init__(self, m):
        super().__init__(self.count)
        self.m, self.most, self.least = m, 0, 1 << 30

    def count(self):
        status, listed = self.m.api.call("GET", "/api/v1/namespaces/tranche/pods?labelSelector=app.kubernetes.io/component=node")
        if status == 200:
            running = [p for p in listed["items"] if p["status"].get("phase") == "Running"]
            self.most, self.least = max(self.most, len(running)), min(self.least, len(running))
        return True


def containers(m):
    return sorted((p["metadata"]["name"], s["containerID"], s["restartCount"]) for p in m.get("pods")["items"] for s in p["status"]["containerStatuses"])


def clients(m):
    return sorted(pid for pool in m.world.tranche.status("/run/nvidia/mps/mps.sock")["pools"] for endpoint in pool["endpoints"] for pid in endpoint["clients"])


def released(m):
    """The chart's archive as a release has it."""
    loader = importlib.machinery.SourceFileLoader("release", f"{SOURCE}/scripts/release")
    release = importlib.util.module_from_spec(importlib.util.spec_from_loader("release", loader))
    loader.exec_module(release)
    path = m.machine.path("tranche.tgz")
    with open(path, "wb") as file:
        file.write(release.chart_package(0))
    return path


def upgrade(m):
    world, report = m.world, m.report
    before = m.before
    m.shell("helm", "package", CHART, "--version", "0.0.9", "-d", m.machine.path(""))
    m.helm.chart = m.machine.path("tranche-0.0.9.tgz")
    m.install(config=FOUR)
    m.amounts({SHARED: 8})
    m.serves()
    m.start_workload()
    until("seven clients", lambda: len(clients(m)) == 7)
    held, running = containers(m), clients(m)
    daemons = sorted(pool["daemonPid"] for pool in m.world.tranche.status("/run/nvidia/mps/mps.sock")["pools"])

    newer = f"{m.image.rpartition(':')[0]}:v0.1.0-newer"
    world.runtime.ctr("images", "tag", m.image, newer)
    m.helm.chart = released(m)
    with Rollout(m) as seen:
        m.helm("upgrade", "--wait", "--timeout", "120s", values={"config": FOUR, "image": {"tag": "v0.1.0-newer"}})
        m.kubectl("-n", "tranche", "rollout", "status", "daemonset/tranche-node", "--timeout=120s")
        until("one agent, the newer", lambda: [p["spec"]["containers"][0]["image"] for p in m.get("pods", "-n", "tranche", "-l", "app.kubernetes.io/component=node")["items"]] == [newer])
        m.amounts({SHARED: 8})
    listed = json.loads(m.shell("helm", "list", "-n", "tranche", "-o", "json").stdout)
    report.check("the archive of a release upgrades what the chart of a version before installed", [(r["chart"], r["revision"], r["status"]) for r in listed] == [("tranche-0.1.0", "2", "deployed")], listed)
    report.check("surge: the newer agent runs before the older one ends, and there always is one", seen.most == 2 and seen.least >= 1, [seen.most, seen.least])
    report.check("upgraded under seven tenants: the same containers, the same clients, the same daemons", held == containers(m) and running == clients(m)
                 and daemons == sorted(pool["daemonPid"] for pool in m.world.tranche.status("/run/nvidia/mps/mps.sock")["pools"]), running)
    output = m.probe("newcomer", {SHARED: 1})
    report.check("upgraded: a new tenant gets its share from the newer agent", output["answers"]["wrong"] == 0 and output["mps"]["connected"], output["sms"])

    m.remove("pod", "newcomer")
    m.end_workload()
    m.helm("upgrade", "--reuse-values", "--set", "reset.enabled=true", "--wait", "--wait-for-jobs", "--timeout", "150s")
    m.helm("uninstall", "--wait", "--timeout", "120s")
    until("the pods to be gone", lambda: not m.get("pods", "-n", "tranche")["items"])
    uninstalled(report, before, Node(world))
    kept = [kind for kind in KINDS for item in m.get(kind, "-n", "tranche")["items"] if item["metadata"]["name"].startswith("tranche")]
    conditions = [c["type"] for c in m.get("node", NODE)["status"]["conditions"]]
    report.check("uninstalled: no object of the release, and the node says nothing of Tranche", not kept and "TrancheReady" not in conditions, [kept, conditions])


def run(world):
    play(world, "upgrade and uninstall, with a network for pods", "H200", 2, upgrade)
