"""Tenants that die with tensor-core work in flight, in each way that a process can, beside busy neighbours: with nothing but the chart's
defaults, and while the node agent may ask the API server nothing. No neighbour may notice, since the keeper holds their descriptors."""

import contextlib
import os
import signal
import time
import urllib.request

from lib import driver_root, uvm
from lib.containers import called, is_alive, of_pod, restarts
from lib.installation import PODS as OURS
from lib.installation import MPS, Cluster, begin
from lib.mission import programs
from lib.pods import container, events, pod
from lib.report import until
from lib.tranche import SIM_NODE, sharing

GPU = "nvidia.com/gpu"
PODS = "/api/v1/namespaces/default/pods"
BINDINGS = ("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", "/apis/rbac.authorization.k8s.io/v1/namespaces/tranche/rolebindings")
KEEPER = os.path.join(os.path.dirname(MPS), "keeper.sock")
PROGRAM = "/usr/bin/sim-cuda"
DEATHS, AT_ONCE, NEIGHBOURS = 50, 10, 2
GRACE = 10  # seconds
# 400 ms in flight at every moment. Killed with that, it takes all clients of its GPU along: the last row shows it.
CLIENT = f"{PROGRAM} --tensor --kernel-ms 100 --queue 4 --hold"
NEIGHBOUR = f"{PROGRAM} --kernel-ms 2 --queue 2 --hold --report-every 0.25"


def killed_by(number):
    return lambda tenant: os.kill(tenant.client, number)


def out_of_memory(tenant):
    """As the kernel's OOM killer ends a container whose control group is to be ended as a whole."""
    for pid in of_pod(tenant.made):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def deleted(grace=None):
    return lambda tenant: tenant.scene.api.call("DELETE", f"{PODS}/{tenant.name}", {} if grace is None else {"gracePeriodSeconds": grace})


def at_word(tenant):
    open(tenant.word, "w").close()


# What dies, "%s" being the file that it waits for, whether it is in the host's process namespace, and how it dies. The stand-in's
# exception is memory beyond its share: it does not look at its work before it exits with the error.
KINDS = {
    "SIGKILL": (CLIENT, True, killed_by(signal.SIGKILL)),
    "OOM kill": (f"{CLIENT}; exit $?", True, out_of_memory),
    "SIGSEGV": (CLIENT, True, killed_by(signal.SIGSEGV)),
    "abort": (CLIENT, True, killed_by(signal.SIGABRT)),
    "exception": (f"{CLIENT} --grow 2G/s; exit $?", True, lambda tenant: None),
    "exit 0": (f"until [ -e %s ]; do sleep 0.05; done | {CLIENT} --stdin; exit $?", True, at_word),
    "deleted with a grace": (CLIENT, False, deleted()),
    "deleted by force": (CLIENT, False, deleted(0)),
}


class Tenant:
    """A pod with one CUDA client whose work is in flight."""

    def __init__(self, scene, name, kind):
        self.scene, self.name, self.kind = scene, name, kind
        self.word = f"{SIM_NODE}/{name}"
        script, host_pid, self.death = KINDS[kind]
        words = ["/bin/sh", "-c", script.replace("%s", self.word)] if ";" in script else script.split()
        made = pod(name, containers=[container("main", {GPU: 1}, words)])
        made["spec"].update({"hostPID": host_pid, "terminationGracePeriodSeconds": GRACE})
        self.made = scene.api.add(made)
        self.client = None

    def is_held(self):
        """Whether its kernels are in flight, and the keeper has all that protects its neighbours; also once it has died of itself.

        A client's first kernel follows at once here, while the keeper still looks for what the client opens (state "starting")."""
        if any(event.get("event") == "launch" for event in events(self.scene.kubelet.log(self.made))):
            self.client = self.client or called(self.made, PROGRAM)
            return self.kind == "exception" or any(one["pid"] == self.client and one["state"] == "held" and not one["problem"] for one in self.scene.held())
        return False

    def gone(self):
        found = self.scene.api.pod(self.name)
        return (found is None or found["status"].get("phase") in ("Succeeded", "Failed")) and not (self.client and is_alive(self.client))


