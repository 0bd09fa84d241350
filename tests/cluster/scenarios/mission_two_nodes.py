"""A cluster of two nodes with different GPUs: what is asked of one node changes that node only, a newer version comes to one node after the other under
running tenants, the scheduler fills both nodes, and one node goes on while the other is down."""

import os
import signal
import urllib.request

from lib import own_node
from lib.installation import SOURCE, has_gpus
from lib.machine import FIRST, SECOND
from lib.mission import GPU, LABEL, SHARED, Mission, programs, tools
from lib.pods import CLIENT
from lib.report import Failed, until
from lib.watching import Meanwhile

from .mission_operator import mps

MPS = "/run/nvidia/mps/mps.sock"
INDIVIDUAL = mps(2, "    failRequestsGreaterThanOne: false\n") + "      names: gpu%d\n"
CONFIGS = {"mps-two": mps(2, rename=True), "mps-four": mps(4, rename=True), "individual": INDIVIDUAL}
ROLLING = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1}}
VALUES = {"config": {"map": CONFIGS, "default": "mps-two"}, "updateStrategy": ROLLING, "mps": {"daemonHome": "host", "updateStrategy": ROLLING}}
COMPONENTS = ("node", "mps")
NAMES = [FIRST.name, SECOND.name]
SELECTOR = "kubernetes.io/hostname"


def conditions(pod):
    return {c["type"]: c["status"] for c in pod["status"].get("conditions", [])}


class Both:
    """The two nodes by name: what the cluster, and each node's own programs, say of each."""

    def __init__(self, m, second):
        self.m, self.api, self.report, self.second = m, m.api, m.report, second
        self.go_on = m.world.go_on
        self.tranche = {FIRST.name: m.world.tranche, SECOND.name: second.tranche}

    def ours(self, component):
        """The pods of a DaemonSet, by node; those that end are left out."""
        status, listed = self.api.call("GET", f"/api/v1/namespaces/tranche/pods?labelSelector=app.kubernetes.io/component={component}")
        if status != 200:
            raise Failed(f"pods of tranche-{component}: {status} {listed}")
        return {p["spec"]["nodeName"]: p for p in listed["items"] if p["spec"].get("nodeName") and not p["metadata"].get("deletionTimestamp")}

    def identity(self, node):
        """What changes when a program of the node is replaced or begins again."""
        found = []
        for component in COMPONENTS:
            pod = self.ours(component)[node]
            state = pod["status"]["containerStatuses"][0]
            found.append((pod["metadata"]["uid"], state["containerID"], state["restartCount"], state["state"]["running"]["startedAt"]))
        status = self.tranche[node].status(MPS)
        return [*found, status["pid"], sorted(p["daemonPid"] for p in status["pools"])]

    def labels(self, node):
        return {key: value for key, value in self.api.node(node)["metadata"]["labels"].items() if key.startswith(("nvidia.com/", "tranche.io/"))}

    def check_amounts(self, what, wanted, seconds=120):
        """wanted: capacity and allocatable by node and resource."""
        def seen():
            return {node: {name: self.api.amounts(name, node) for name in resources} for node, resources in wanted.items()}
        both = {node: {name: (count, count) for name, count in resources.items()} for node, resources in wanted.items()}
        self.report.comes(what, lambda: seen() == both, seen, seconds)

    def serve(self, name, node, seconds=120):
        """The named configuration is in force in both programs of the node, and every pool serves."""
        def served():
            agent, owner = self.tranche[node].status(), self.tranche[node].status(MPS)
            return (agent.get("config", {}).get("name") == owner.get("config", {}).get("name") == name and not agent.get("change", {}).get("waitingFor")
                    and owner.get("pools") and all(p["state"] == "serving" for p in owner["pools"]))
        until(f"{name} to be in force on {node}", served, seconds)

    def clients(self, node):
        return sorted(pid for pool in self.tranche[node].status(MPS)["pools"] for endpoint in pool["endpoints"] for pid in endpoint["clients"])

    def metrics(self, node):
        """Lines of the agent's page, over the pods' network, that change only when the agent begins again or its resources change."""
        address = self.ours("node")[node]["status"]["podIP"]
        with urllib.request.urlopen(f"http://{address}:9400/metrics", timeout=10) as answer:
            page = answer.read().decode()
        return sorted(line for line in page.splitlines() if line.startswith(("tranche_slots{", "tranche_registrations_total", "tranche_config_in_force", "tranche_grants_total")))

    # --- tenants --------------------------------------------------------------------------------------------------------
    def tenant(self, name, limits, node=None):
        """A pod whose CUDA process computes once a second; where it runs, once its process has attached."""
        pod = tools(name, limits, "exec " + " ".join(CLIENT))
        if node:
            pod["spec"]["nodeSelector"] = {SELECTOR: node}
        self.api.add({**pod, "metadata": {"name": name, "namespace": "default"}})
        seen = self.m.world.attached(name)
        return self.api.pod(name)["spec"]["nodeName"], seen

    def filler(self, name, limits):
        self.api.add({**tools(name, limits, "exec sleep 100000"), "metadata": {"name": name, "namespace": "default", "labels": {"app": "filler"}}})

    def fillers(self):
        """Names of running ones by node, and of those that wait."""
        pods = self.api.pods("app=filler")
        running = {node: [p["metadata"]["name"] for p in pods if p["status"].get("phase") == "Running" and p["spec"].get("nodeName") == node] for node in NAMES}
        return running, [p["metadata"]["name"] for p in pods if not p["spec"].get("nodeName")]


