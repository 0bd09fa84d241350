"""Dynamic Resource Allocation, case by case: what the scheduler grants for each amount, several requests and pods of one claim, forced deletion, lost
files, restarts of kubelet and of the agent, quota. The begin is that of the scenario `dra`."""

import os
import signal

from lib.pods import container
from lib.report import until
from .dra import CDI, CLAIMS, DRIVER, HOLD, begin, claim, start_agent, tenant

def what_is_granted(scene):
    """Rows of the table of amounts: asked → consumed."""
    rows = {"r6145": ("6145Mi", None, "6145Mi", "7"), "nothing": (None, None, "1Gi", "7"), "tiny": ("1Mi", "500m", "256Mi", "7"), "decimal": ("6G", "20", "5723Mi", "20"),
            "fraction": ("1Gi", "8500m", "1Gi", "9")}
    for name, asked in rows.items():
        scene.put(name, *asked[:2])
    for name, (_, _, memory, cores) in rows.items():
        got = scene.granted(name)["consumedCapacity"]
        scene.report.check(f"case 1: {name} is granted {memory} and {cores} cores", got == {"memory": memory, "cores": cores}, got)
    scene.remove(*rows)
    for name, asked in (("huge", ("200Gi", None)), ("many", (None, "101"))):
        scene.put(name, *asked)
        scene.waits(name)
        scene.report.check(f"case 1: {name} is not granted", scene.result(name) is None)
    qualified = claim("qualified")
    qualified["spec"]["devices"]["requests"][0]["exactly"]["capacity"] = {"requests": {f"{DRIVER}/memory": "1Gi"}}
    scene.api.create(CLAIMS, qualified)
    scene.api.add(tenant("qualified"))
    scene.waits("qualified")
    scene.report.check("case 1: a capacity by its qualified name is not granted", scene.result("qualified") is None)
    scene.remove("huge", "many", "qualified")


def what_the_first_claim_decides(scene):
    """Whether a GPU is shared or whole, in each order. The order shares, then whole, with release: the scenario `dra`."""
    for name in ("whole-1", "whole-2"):
        scene.put(name, device_class="tranche-gpu")
        scene.api.until_phase(name, "Running")
    scene.put("share", "6Gi", "20")
    scene.waits("share")
    scene.report.check("case 2: a share waits while all GPUs are given away as a whole", scene.result("share") is None)
    scene.remove("whole-1")
    gpu = scene.granted("share")["device"]
    scene.report.check("case 2: it is granted when a whole GPU is free again", gpu.endswith("-shared"), gpu)
    scene.put("second", "6Gi", "20")
    scene.report.check("case 2: a second share joins the first one", scene.granted("second")["device"] == gpu)
    scene.put("whole-3", device_class="tranche-gpu")
    scene.waits("whole-3")
    scene.remove("share")
    scene.report.check("case 2: a whole GPU waits for the last of its shares", scene.result("whole-3") is None)
    scene.remove("second")
    whole = scene.granted("whole-3")["device"]
    scene.report.check("case 2: the end of the last share frees the whole GPU", f"{whole}-shared" == gpu, whole)
    scene.remove_all("whole-2", "whole-3")


def two_containers(scene):
    made = claim("pair")
    made["spec"]["devices"]["requests"] = [
        {"name": name, "exactly": {"deviceClassName": "tranche-shared", "capacity": {"requests": {"memory": memory, "cores": cores}}}}
        for name, memory, cores in (("x", "6Gi", "12"), ("y", "10Gi", "50"))]
    scene.api.create(CLAIMS, made)
    body = tenant("pair")
    body["spec"]["containers"] = [{**container(name, command=HOLD), "resources": {"claims": [{"name": "gpu", "request": name}]}}
                                  for name in ("x", "y")]
    scene.api.add(body)
    seen = {name: scene.attached("pair", name) for name in ("x", "y")}
    limits = {name: (one["limit"] >> 30, one["runs_on"]) for name, one in seen.items()}
    scene.report.check("case 3: each container of a pod has the limits of its own request", limits == {"x": (6, 16), "y": (10, 66)} or (limits["x"][0], limits["y"][0]) == (6, 10), limits)
    results = scene.api.call("GET", f"{CLAIMS}/pair")[1]["status"]["allocation"]["devices"]["results"]
    scene.report.check("case 3: two requests of one claim are two shares", len({r["shareID"] for r in results}) == 2)
    scene.remove_all("pair")


def one_claim_for_two_pods(scene):
    scene.put("shared", "6Gi", "20", command=HOLD)
    scene.api.until_phase("shared", "Running")
    scene.api.add(tenant("second", HOLD, "shared"))
    both = [scene.attached(name)["limit"] >> 20 for name in ("shared", "second")]
    scene.report.check("upstream: a claim that two pods use is one share with one limit", both == [6144, 6144] and len(scene.tranche.status()["dra"]["claims"]) == 1, both)
    scene.api.remove("shared")
    scene.report.check("upstream: the end of one pod keeps the claim for the other", len(scene.tranche.status()["dra"]["claims"]) == 1 and scene.result("shared") is not None)
    scene.api.remove("second")
    scene.unprepared()
    until("the claim to be deallocated", lambda: scene.result("shared") is None)
    scene.report.check("upstream: it is deallocated after its last pod", True)
    scene.api.call("DELETE", f"{CLAIMS}/shared")


