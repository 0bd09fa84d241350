"""Tenants that are deleted while their tensor-core work runs, beside busy neighbours, with nothing but the chart's defaults: no
admission policy, no runtime class. Whatever way a tenant's container ends, no neighbour may notice."""

import os
import statistics
import time

from lib import driver_root
from lib.containers import is_alive, of_pod, restarts
from lib.helm import find
from lib.installation import Cluster, begin
from lib.pods import container, events, pod
from lib.report import until
from lib.states import States
from lib.tranche import SIM_NODE, sharing

GPU = "nvidia.com/gpu"
PODS = "/api/v1/namespaces/default/pods"
PROGRAM = "/usr/bin/sim-cuda"
AT_ONCE = 10      # tenants that are deleted together
NEIGHBOURS = 2
ROUNDS = 5
GRACE = 10        # seconds; kubelet waits that long for a container that nobody ends
# 400 ms in flight at every moment. Killed with that, it takes all clients of its GPU along: the last row shows it.
LONG = "--tensor --kernel-ms 100 --queue 4 --hold"
SHORT = "--kernel-ms 2 --queue 2 --hold --report-every 0.25"
CLIENT = f"{PROGRAM} {LONG}"

# What of a container's processes gets SIGTERM, and who dies of it, depends on its shape: SIGTERM without a handler does not end
# the first process of a PID namespace; a shell that ends takes its namespace, or by the runtime its cgroup, along.
SHAPES = {
    "first process": (CLIENT.split(), False),
    "first process, hostPID": (CLIENT.split(), True),
    "below a shell": (["/bin/sh", "-c", f"{CLIENT}; exit $?"], False),
    "below a shell, hostPID": (["/bin/sh", "-c", f"{CLIENT}; exit $?"], True),
    "below a shell that exits at SIGTERM": (["/bin/sh", "-c", f"trap 'exit 0' TERM; {CLIENT} & wait $!"], False),
}


def saved_by(name):
    return f"{SIM_NODE}/saved-{name}"


class Tenant:
    """A pod with one CUDA client, and what was seen of its end. Times are seconds after its DELETE."""

    def __init__(self, scene, name, shape, command, host_pid, grace=GRACE):
        self.scene, self.name, self.shape = scene, name, shape
        made = pod(name, containers=[container("main", {GPU: 1}, command)])
        made["spec"].update({"hostPID": host_pid, "terminationGracePeriodSeconds": grace})
        self.made = scene.api.add(made)
        self.states, self.began, self.pod_gone = None, None, None

    def said(self):
        return events(self.scene.kubelet.log(self.made))

    def works(self):
        """Its kernels are in flight."""
        return any(event.get("event") == "launch" for event in self.said())

    def delete(self, grace=None):
        processes = of_pod(self.made)
        self.client = next((pid for pid, words in processes.items() if words[0] == PROGRAM), None)
        self.states = States(processes)
        self.began = time.time()
        self.scene.api.call("DELETE", f"{PODS}/{self.name}", {} if grace is None else {"gracePeriodSeconds": grace})

    def after(self, what):
        """Seconds from DELETE until the client was "stopped" or had "ended"; None: never seen so."""
        when = getattr(self.states, what).get(self.client)
        return None if when is None else when - self.began

    def whole(self):
        """Whether its checkpoint was written to the end."""
        try:
            with open(saved_by(self.name)) as file:
                lines = file.read().splitlines()
        except OSError:
            return False
        return lines == [*(f"part {part} of 64" for part in range(1, 65)), "complete"]