def installed(both):
    m, report = both.m, both.report
    m.install(**VALUES)
    for component in COMPONENTS:
        report.check(f"installed: a pod of tranche-{component} is ready on each node", sorted(n for n, p in both.ours(component).items() if conditions(p).get("Ready") == "True") == sorted(NAMES))
    both.check_amounts("each node advertises the slots of its own GPUs, two H200 and one T4", {FIRST.name: {GPU: 0, SHARED: 4}, SECOND.name: {GPU: 0, SHARED: 2}})
    for node in NAMES:
        both.serve("mps-two", node)
    wanted = {FIRST.name: ("NVIDIA-H200", "2"), SECOND.name: ("Tesla-T4", "1")}
    def seen():
        return {node: tuple(both.labels(node).get(f"nvidia.com/gpu.{key}") for key in ("product", "count")) for node in NAMES}
    until("labels of both nodes", lambda: seen() == wanted)
    report.check("each node is labelled with its own GPUs", True, seen())
    gpus = [sorted(pool["id"] for pool in both.tranche[node].status(MPS)["pools"]) for node in NAMES]
    report.check("each node's daemons serve that node's GPUs", [len(ids) for ids in gpus] == [2, 1] and not set(gpus[0]) & set(gpus[1]), gpus)


def one_only(both):
    report, api = both.report, both.api
    both.tenant("resident", {SHARED: 1}, FIRST.name)
    until("the tenant's slot on the page", lambda: any(line.startswith("tranche_grants_total") and not line.endswith(" 0") for line in both.metrics(FIRST.name)))
    programs_before, labels, page, config = both.identity(FIRST.name), both.labels(FIRST.name), both.metrics(FIRST.name), both.tranche[FIRST.name].status()["config"]
    other = both.identity(SECOND.name)[:2]

    def steady():
        status = api.node(FIRST.name).get("status")
        return not status or [status[key].get(SHARED) for key in ("capacity", "allocatable")] == ["4", "4"]

    with Meanwhile(steady) as seen:
        both.m.kubectl("label", "node", SECOND.name, f"{LABEL}=mps-four")
        both.check_amounts("M2.2 one node is labelled mps-four: it has four slots a GPU", {SECOND.name: {GPU: 0, SHARED: 4}})
        both.serve("mps-four", SECOND.name)
        until("its labels", lambda: both.labels(SECOND.name).get("nvidia.com/gpu.replicas") == "4")
        report.check("M2.2 and its labels say so", True, both.labels(SECOND.name)["nvidia.com/gpu.replicas"])
        both.go_on("M2.2 the other node's tenant goes on", "resident")
        after = both.identity(FIRST.name)
        report.check("M2.2 the other node: the same pods and containers, processes and daemons", after == programs_before, after[2:])
        both.m.kubectl("label", "node", SECOND.name, f"{LABEL}-")
        both.check_amounts("M2.2 the label is taken away: the default again", {SECOND.name: {GPU: 0, SHARED: 2}})
        both.serve("mps-two", SECOND.name)
    report.check("M2.2 the other node: never other amounts, the same labels, configuration and metrics", seen.longest == 0 and both.labels(FIRST.name) == labels
                 and both.metrics(FIRST.name) == page and both.tranche[FIRST.name].status()["config"] == config, f"{len(page)} lines")
    report.check("M2.2 no pod of ours was restarted on the labelled node either", both.identity(SECOND.name)[:2] == other)