class Neighbour:
    def __init__(self, scene, name):
        self.scene, self.name = scene, name
        self.made = scene.api.add(pod(name, {GPU: 1}, NEIGHBOUR.split()))

    def start(self):
        self.made = self.scene.api.until_phase(self.name, "Running")
        until(f"{self.name} to work", lambda: self.reports() > 0)
        self.process = next(iter(of_pod(self.made)))

    def said(self):
        return events(self.scene.kubelet.log(self.made))

    def reports(self):
        return sum(event.get("event") == "report" for event in self.said())

    def errors(self):
        return [event for event in self.said() if event.get("error", "CUDA_SUCCESS") != "CUDA_SUCCESS"]

    def unharmed(self):
        found = self.scene.api.pod(self.name)
        return not self.errors() and is_alive(self.process) and found is not None and not any(restarts(found).values())


class Scene:
    def __init__(self, world):
        self.report, self.api, self.kubelet, self.tranche = world.report, world.control_plane, world.kubelet, world.tranche
        self.count, self.replaced, self.neighbours = 0, 0, []

    def held(self):
        """The keeper's clients."""
        return self.tranche.status(KEEPER).get("clients", [])

    def settle_neighbours(self):
        """How many were hurt. They are replaced, so that the next deaths have some to hurt."""
        hurt = [one for one in self.neighbours if not one.unharmed()]
        for one in hurt:
            self.api.remove(one.name)
            self.neighbours.remove(one)
        fresh = []
        while len(self.neighbours) < NEIGHBOURS:
            fresh.append(Neighbour(self, f"neighbour-{self.replaced}"))
            self.neighbours.append(fresh[-1])
            self.replaced += 1
        for one in fresh:
            one.start()
        return len(hurt)

    def heard_since(self):
        """Waits until every neighbour has either reported twice from now on, or been hurt."""
        before = {one.name: one.reports() for one in self.neighbours}
        until("the neighbours to report, or to have been hurt",
              lambda: all(one.reports() >= before[one.name] + 2 or not one.unharmed() for one in self.neighbours))

    def tenants(self, kinds):
        made = []
        for kind in kinds:
            made.append(Tenant(self, f"tenant-{self.count}", kind))
            self.count += 1
        for one in made:
            until(f"{one.name} ({one.kind}) to work, and to be held", one.is_held)
        return made

    def die(self, tenants):
        """How many neighbours are hurt, until the descriptors of all the dead have been closed."""
        for one in tenants:
            one.death(one)
        for one in tenants:
            until(f"{one.name} ({one.kind}) to be gone", one.gone)
        until("the keeper to have closed their descriptors", lambda: not any(one["state"] == "dead" for one in self.held()))
        self.heard_since()
        for one in tenants:
            self.api.remove(one.name)
        return self.settle_neighbours()