class Neighbour:
    def __init__(self, scene, name):
        self.scene, self.name = scene, name
        self.made = scene.api.add(pod(name, {GPU: 1}, [PROGRAM, *SHORT.split()]))

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
        self.report, self.api, self.kubelet = world.report, world.control_plane, world.kubelet
        self.count, self.hurt, self.replaced = 0, 0, 0
        self.neighbours = []

    def settle_neighbours(self):
        """Neighbours that were hurt are counted and replaced, so that the next deletions have some to hurt."""
        victims = [one for one in self.neighbours if not one.unharmed()]
        self.hurt += len(victims)
        for one in victims:
            self.api.remove(one.name)
            self.neighbours.remove(one)
        fresh = []
        while len(self.neighbours) < NEIGHBOURS:
            fresh.append(Neighbour(self, f"neighbour-{self.replaced}"))
            self.neighbours.append(fresh[-1])
            self.replaced += 1
        for one in fresh:
            one.start()
        return victims

    def heard_since(self):
        """Waits until every neighbour has either reported twice from now on, or been hurt."""
        before = {one.name: one.reports() for one in self.neighbours}
        until("the neighbours to report, or to have been hurt",
              lambda: all(one.reports() >= before[one.name] + 2 or not one.unharmed() for one in self.neighbours))

    def tenants(self, wanted):
        """Tenants of these (shape, command, hostPID[, grace]) whose work is in flight. "%s" in a command is the tenant's name."""
        made = []
        for shape, command, *more in wanted:
            name = f"tenant-{self.count}"
            self.count += 1
            made.append(Tenant(self, name, shape, [word.replace("%s", name) for word in command], *more))
        for one in made:
            until(f"{one.name} ({one.shape}) to work", one.works)
        return made

    def end(self, tenants, grace=None, seconds=120):
        """Deletes them all at once. How many neighbours that hurt."""
        for one in tenants:
            one.delete(grace)

        def gone():
            there = {p["metadata"]["name"] for p in self.api.pods()}
            for one in tenants:
                if one.pod_gone is None and one.name not in there:
                    one.pod_gone = time.time() - one.began
            return all(one.pod_gone is not None and not one.states.left for one in tenants)

        until("the tenants to be gone", gone, seconds, pause=0.05)
        for one in tenants:
            one.states.close()
        self.heard_since()
        return len(self.settle_neighbours())


def span(values):
    """Median and most, in milliseconds; how many there are where some are missing."""
    there = [value * 1000 for value in values if value is not None]
    if not there:
        return "never seen"
    text = f"median {statistics.median(there):.0f}, most {max(there):.0f} ms"
    return text if len(there) == len(values) else f"{text}, seen {len(there)} of {len(values)}"


def times(tenants):
    return (f"stopped after {span([one.after('stopped') for one in tenants])}; ended after {span([one.after('ended') for one in tenants])}; "
            f"pod gone after {span([one.pod_gone for one in tenants])}")


def stopped_first(tenants):
    return sum(one.after("stopped") is not None for one in tenants)