def token_of_one(both):
    """The policies of the chart, and the one on evictions, asked with the token of the first node's agent."""
    api, rights = both.api, "/apis/rbac.authorization.k8s.io/v1"
    agent = both.ours("node")[FIRST.name]["metadata"]
    token = own_node.token_of(api, name=agent["name"], uid=agent["uid"])
    own_node.nodes(api, both.report, token, FIRST.name, SECOND.name)
    role = {"metadata": {"name": "tests-evict"}, "rules": [{"apiGroups": [""], "resources": ["pods/eviction"], "verbs": ["create"]}]}
    api.create(f"{rights}/clusterroles", role)
    api.create(f"{rights}/clusterrolebindings", {"metadata": role["metadata"], "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "tests-evict"},
                                                 "subjects": [{"kind": "ServiceAccount", "name": "tranche-node", "namespace": "tranche"}]})
    api.create_file(f"{SOURCE}/deploy/admission/own-pods.yaml")
    both.tenant("other", {SHARED: 1}, SECOND.name)
    own_node.evictions(api, both.report, token, api.pod("resident"), api.pod("other"))
    api.remove("other")


class Rollout(Meanwhile):
    """How many nodes at once, at most, have no ready pod of a DaemonSet, and the order in which newer pods are ready."""

    def __init__(self, both, image):
        super().__init__(self.look_at)
        self.both, self.image = both, image
        self.most, self.order = dict.fromkeys(COMPONENTS, 0), {component: [] for component in COMPONENTS}

    def look_at(self):
        for component in COMPONENTS:
            try:
                up = {node: p for node, p in self.both.ours(component).items() if conditions(p).get("Ready") == "True"}
            except Failed:  # no answer says nothing of the pods
                continue
            self.most[component] = max(self.most[component], len(NAMES) - len(up))
            for node, pod in up.items():
                if pod["spec"]["containers"][0]["image"] == self.image and node not in self.order[component]:
                    self.order[component].append(node)
        return True


def rolled(both, image):
    m, report = both.m, both.report
    both.tenant("guest", {SHARED: 1}, SECOND.name)
    before, newer = {node: both.identity(node) for node in NAMES}, f"{image.rpartition(':')[0]}:v0.1.0-newer"
    for node in (m.world, both.second):
        node.runtime.ctr("images", "tag", image, newer)
    with Rollout(both, newer) as seen:
        m.helm("upgrade", "--wait", "--timeout", "180s", values={**VALUES, "image": {"tag": "v0.1.0-newer"}})
        for component in COMPONENTS:
            m.kubectl("-n", "tranche", "rollout", "status", f"daemonset/tranche-{component}", "--timeout=120s")
        until("the order to be seen", lambda: all(len(order) == 2 for order in seen.order.values()))
    for component in COMPONENTS:
        report.check(f"rolling update: tranche-{component} is replaced on one node after the other", seen.most[component] == 1, [seen.most[component], seen.order[component]])
    for node in NAMES:
        both.serve("mps-two", node)
    after = {node: both.identity(node) for node in NAMES}
    report.check("rolling update: both programs of each node are newer, the daemons are the same",
                 all(after[node][-1] == before[node][-1] and not {p[0] for p in after[node][:2]} & {p[0] for p in before[node][:2]} for node in NAMES), [ids[-1] for ids in after.values()])
    both.go_on("rolling update: a tenant on each node keeps its GPU throughout", "resident", "guest")
    both.check_amounts("rolling update: the same slots", {FIRST.name: {SHARED: 4}, SECOND.name: {SHARED: 2}})


def owner_is_killed(both):
    tranche, node = both.m.world.tranche, FIRST.name
    before = tranche.status(MPS)
    os.kill(before["pid"], signal.SIGKILL)
    until("tranche mps to be there again", lambda: tranche.status(MPS).get("pid", before["pid"]) != before["pid"])
    both.serve("mps-two", node)
    daemons = [sorted(pool["daemonPid"] for pool in status["pools"]) for status in (before, tranche.status(MPS))]
    both.report.check("tranche mps of a node is killed: the daemons, which live in the host, are the same",
                      daemons[0] == daemons[1] and all(daemons[1]), daemons)
    both.go_on("tranche mps of a node is killed: the tenants go on", "resident", "guest")
    both.tenant("next", {SHARED: 1}, node)
    both.report.check("tranche mps of a node is killed: a new tenant comes in", True)
    both.api.remove("next")


