"""Claims when something goes wrong: claims that are wrong or forged, alone and beside a good one; a GPU that fails, as kubelet, the claim's status and
taints report it; taints of an administrator; an agent that is away; lost records; containers that end after their files were lost; a reboot of the
node, and a Node object that is created again."""

import os
import shutil
import signal
import time

from lib.containers import called
from lib.machine import NODE
from lib.report import until
from .dra import API, CDI, CLAIMS, DRIVER, HOLD, PODS, begin, claim, start_agent, tenant

SLEEP = ["/bin/sh", "-c", "exec sleep 100000"]
RULES = "/apis/resource.k8s.io/v1beta2/devicetaintrules"
SHARE = "0f2b1c9e-7d34-4f55-9a80-3f0c2f6f7a11"
STATE = "/run/tranche"
MIB = 1 << 20


def prepared(scene):
    return sorted(one["name"] for one in scene.tranche.status()["dra"].get("claims", []))


def a_bad_claim_beside_a_good_one(scene):
    scene.api.create(CLAIMS, claim("good", "6Gi", "20"))
    bad = claim("bad", "6Gi", "20")
    bad["spec"]["devices"]["config"] = [{"opaque": {"driver": DRIVER, "parameters": {"apiVersion": "resource.nvidia.com/v1beta1", "kind": "GpuConfig", "sharring": {}}}}]
    scene.api.create(CLAIMS, bad)
    made = tenant("good", HOLD)
    made["spec"]["resourceClaims"].append({"name": "bad", "resourceClaimName": "bad"})
    scene.api.add(made)
    message = scene.refusal("good", "sharring")
    scene.report.check("case 9: of two claims of a pod the wrong one is refused with its field", "config[0].opaque.parameters" in message, message[-200:])
    scene.report.check("case 9: and the other one is prepared", prepared(scene) == ["good"], prepared(scene))
    scene.api.remove("good")
    scene.unprepared()
    scene.report.check("case 8: the claim that was never prepared is unprepared with the other", True)
    for name in ("good", "bad"):
        scene.api.call("DELETE", f"{CLAIMS}/{name}")