def an_unused_claim(scene):
    scene.api.create(CLAIMS, claim("unused", "1Gi"))
    body = tenant("unused")
    body["spec"]["containers"][0]["resources"] = {}
    scene.api.add(body)
    scene.api.until_phase("unused", "Running")
    scene.report.check("upstream: a claim that no container uses is prepared", len(scene.tranche.status()["dra"]["claims"]) == 1)
    scene.remove_all("unused")


def forced_deletion(scene):
    """A pod that ignores SIGTERM is deleted by force: the scheduler gives its room away at once, the node when it has ended."""
    scene.put("stubborn", "100Gi", "60", command=["/bin/sh", "-c", "trap '' TERM; while :; do sleep 1; done"])
    scene.api.until_phase("stubborn", "Running")
    scene.api.call("DELETE", "/api/v1/namespaces/default/pods/stubborn", {"gracePeriodSeconds": 0})
    scene.put("next", "100Gi", "60")
    granted = scene.granted("next")
    most = 0

    def runs():
        nonlocal most
        parts = [part for one in scene.tranche.status()["dra"].get("claims", []) for part in one["parts"]]
        by_gpu = {}
        for part in parts:
            by_gpu[part["gpu"]] = by_gpu.get(part["gpu"], 0) + part["memoryMiB"]
        most = max([most, *by_gpu.values()])
        return (scene.api.pod("next") or {}).get("status", {}).get("phase") == "Running"
    until("the next pod to run", runs)
    scene.report.check("case 4: after a forced deletion the next claim is prepared when the first is gone, and no GPU has more than it has", most <= 143771, (granted["device"], most))
    scene.remove("next")
    scene.api.call("DELETE", f"{CLAIMS}/stubborn")
    scene.unprepared()


def lost_files(scene):
    """CDI specifications vanish under running pods, kubelet and agent are killed and started again."""
    tranche, report, kubelet = scene.tranche, scene.report, scene.kubelet
    scene.put("keeper", "6Gi", "20", command=HOLD)
    scene.api.until_phase("keeper", "Running")
    path = scene.spec_of("keeper")
    with open(path) as file:
        before = file.read()
    os.unlink(path)
    until("the specification to be back", lambda: os.path.exists(path))
    with open(path) as file:
        report.check("case 6: a specification that is deleted under a running pod comes back as it was", file.read() == before)
    for name in os.listdir(CDI):
        os.unlink(f"{CDI}/{name}")
    kubelet.stop()
    kubelet.start(scene.api.kubeconfig)
    until("the specification to be back", lambda: os.path.exists(path))
    scene.published()
    scene.api.add(tenant("late", HOLD, "keeper"))
    seen = scene.attached("late")
    report.check("case 5: after a restart of kubelet and a wipe of the CDI directory a second pod of the claim has its limits", seen["limit"] >> 20 == 6144, seen["limit"] >> 20)
    report.check("case 5: the first pod goes on", scene.api.pod("keeper")["status"]["containerStatuses"][0]["restartCount"] == 0)
    scene.api.remove("late")
    tranche.node.stop(signal.SIGKILL, 10)
    os.unlink(path)
    start_agent(scene.world)
    until("the specification to be back", lambda: os.path.exists(path))
    with open(path) as file:
        report.check("case 5: an agent that is killed and started again restores the specification as it was", file.read() == before)
    scene.published()
    report.check("case 5: and the pod goes on", scene.api.pod("keeper")["status"]["phase"] == "Running" and len(tranche.status()["dra"]["claims"]) == 1)
    scene.remove_all("keeper")


def quota(scene):
    scene.api.create("/api/v1/namespaces/default/resourcequotas", {"metadata": {"name": "claims"}, "spec": {"hard": {"tranche-shared.deviceclass.resource.k8s.io/devices": "1"}}})
    until("the quota to be known", lambda: scene.api.call("GET", "/api/v1/namespaces/default/resourcequotas/claims")[1].get("status", {}).get("hard"))
    first = scene.api.call("POST", CLAIMS, claim("one-of", "1Gi"))
    second = scene.api.call("POST", CLAIMS, claim("two-of", "1Gi"))
    scene.report.check("case 12: a quota of the class counts claims", first[0] == 201 and second[0] == 403 and "exceeded quota" in second[1], second[0])
    scene.api.call("DELETE", f"{CLAIMS}/one-of")
    scene.api.call("DELETE", "/api/v1/namespaces/default/resourcequotas/claims")


def run(world):
    world.report.start("Dynamic Resource Allocation, case by case")
    scene = begin(world)
    what_is_granted(scene)
    what_the_first_claim_decides(scene)
    two_containers(scene)
    one_claim_for_two_pods(scene)
    an_unused_claim(scene)
    quota(scene)
    forced_deletion(scene)
    lost_files(scene)