def spread(both):
    report, api = both.report, both.api
    for number in range(5):  # beside a tenant on each node: 3 + 1 slots are free, and no single node has four
        both.filler(f"filler-{number}", {SHARED: 1})
    until("both nodes to be full", lambda: sum(map(len, both.fillers()[0].values())) == 4)
    until("the scheduler to say why the fifth waits", lambda: any(c.get("reason") == "Unschedulable" for p in api.pods("app=filler") for c in p["status"].get("conditions", [])))
    running, waiting = both.fillers()
    report.check("as many slots as both nodes have: each pod is admitted on the node that has room, one more waits",
                 [len(running[node]) for node in NAMES] == [3, 1] and len(waiting) == 1, [running, waiting])
    gone = running[SECOND.name][0]
    api.remove(gone)
    until("the waiting pod to run", lambda: waiting == both.fillers()[0][SECOND.name])
    report.check("a slot of one node is given back: the waiting pod runs there", both.fillers()[0][FIRST.name] == running[FIRST.name], both.fillers()[0])
    both.go_on("the tenants of both full nodes go on", "resident", "guest")
    for pod in api.pods("app=filler"):
        api.remove(pod["metadata"]["name"])
    api.remove("guest")
    both.m.kubectl("label", "node", SECOND.name, f"{LABEL}=individual")
    both.check_amounts("a resource of one node only: nvidia.com/gpu0", {SECOND.name: {f"{GPU}0": 2}})
    both.serve("individual", SECOND.name)
    where, attached = both.tenant("particular", {f"{GPU}0": 1})
    report.check("a pod that wants a resource which one node has runs there, with its share", where == SECOND.name and attached["limit"] >> 20 == 15360 // 2
                 and api.amounts(f"{GPU}0", FIRST.name) == (None, None), [where, attached["limit"] >> 20])


def down(both):
    report, api = both.report, both.api
    first, clients = both.identity(FIRST.name), both.clients(SECOND.name)
    both.second.kubelet.stop(signal.SIGKILL)
    both.second.runtime.stop(signal.SIGKILL)
    until("the cluster to see it", lambda: not api.ready(SECOND.name))
    report.check("kubelet and containerd of one node are killed: that node is not ready, the other is", api.ready(FIRST.name))
    both.go_on("the other node's tenant goes on", "resident")
    where, attached = both.tenant("newcomer", {SHARED: 1})
    report.check("a new pod runs on the other node, with its share", where == FIRST.name and attached["limit"] >> 20 == 143771 // 2, [where, attached["limit"] >> 20])
    report.check("the other node's programs are the same", both.identity(FIRST.name) == first)
    report.check("on the node that is down, the tenant's process is still a client of its daemon", both.clients(SECOND.name) == clients and clients, clients)
    both.second.runtime.start()
    api.join(both.second)
    both.check_amounts("they are started again: the node has its slots again", {SECOND.name: {f"{GPU}0": 2}}, 90)
    both.go_on("and the tenants of both nodes go on", "resident", "particular")


def run(world):
    world.report.start("two nodes")
    found = programs(world)
    if not found:
        return
    # A node counts as lost after 50 s by default; kubelet writes its status once a second here.
    world.control_plane.more = {"kube-controller-manager": ["--node-monitor-grace-period=20s", "--node-monitor-period=1s"]}
    m = Mission(world, found, "H200", 2)
    second = world.second()
    second.simulate("T4", 1, "tranche-2")
    kubeconfig, archive = world.machine.path("second.json"), world.machine.path("image.tar")
    world.control_plane.write_kubeconfig(kubeconfig, f"https://{FIRST.address}:6443")
    world.control_plane.join(second, kubeconfig)
    world.runtime.ctr("images", "export", archive, m.image)
    second.runtime.ctr("images", "import", archive)
    has_gpus(world.control_plane, SECOND.name)
    both = Both(m, second)
    installed(both)
    one_only(both)
    token_of_one(both)
    rolled(both, m.image)
    owner_is_killed(both)
    spread(both)
    down(both)