def ordinary(scene):
    ended, first = [], [one.process for one in scene.neighbours]
    hurt = 0
    for _ in range(ROUNDS):
        tenants = scene.tenants([(shape, *how) for shape, how in SHAPES.items()] * (AT_ONCE // len(SHAPES)))
        hurt += scene.end(tenants)
        ended += tenants
    for shape in SHAPES:
        print(f"        {shape}: {times([one for one in ended if one.shape == shape])}", flush=True)
    scene.report.check(f"{len(ended)} tenants are deleted with tensor-core work in flight: no neighbour is hurt", hurt == 0, f"{hurt} hurt; {times(ended)}")
    now = [one.process for one in scene.neighbours]
    scene.report.check("the neighbours' processes are those that began", now == first, f"began {first}, now {now}")
    # On a busy machine SIGTERM may be first: the watch leads it by some 20 ms.
    scene.report.check("nine of ten of those tenants were stopped before they ended", stopped_first(ended) >= 0.9 * len(ended), f"{stopped_first(ended)} of {len(ended)}")


def forced(scene):
    tenants = scene.tenants([(shape, *how) for shape, how in SHAPES.items()] * (AT_ONCE // len(SHAPES)))
    hurt = scene.end(tenants, grace=0)
    scene.report.check(f"{len(tenants)} tenants are deleted by force: no neighbour is hurt", hurt == 0, f"{hurt} hurt; {times(tenants)}")


def graceful(scene):
    """Programs with a handler for SIGTERM are paused until their work is over, and get their grace: a checkpoint is written to its end."""
    command = f"{CLIENT} --on-term 1:{saved_by('%s')}".split()
    ended, hurt = [], 0
    for _ in range(2):
        tenants = scene.tenants([("saves", command, False), ("saves, hostPID", command, True)] * (AT_ONCE // 2))
        hurt += scene.end(tenants)
        ended += tenants
    whole = sum(one.whole() for one in ended)
    scene.report.check(f"{len(ended)} tenants save a checkpoint at SIGTERM: every file is whole", whole == len(ended), f"{whole} of {len(ended)}; {times(ended)}")
    scene.report.check("each of them was paused before it ended", stopped_first(ended) == len(ended), f"{stopped_first(ended)} of {len(ended)}")
    scene.report.check("no neighbour is hurt by them", hurt == 0, f"{hurt} hurt")


def deaf(scene):
    """Programs that catch SIGTERM and go on have to be stopped before kubelet kills them at the end of their grace."""
    command = f"{CLIENT} --catch-term".split()
    tenants = scene.tenants([("goes on", command, False, 6), ("goes on, hostPID", command, True, 6)] * 2)
    hurt = scene.end(tenants)
    scene.report.check("tenants that go on at SIGTERM are stopped before their grace of 6 s ends: no neighbour is hurt",
                       hurt == 0 and stopped_first(tenants) == len(tenants), f"{hurt} hurt; {times(tenants)}")


def control(scene):
    """The reason for all of this, and the proof that the rows before could have failed."""
    tenant, = scene.tenants([("killed", CLIENT.split(), True)])
    os.kill(next(pid for pid, words in of_pod(tenant.made).items() if words[0] == PROGRAM), 9)
    scene.heard_since()
    hurt = sum(not one.unharmed() for one in scene.neighbours)
    scene.report.check("for comparison: a tenant that is killed outright takes every neighbour along", hurt == NEIGHBOURS, f"{hurt} of {NEIGHBOURS}")


def run(world):
    report, kubelet, tranche, api = world.report, world.kubelet, world.tranche, world.control_plane
    report.start("tenants that end, with the chart's defaults")
    program = find(world.binaries, world.build)
    if not program:
        print("SKIPPED: there is no Helm; build-programs makes it with Go, or name one in $TRANCHE_HELM", flush=True)
        report.check("tenants that end: skipped without Helm", True)
        return
    driver_root.make(world.build)
    tranche.make_gpus(1)
    begin(world)
    cluster = Cluster(world, program, {"shared": sharing("mps", NEIGHBOURS + AT_ONCE)}, "shared")
    cluster.helm("install", values=cluster.values())
    until("both pods to be ready", lambda: cluster.ready("node") and cluster.ready("mps"))
    cluster.serves("shared")
    until("the agent to watch pods", lambda: tranche.status().get("kubernetes", {}).get("state") == "watching")

    scene = Scene(world)
    scene.settle_neighbours()
    scene.hurt = 0
    seen = {what: len(api.call("GET", f"/apis/{path}")[1]["items"]) for what, path in (
        ("runtime classes", "node.k8s.io/v1/runtimeclasses"), ("policies", "admissionregistration.k8s.io/v1/mutatingadmissionpolicies"))}
    hooks = [p["metadata"]["name"] for p in api.pods() if any("lifecycle" in c for c in p["spec"]["containers"])]
    report.check("nothing but the chart's defaults: no runtime class, no policy, no hook in a pod", not any(seen.values()) and not hooks, [seen, hooks])
    for part in (ordinary, forced, graceful, deaf, control):
        began = time.monotonic()
        part(scene)
        print(f"        {part.__name__}: {time.monotonic() - began:.0f} s", flush=True)
    kubelet.stop()
    api.stop()
