"""Rolling updates of the agent while claims come and go: an older and a newer agent run at a time, as a DaemonSet with maxSurge has them, and
pods with claims of their own are created, run and end all the while. Further: the newer agent fails, and the older one is killed outright."""

import collections
import json
import os
import signal
import threading
import time

from lib.pods import events
from lib.report import Failed, until
from .dra import CDI, CLAIMS, HOLD, PODS, begin, claim, start_agent, tenant

GIB = 1 << 30
SIZES = {"a": 11, "b": 13, "c": 17, "d": 19}  # GiB of each tenant's claim: a limit says whose it is
CORES = "20"
RECORDS = "/run/tranche/claims.txt"


class Load:
    """Tenants, each with a pod and a claim at a time: created, running under its own limit, deleted, again."""

    def __init__(self, scene):
        self.scene, self.api = scene, scene.api
        self.took, self.wrong, self.claims = [], [], []
        self.ended = threading.Event()
        self.threads = [threading.Thread(target=self.work, args=(tenant_name,)) for tenant_name in SIZES]

    def work(self, name):
        number = 0
        while not self.ended.is_set():
            number += 1
            try:
                self.once(f"{name}-{number}", SIZES[name])
            except (Failed, KeyError, TypeError, OSError) as failure:
                self.wrong.append(f"{name}-{number}: {failure!r}")

    def once(self, name, gib):
        self.claims.append(name)
        self.api.create(CLAIMS, claim(name, f"{gib}Gi", CORES))
        made = tenant(name, HOLD)
        began = time.monotonic()
        self.api.add(made)
        self.api.until_phase(name, "Running")
        self.took.append(time.monotonic() - began)
        seen = self.scene.attached(name)
        if seen["limit"] != gib * GIB:
            self.wrong.append(f"{name}: limit {seen['limit'] / GIB:.1f} GiB instead of {gib}")
        before = self.spec(name)
        self.ended.wait(0.5)  # in which the claims may change hands
        if self.spec(name) != before:
            self.wrong.append(f"{name}: its CDI specification is a different one")
        self.api.call("DELETE", f"{PODS}/{name}")
        until(f"pod {name} to be gone", lambda: self.api.pod(name) is None)
        self.api.call("DELETE", f"{CLAIMS}/{name}")

    def spec(self, name):
        with open(self.scene.spec_of(name)) as file:
            return file.read()

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.ended.set()
        for thread in self.threads:
            thread.join()


def log_of(program):
    with open(program.log, errors="replace") as log:
        return events(log.read())


def said(program, event):
    return any(line.get("event") == event for line in log_of(program))


class Agents:
    """One after the other, each as a pod of its own."""

    def __init__(self, world):
        self.world, self.all = world, [world.tranche.node]

    def newer(self):
        start_agent(self.world, f"uid-of-agent-{len(self.all)}")
        self.all.append(self.world.tranche.node)
        until("the newer agent to know of the older one", lambda: said(self.all[-1], "claims.with_older_agent"))
        return self.all[-1]

    def has_claims(self, agent):
        until("the newer agent to have the claims", lambda: said(agent, "claims.taken"))

    def current(self, agent):
        self.world.tranche.node = agent


def surge(agents):
    older, newer = agents.all[-1], agents.newer()
    agents.has_claims(newer)
    older.stop(signal.SIGTERM, 30)


def older_ends_first(agents):
    older, newer = agents.all[-1], agents.newer()
    older.stop(signal.SIGTERM, 30)
    agents.has_claims(newer)


def older_is_killed(agents):
    older, newer = agents.all[-1], agents.newer()
    until("the newer agent to serve", lambda: said(newer, "dra.serving"))
    older.stop(signal.SIGKILL, 30)
    agents.has_claims(newer)


def newer_fails(agents):
    """It is killed when it has the claims; the older one goes on."""
    older, newer = agents.all[-1], agents.newer()
    agents.has_claims(newer)
    before = sum(line.get("event") == "claims.taken" for line in log_of(older))
    newer.stop(signal.SIGKILL, 30)
    until("the older agent to have the claims again", lambda: sum(line.get("event") == "claims.taken" for line in log_of(older)) > before)
    agents.all.remove(newer)
    agents.all.insert(-1, newer)  # its log counts, and the older one is the last
    agents.current(older)


def refused(api):
    """How often kubelet reported that a claim was not prepared, by its message."""
    status, listed = api.call("GET", "/api/v1/namespaces/default/events?fieldSelector=reason=FailedPrepareDynamicResources")
    counted = collections.Counter()
    for event in listed["items"] if status == 200 else []:
        counted[event["message"][-300:]] += event.get("count") or 1
    return counted


def endpoints(tranche):
    return sorted(e["grant"] for pool in tranche.status("/run/nvidia/mps/mps.sock").get("pools", []) for e in pool["endpoints"])


def run(world):
    tranche, api, report = world.tranche, world.control_plane, world.report
    report.start("rolling updates of the agent under claims that come and go")
    scene = begin(world)
    agents = Agents(world)
    scene.put("keeper", "6Gi", "10", command=HOLD)
    api.until_phase("keeper", "Running")
    held, keeper = scene.result("keeper"), api.pod("keeper")["status"]["containerStatuses"][0]["containerID"]
    with Load(scene) as load:
        for way, how in (("the newer agent has the claims before the older one ends", surge), ("the older one ends before that", older_ends_first), ("once more", surge),
                         ("the newer one is killed, and the older one goes on", newer_fails), ("the older one is killed", older_is_killed)):
            started, finished = len(load.claims), len(load.took)
            began = time.monotonic()
            how(agents)
            handed_over = time.monotonic() - began
            until("pods that were created since to run", lambda n=started: len(load.took) >= n + len(SIZES))
            report.check(f"rollout: {way}; pods go on to start", True, f"{handed_over:.1f} s, {len(load.took) - finished} pods")
    waits = sorted(load.took)
    report.check("every pod ran, under the limit of its own claim, with one specification from its start to its end", not load.wrong and len(waits) == len(load.claims), load.wrong[:3] or
                 f"{len(waits)} pods; created to running: median {waits[len(waits) // 2]:.1f} s, the longest {waits[-1]:.1f} s")
    # kubelet repeats a call to the older agent that fails because the newer agent gets the claims, or because the older agent is killed.
    answers, passing = refused(api), ("kubelet asks again", "is not registered", "code = Unavailable")
    again = sum(count for message, count in answers.items() if any(text in message for text in passing))
    report.check("no claim was refused but in the moment of a handover", sum(answers.values()) == again, dict(answers))
    prepared = collections.Counter(line["claim"].split(" ")[0] for agent in agents.all for line in log_of(agent) if line.get("event") == "claim.prepared")
    wanted = {f"default/{name}" for name in [*load.claims, "keeper"]}
    report.check("each claim was prepared once, by one of the agents", set(prepared) == wanted and set(prepared.values()) == {1},
                 [sorted(wanted ^ set(prepared))[:3], [name for name, times in prepared.items() if times != 1][:3]])
    report.check("a pod that ran all the while is the same container with the same share", scene.result("keeper") == held and api.pod("keeper")["status"]["containerStatuses"][0]["containerID"] == keeper)
    scene.remove_all("keeper")
    until("no endpoint to be left", lambda: not endpoints(tranche))
    with open(RECORDS) as file:
        left = [file.read(), [name for name in os.listdir(CDI) if "-claim_" in name], os.listdir("/run/tranche")]
    report.check("at the end nothing is left: no record, no specification, no endpoint", not left[0] and not left[1], json.dumps(left)[:200])