def forged(scene):
    """Allocations that no scheduler made, written by an administrator, for pods that are bound by hand."""
    def result(device="gpu-0-shared", memory="6Gi", cores="20", **more):
        return {"request": "gpu", "driver": DRIVER, "pool": NODE, "device": device, "shareID": SHARE, "consumedCapacity": {"memory": memory, "cores": cores}, **more}
    field = "status.allocation.devices.results[0]"
    rows = {"negative": (result(memory="-6Gi"), f'{field}.consumedCapacity["memory"]'), "overfull": (result(memory="200Gi"), "consumes 204800 MiB of memory"), "cores": (result(cores="101"), "of memory and 101 cores"),
            "gone": (result(device="gpu-7-shared"), "device gpu-7-shared is not on this node any more"), "unlimited": (result(memory="0"), "consumes 0 MiB of memory")}
    for name, (device, word) in rows.items():
        scene.api.create(CLAIMS, claim(name, "6Gi", "20"))
        body = tenant(name, SLEEP)
        body["spec"]["nodeName"] = NODE
        uid = scene.api.add(body)["metadata"]["uid"]
        status = {"allocation": {"devices": {"results": [device]}, "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [NODE]}]}]}},
                  "reservedFor": [{"resource": "pods", "name": name, "uid": uid}]}
        code, answer = scene.api.call("PATCH", f"{CLAIMS}/{name}/status", {"status": status})
        if code != 200:
            scene.report.check(f"case 15: the API server stores a forged claim ({name})", False, answer[:300])
            scene.api.remove(name)
            continue
        message = scene.refusal(name, word)
        scene.report.check(f"case 15: a forged claim ({name}) is refused with what is wrong", not prepared(scene), message[-220:])
        scene.api.remove(name)
        scene.api.call("DELETE", f"{CLAIMS}/{name}")
    large = claim("large", "6Gi", "20")
    large["spec"]["devices"]["config"] = [{"opaque": {"driver": DRIVER, "parameters": {"apiVersion": "x", "kind": "x" * 10240}}}]
    code, answer = scene.api.call("POST", CLAIMS, large)
    scene.report.check("case 15: a configuration above 10 KiB never reaches the node", code == 422, answer[:120])
    scene.report.check("case 15: nothing of them is left", not prepared(scene) and not [name for name in os.listdir(CDI) if "-claim_" in name])


def health(scene):
    """What kubelet, the claim and the slice say of a GPU that fails and comes back."""
    scene.put("patient", "6Gi", "20", command=SLEEP)
    scene.api.until_phase("patient", "Running")
    scene.reported("patient")

    def reported(word):
        states = (scene.api.pod("patient") or {}).get("status", {}).get("containerStatuses", [{}])[0].get("allocatedResourcesStatus", [])
        return next((r for each in states for r in each["resources"] if r.get("health") == word), None)
    until("kubelet to report the device as healthy", lambda: reported("Healthy"))
    scene.tranche.sim_node("gpu", "0", "lost")
    seen = until("kubelet to report the device as unhealthy", lambda: reported("Unhealthy"))
    scene.report.check("case 11: the pod's status has the health of its device, with a message", f"{DRIVER}/claim=" in seen["resourceID"] and seen.get("message"), seen)

    def condition():
        entries = scene.api.call("GET", f"{CLAIMS}/patient")[1].get("status", {}).get("devices", [])
        return next((c for e in entries for c in e["conditions"] if c["type"] == "Ready" and c["status"] == "False"), None)
    found = until("the claim's condition Ready to be false", condition)
    scene.report.check("case 11: the claim's condition Ready is false and has the reason", found["reason"] == "Unhealthy", found.get("message"))
    tolerating = claim("tolerates", "1Gi", "10")
    tolerating["spec"]["devices"]["requests"][0]["exactly"]["tolerations"] = [{"key": f"{DRIVER}/unhealthy", "operator": "Exists", "effect": "NoSchedule"}]
    scene.api.create(CLAIMS, tolerating)
    scene.api.add(tenant("tolerates", SLEEP))
    scene.report.check("upstream: a claim that tolerates the taint is granted the device", scene.granted("tolerates")["device"] == "gpu-0-shared")
    scene.remove("tolerates")
    scene.tranche.sim_node("gpu", "0", "back")
    until("kubelet to report the device as healthy again", lambda: reported("Healthy"))
    scene.reported("patient")
    scene.untainted()
    scene.report.check("case 11: all of it is back with the GPU, and the pod is the same", scene.api.pod("patient")["status"]["containerStatuses"][0]["restartCount"] == 0)
    scene.remove_all("patient")


def taints_of_an_administrator(scene):
    scene.put("evicted", "6Gi", "20", command=SLEEP)
    scene.api.until_phase("evicted", "Running")
    scene.api.create(RULES, {"apiVersion": "resource.k8s.io/v1beta2", "kind": "DeviceTaintRule", "metadata": {"name": "repair"}, "spec": {
        "deviceSelector": {"driver": DRIVER, "pool": NODE, "device": "gpu-0-shared"}, "taint": {"key": "example.com/repair", "effect": "NoExecute"}}})
    until("the pod to be evicted", lambda: scene.api.pod("evicted") is None)
    scene.unprepared()
    scene.report.check("upstream: a DeviceTaintRule with NoExecute evicts the pod, and its claim is unprepared", True)
    scene.api.call("DELETE", f"{CLAIMS}/evicted")
    scene.put("elsewhere", "6Gi", "20", command=SLEEP)
    scene.report.check("upstream: newcomers get the other GPU", scene.granted("elsewhere")["device"] == "gpu-1-shared")
    scene.api.call("DELETE", f"{RULES}/repair")
    scene.put("after", "6Gi", "20", command=SLEEP)
    scene.report.check("upstream: and this one when the rule is gone", scene.granted("after")["device"] == "gpu-0-shared")
    scene.remove_all("elsewhere", "after")


def a_daemon_set(scene):
    """Monitoring on every node, as an exporter does it, beside a share and a whole GPU."""
    scene.api.call("PATCH", "/api/v1/namespaces/default", {"metadata": {"labels": {"resource.kubernetes.io/admin-access": "true"}}})
    scene.put("whole", device_class="tranche-gpu", command=SLEEP)
    scene.granted("whole")
    scene.put("share", "100Gi", "90", command=SLEEP)
    for name in ("whole", "share"):
        scene.api.until_phase(name, "Running")
    request = {"name": "gpu", "exactly": {"deviceClassName": "tranche-monitor", "adminAccess": True, "allocationMode": "All"}}
    scene.api.create(f"{API}/namespaces/default/resourceclaimtemplates", {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate", "metadata": {"name": "monitor"},
                                                                          "spec": {"spec": {"devices": {"requests": [request]}}}})
    body = tenant("exporter", ["/bin/sh", "-c", "env; exec sleep 100000"])["spec"]
    body.update(resourceClaims=[{"name": "gpu", "resourceClaimTemplateName": "monitor"}], restartPolicy="Always")
    labels = {"app": "exporter"}
    sets = "/apis/apps/v1/namespaces/default/daemonsets"
    scene.api.create(sets, {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "exporter"},
                            "spec": {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": body}}})

    def running():
        return next((p for p in scene.api.pods("app=exporter") if p["status"].get("phase") == "Running"), None)
    found = until("the exporter to run", running)
    parts = [part for one in scene.tranche.status()["dra"]["claims"] if one["name"].startswith("exporter") for part in one["parts"]]
    scene.report.check("case 14: a DaemonSet with admin access to the monitor devices of all GPUs runs beside a whole GPU and a share",
                       sorted(part["gpu"] for part in parts) == sorted(scene.tranche.gpus()) and all(part["kind"] == "monitor" for part in parts),
                       found["metadata"]["name"])
    scene.api.call("DELETE", f"{sets}/exporter", {"propagationPolicy": "Foreground"})
    until("the exporter to be gone", lambda: not scene.api.pods("app=exporter"))
    scene.remove_all("whole", "share")


def a_container_ends_after_its_files(scene):
    """The specification is deleted and restored; then the container's program is killed, and kubelet starts the container again."""
    scene.api.create(CLAIMS, claim("again", "6Gi", "20"))
    body = tenant("again", HOLD)
    body["spec"]["restartPolicy"] = "Always"
    scene.api.add(body)
    scene.attached("again")
    path = scene.spec_of("again")
    os.unlink(path)
    until("the specification to be back", lambda: os.path.exists(path))
    os.kill(called(scene.api.pod("again"), "/usr/bin/sim-cuda"), signal.SIGKILL)

    def restarted():
        states = (scene.api.pod("again") or {}).get("status", {}).get("containerStatuses", [{}])
        return states[0].get("restartCount") == 1 and "running" in states[0]["state"]
    until("the container to run again", restarted)
    with open(path) as file:
        before = file.read()
    seen = scene.attached("again")
    scene.report.check("case 6: a container that ends after its specification was lost and restored starts again, with its limits", seen["limit"] // MIB == 6144, seen["limit"] // MIB)
    return before


def booted(runtime):
    """How often; before it is done, it answers and refuses kubelet."""
    with open(runtime.program.log, errors="replace") as log:
        return log.read().count("containerd successfully booted")


def reboot(scene, world, before):
    """Everything that runs ends at once, and /run is empty afterwards: the pod's claim is prepared again with the same result."""
    kubelet, tranche, runtime = world.kubelet, world.tranche, world.runtime
    container_id = scene.api.pod("again")["status"]["containerStatuses"][0]["containerID"]
    kubelet.stop(signal.SIGKILL)
    tranche.node.stop(signal.SIGKILL, 10)
    tranche.mps.stop(signal.SIGKILL, 10)
    for line in runtime.ctr("tasks", "ls").stdout.splitlines()[1:]:
        runtime.ctr("tasks", "kill", "-s", "SIGKILL", "-a", line.split()[0], check=False)
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/comm") as file:
                if file.read().startswith("nvidia-cuda"):
                    os.kill(int(name), signal.SIGKILL)
        except OSError:
            pass
    runtime.stop(signal.SIGKILL)
    for path in (CDI, STATE, "/run/nvidia"):
        shutil.rmtree(path, ignore_errors=True)
    runtime.start()
    until("containerd to know its containers again", lambda: booted(runtime) == 2)
    tranche.start_mps()
    start_agent(world)
    kubelet.start()
    path = scene.spec_of("again")

    def runs():
        found = scene.api.pod("again")["status"]
        states = found.get("containerStatuses", [{}])[0]
        return "running" in states.get("state", {}) and states["containerID"] != container_id
    until("the pod to run again", runs)
    with open(path) as file:
        scene.report.check("case 5: after a reboot of the node the claim is prepared again, with the same specification", file.read() == before)
    seen = scene.attached("again")
    scene.report.check("case 5: and the pod computes under its limits again", seen["limit"] // MIB == 6144 and prepared(scene) == ["again"], prepared(scene))
    scene.published()


def lost_records(scene, world):
    """The claim's record and specification are both gone: for the agent it is a claim that it never knew."""
    tranche = world.tranche
    tranche.node.stop(signal.SIGKILL, 10)
    os.unlink(scene.spec_of("again"))
    os.unlink(f"{STATE}/claims.txt")
    start_agent(world)
    scene.published()
    scene.report.check("case 8: with its record and its specification lost the claim is not known", not prepared(scene))
    scene.api.call("DELETE", f"{PODS}/again")
    until("the pod to be gone", lambda: scene.api.pod("again") is None)
    until("the claim to be deallocated", lambda: scene.result("again") is None)
    scene.report.check("case 8: the unprepare of an unknown claim succeeds, and its pod ends", True)
    scene.api.call("DELETE", f"{CLAIMS}/again")


def the_agent_is_away(scene, world):
    """For longer than kubelet waits before it takes the slices away."""
    report, tranche, api = scene.report, world.tranche, scene.api
    scene.put("held", "6Gi", "20", command=HOLD)
    scene.put("leaves", "6Gi", "20", command=HOLD)
    for name in ("held", "leaves"):
        api.until_phase(name, "Running")
    tranche.node.stop(signal.SIGTERM, 20)
    began = time.monotonic()
    scene.put("early", "6Gi", "20", command=HOLD)
    scene.granted("early")
    api.call("DELETE", f"{PODS}/leaves")
    message = scene.refusal("early", "not registered")
    report.check("upstream: a pod that is placed while the driver is away waits on the node", api.pod("early")["status"]["phase"] == "Pending", message[-140:])
    until("kubelet to take the slices away", lambda: not scene.slices())
    report.check("case 19: kubelet takes the slices away when the driver was away for 30 s", time.monotonic() - began > 25, f"{time.monotonic() - began:.0f} s")
    report.check("upstream: a pod that is deleted meanwhile is not gone before its claim is unprepared", api.pod("leaves") is not None)
    start_agent(world)
    scene.published()
    began = time.monotonic()
    until("the slices to be back", lambda: len(scene.slices()) == 2)
    api.until_phase("early", "Running")
    until("the deleted pod to be gone", lambda: api.pod("leaves") is None)
    report.check("upstream: with the driver back the slices are published, the pod runs, and the deleted one is gone", api.pod("held")["status"]["containerStatuses"][0]["restartCount"] == 0,
                 f"{time.monotonic() - began:.0f} s")
    scene.remove("held", "early")
    api.call("DELETE", f"{CLAIMS}/leaves")
    scene.unprepared()


def a_new_node_object(scene, world):
    before = scene.api.node()["metadata"]["uid"]
    scene.api.call("DELETE", f"/api/v1/nodes/{NODE}")
    world.kubelet.stop()
    world.kubelet.start()
    until("a new Node object", lambda: scene.api.node().get("metadata", {}).get("uid", before) != before)
    uid = scene.api.node()["metadata"]["uid"]

    def owned():
        found = scene.slices()
        return len(found) == 2 and all(item["metadata"]["ownerReferences"][0]["uid"] == uid for item in found)
    until("the slices of the new Node", owned)
    scene.report.check("case 19: a Node object that is created again owns the slices that are published again", True)
    until("the node to be free of taints", lambda: not scene.api.node().get("spec", {}).get("taints"))
    scene.put("last", "6Gi", "20", command=HOLD)
    scene.api.until_phase("last", "Running")
    scene.report.check("case 19: and claims are served", True)
    scene.remove_all("last")


def run(world):
    world.report.start("Dynamic Resource Allocation when something goes wrong")
    gate = "--feature-gates=DRADeviceTaintRules=true"
    world.control_plane.more = {"kube-apiserver": [gate, "--runtime-config=resource.k8s.io/v1beta2=true"], "kube-scheduler": [gate],
                                "kube-controller-manager": [gate]}
    scene = begin(world)
    a_bad_claim_beside_a_good_one(scene)
    forged(scene)
    health(scene)
    taints_of_an_administrator(scene)
    a_daemon_set(scene)
    before = a_container_ends_after_its_files(scene)
    reboot(scene, world, before)
    lost_records(scene, world)
    the_agent_is_away(scene, world)
    a_new_node_object(scene, world)