def as_installed(cluster):
    report, tranche = cluster.report, cluster.world.tranche
    context = cluster.ready("node")["spec"]["containers"][0]["securityContext"]
    wanted = {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"], "add": ["SYS_PTRACE", "KILL"]}}
    report.check("the node agent has two capabilities, no privileges and a root that it cannot write", context == wanted, context)
    until("labels to be written", lambda: tranche.status().get("labelOutput", {}).get("state") == "written")
    # The guard cannot attribute a CUDA start of the proof until `tranche mps` has reported its pid.
    until("nothing to be kept from the guard", lambda: tranche.status().get("guard", {}).get("notInForce") == [])

    def ready():
        return next((c for c in cluster.api.node()["status"]["conditions"] if c["type"] == "TrancheReady" and c["status"] == "True"), None)
    report.check("the node says TrancheReady", until("the condition", ready))
    for what, port in (("node", 9400), ("mps", 9401)):
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as answer:
            report.check(f"{what}: metrics are served", b"tranche_build_info" in answer.read())


def take_rights(cluster):
    """The agent that starts now may ask nothing of the API server; its configuration is the last good one."""
    api, former = cluster.api, cluster.ready("node")["metadata"]["name"]
    for place in BINDINGS:
        for item in api.call("GET", place)[1]["items"]:
            if item["metadata"]["name"].startswith("tranche"):
                api.call("DELETE", f"{place}/{item['metadata']['name']}")
    api.call("DELETE", f"{OURS}/{former}")
    until("another node agent to be ready", lambda: (found := cluster.ready("node")) and found["metadata"]["name"] != former)
    cluster.world.tranche.until_serves(NEIGHBOURS + AT_ONCE)
    state = until("the agent to be refused", lambda: (found := cluster.world.tranche.status().get("kubernetes", {})).get("state") == "waiting" and found)
    cluster.report.check("the node agent may ask nothing of the API server, and serves", True, state.get("reason"))


def all_kinds(scene):
    kinds, hurt, first = (list(KINDS) * DEATHS)[:DEATHS], 0, [one.process for one in scene.neighbours]
    for at in range(0, DEATHS, AT_ONCE):
        began = time.monotonic()
        hurt += scene.die(scene.tenants(kinds[at:at + AT_ONCE]))
        print(f"        {', '.join(kinds[at:at + AT_ONCE])}: {time.monotonic() - began:.0f} s", flush=True)
    now = [one.process for one in scene.neighbours]
    scene.report.check(f"{DEATHS} tenants die in {len(KINDS)} ways with tensor-core work in flight: no neighbour is hurt", hurt == 0 and now == first, f"{hurt} hurt")


def saves(scene):
    path = f"{SIM_NODE}/saved"
    made = pod("saves", containers=[container("main", {GPU: 1}, [*CLIENT.split(), "--on-term", f"1:{path}"])])
    made["spec"].update({"hostPID": False, "terminationGracePeriodSeconds": GRACE})
    made = scene.api.add(made)
    until("the program that saves to work", lambda: any(event.get("event") == "launch" for event in events(scene.kubelet.log(made))))
    scene.api.call("DELETE", f"{PODS}/saves")
    until("it to be gone", lambda: scene.api.pod("saves") is None)
    with open(path) as file:
        lines = file.read().splitlines()
    scene.report.check("a program that saves a checkpoint on SIGTERM has its grace period for that", lines[-1:] == ["complete"], lines[-1:])


def control(scene, mps):
    """The proof that the rows before could have failed: the keeper does not know the device any more."""
    uvm.hide(mps)
    tenant = Tenant(scene, "killed", "SIGKILL")
    until("it to work", lambda: any(event.get("event") == "launch" for event in events(scene.kubelet.log(tenant.made))))
    os.kill(called(tenant.made, PROGRAM), signal.SIGKILL)
    scene.heard_since()
    hurt = sum(not one.unharmed() for one in scene.neighbours)
    scene.report.check("for comparison: a tenant that is killed without being held takes every neighbour along", hurt == NEIGHBOURS, f"{hurt} of {NEIGHBOURS}")


def run(world):
    report, api = world.report, world.control_plane
    report.start("deaths of tenants, with the chart's defaults")
    found = programs(world)
    if not found:
        return
    driver_root.make(world.build)
    world.tranche.make_gpus(1)
    begin(world)
    cluster = Cluster(world, found["helm"], {"shared": sharing("mps", NEIGHBOURS + AT_ONCE)}, "shared")
    cluster.helm("install", values=cluster.values())
    until("both pods to be ready", lambda: cluster.ready("node") and cluster.ready("mps"))
    cluster.serves("shared")
    mps = called(cluster.ready("mps"), "tranche")
    report.check("the keeper sees the stand-in of the nvidia-uvm device", uvm.show(mps))
    as_installed(cluster)
    take_rights(cluster)

    scene = Scene(world)
    scene.settle_neighbours()
    hooks = [p["metadata"]["name"] for p in api.pods() if any("lifecycle" in c for c in p["spec"]["containers"])]
    report.check("nothing but the chart's defaults: no hook in a pod", not hooks, hooks)
    all_kinds(scene)
    saves(scene)
    control(scene, mps)
    events_of_ours = api.call("GET", "/api/v1/namespaces/tranche/events")[1]["items"]
    probes = [e["message"] for e in events_of_ours if e.get("reason") == "Unhealthy" and "Liveness" in e["message"]]
    # One that was under way when its pod was deleted has no result, which kubelet reports as an event, too.
    unhealthy = [message for message in probes if "code = Canceled" not in message]
    report.check("no liveness probe has failed", not unhealthy, unhealthy[:2])
