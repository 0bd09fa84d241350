"""Dynamic Resource Allocation with the real scheduler: what the node publishes, which claims are granted where, what waits,
faults, deleted slices, and the way back to the device plugin. The agent has the rights of deploy/rbac and a token that is bound to
its node; the policy and the device classes are those of deploy."""

import time

from lib import own_node
from lib.machine import NODE
from lib.own_node import DEPLOY
from lib.pods import cuda, pod
from lib.report import until
from lib.tranche import sharing

GPU = "nvidia.com/gpu"
DRIVER = "gpu.tranche.io"
CDI = "/var/run/cdi"
HOLD = cuda("--hold", "--report-every", "1")
API = "/apis/resource.k8s.io/v1"
CLAIMS = f"{API}/namespaces/default/resourceclaims"
SLICES = f"{API}/resourceslices"
PODS = "/api/v1/namespaces/default/pods"


def claim(name, memory=None, cores=None, device_class="tranche-shared", gpu=None):
    exactly = {"deviceClassName": device_class}
    if gpu:
        exactly["selectors"] = [{"cel": {"expression": f"device.attributes['{DRIVER}'].uuid == '{gpu}'"}}]
    asked = {key: value for key, value in (("memory", memory), ("cores", cores)) if value}
    if asked:
        exactly["capacity"] = {"requests": asked}
    return {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": name, "namespace": "default"},
            "spec": {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}}}


def tenant(name, command=None, of=None):
    """A pod that holds the claim of its own name, or another."""
    made = pod(name, command=command)
    made["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimName": of or name}]
    made["spec"]["containers"][0]["resources"] = {"claims": [{"name": "gpu"}]}
    return made


class Scene:
    def __init__(self, world):
        self.world, self.api, self.report = world, world.control_plane, world.report
        self.tranche, self.kubelet, self.attached = world.tranche, world.kubelet, world.attached

    def slices(self):
        status, listed = self.api.call("GET", SLICES)
        return sorted(listed["items"], key=lambda item: item["metadata"]["name"]) if status == 200 else []

    def device(self, name):
        return next((device for item in self.slices() for device in item["spec"].get("devices", []) if device["name"] == name), None)

    def published(self, seconds=120):
        def settled():
            found = self.tranche.status().get("dra", {}).get("slices", {})
            return found.get("state") == "published" and found
        return until("the slices to be published", settled, seconds)

    def untainted(self):
        until("no device to be tainted", lambda: not any(d.get("taints") for item in self.slices() for d in item["spec"].get("devices", [])))

    def unprepared(self):
        until("no claim to be prepared", lambda: not self.tranche.status()["dra"].get("claims"))

    def put(self, name, *asked, command=None, **more):
        self.api.create(CLAIMS, claim(name, *asked, **more))
        self.api.add(tenant(name, command))

    def result(self, name):
        """What the scheduler granted to the claim."""
        status, found = self.api.call("GET", f"{CLAIMS}/{name}")
        results = found.get("status", {}).get("allocation", {}).get("devices", {}).get("results", []) if status == 200 else []
        return results[0] if results else None

    def granted(self, name):
        return until(f"claim {name} to be granted", lambda: self.result(name))

    def reported(self, name, wanted="Ready"):
        """The claim's only entry in status.devices, once its condition is true."""
        def found():
            entries = self.api.call("GET", f"{CLAIMS}/{name}")[1].get("status", {}).get("devices", [])
            return next((e for e in entries for c in e["conditions"] if c["type"] == wanted and c["status"] == "True"), None)
        return until(f"status.devices of claim {name} to say {wanted}", found)

    def waits(self, name):
        """The scheduler's reason."""
        def refused():
            found = self.api.pod(name)
            conditions = (found or {}).get("status", {}).get("conditions", [])
            return next((c["message"] for c in conditions if c["type"] == "PodScheduled" and c["status"] == "False" and c.get("message")), None)
        return until(f"the scheduler to refuse pod {name}", refused)

    def refusal(self, name, word):
        """kubelet's event about the pod that has this word."""
        def found():
            status, listed = self.api.call("GET", f"/api/v1/namespaces/default/events?fieldSelector=involvedObject.name={name}")
            messages = [e["message"] for e in listed["items"] if e["reason"] == "FailedPrepareDynamicResources"] if status == 200 else []
            return next((message for message in messages if word in message), None)
        return until(f"kubelet to say {word!r} of {name}", found)

    def spec_of(self, name):
        """Where the CDI specification of the claim is."""
        return f"{CDI}/{DRIVER}-claim_{self.api.call('GET', f'{CLAIMS}/{name}')[1]['metadata']['uid']}.json"

    def remove(self, *names):
        for name in names:
            self.api.call("DELETE", f"{PODS}/{name}", {"gracePeriodSeconds": 0})
        for name in names:
            until(f"pod {name} to be gone", lambda n=name: self.api.pod(n) is None)
            self.api.call("DELETE", f"{CLAIMS}/{name}")
            until(f"claim {name} to be gone", lambda n=name: self.api.call("GET", f"{CLAIMS}/{n}")[0] == 404)

    def remove_all(self, *names):
        """The last ones."""
        self.remove(*names)
        self.unprepared()


def what_is_published(scene, node_uid, gpus):
    report = scene.report
    status = scene.published()
    found = scene.slices()
    report.check("two slices: the devices, and their counters", len(found) == 2 and status["slices"] == 2, [item["metadata"]["name"] for item in found])
    report.check("they belong to the Node", all(item["metadata"]["ownerReferences"][0]["uid"] == node_uid for item in found))
    names = [device["name"] for device in found[0]["spec"]["devices"]]
    report.check("shares from the first GPU, whole GPUs from the last", names == ["gpu-0-shared", "gpu-1-shared", "gpu-1", "gpu-0", "gpu-0-monitor", "gpu-1-monitor"], names)
    shared = found[0]["spec"]["devices"][0]
    report.check("a share is cut by MiB and percent", shared["capacity"]["memory"] == {"value": "143771Mi", "requestPolicy": {"default": "1Gi", "validRange": {"min": "256Mi", "step": "1Mi"}}}
                 and shared["capacity"]["cores"]["requestPolicy"] == {"default": "7", "validRange": {"min": "7", "step": "1"}}, shared["capacity"])
    report.check("the server keeps every field", shared.get("allowMultipleAllocations") and shared.get("consumesCounters") and not status["withheld"], status["withheld"])
    report.check("its UUID is the driver's", shared["attributes"]["uuid"]["string"] == gpus[0])


def who_may_write(scene):
    """The policy, asked in dry runs with the agent's own token."""
    def ask(node, driver=DRIVER, pool=None):
        body = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": "forged"},
                "spec": {"driver": driver, "nodeName": node, "pool": {"name": pool or node, "generation": 1, "resourceSliceCount": 1}}}
        return scene.api.call("POST", f"{SLICES}?dryRun=All", body, token=scene.token)
    until("the API server has read the policy", lambda: ask("another-node")[0] != 201)
    own, other, foreign, pool = ask(NODE), ask("another-node"), ask(NODE, "gpu.nvidia.com"), ask(NODE, pool="another-node")
    scene.report.check("the policy lets the agent write slices of its own node", own[0] == 201, own)
    scene.report.check("and of no other node", other[0] in (403, 422) and "that node only" in other[1], other[1])
    scene.report.check("and of no other driver", foreign[0] in (403, 422) and DRIVER in foreign[1], foreign[1])
    scene.report.check("and of no other node's pool", pool[0] in (403, 422) and "the pool of that name" in pool[1], pool[1])


def who_may_report(scene):
    """Of a claim that is granted here: the API server of 1.36 refuses most of it itself, before the policy."""
    scene.put("mine", "1Gi", "10")
    granted = scene.granted("mine")
    entry = scene.reported("mine")
    scene.report.check("the policies let the agent report on a claim of its node", (entry["driver"], entry["pool"]) == (DRIVER, NODE), entry)

    def ask(status):
        return scene.api.call("PATCH", f"{CLAIMS}/mine/status?dryRun=All", {"status": status}, token=scene.token)
    for what, status in (("the allocation", {"allocation": None}), ("who has reserved it", {"reservedFor": [{"resource": "pods", "name": "forged", "uid": "forged"}]}),
                         ("entries of another driver", {"devices": [{"driver": "gpu.example.com", "pool": NODE, "device": granted["device"]}]})):
        answer = ask(status)
        scene.report.check(f"and not change {what}", answer[0] in own_node.REFUSED, answer[1])
    scene.remove("mine")


def who_gets_what(scene):
    report = scene.report
    scene.put("a", "60Gi", "40")
    a = scene.granted("a")
    report.check("a claim of 60 GiB and 40 % is a share of the first GPU", a["device"] == "gpu-0-shared" and a.get("shareID") and a["consumedCapacity"] == {"memory": "60Gi", "cores": "40"}, a)
    scene.put("b", "60Gi", "40")
    b = scene.granted("b")
    report.check("a second one is packed on the same GPU, as a share of its own", b["device"] == "gpu-0-shared" and b["shareID"] != a["shareID"], b["device"])
    scene.put("c", "100Gi", "50")
    report.check("a third that does not fit there goes to the other GPU", scene.granted("c")["device"] == "gpu-1-shared")
    scene.put("d", "100Gi", "50")
    report.check("a fourth that fits on no GPU waits in the scheduler", "cannot allocate all claims" in scene.waits("d") and scene.result("d") is None, scene.waits("d")[:120])
    scene.put("whole", device_class="tranche-gpu")
    scene.waits("whole")
    report.check("a whole GPU waits while shares are on both", scene.result("whole") is None)
    scene.remove("c")
    d = scene.granted("d")
    report.check("what waits gets the room that another leaves", d["device"] == "gpu-1-shared", d["device"])
    scene.remove("d")
    whole = scene.granted("whole")
    report.check("a whole GPU is granted when its shares are gone", whole["device"] == "gpu-1" and "shareID" not in whole, whole)
    for name in ("a", "b", "whole"):
        scene.api.until_phase(name, "Running")
    report.check("pods with shares and with a whole GPU run", True)
    entry = scene.reported("whole")
    report.check("the status of a claim of a whole GPU names it", entry["device"] == "gpu-1" and entry["data"]["kind"] == "gpu" and "sms" not in entry["data"], entry)
    scene.remove("a", "b", "whole")


def who_runs(scene):
    """Three claims that fill one GPU, each with a program that opens a context and says what it sees. They name the GPU: where the scheduler
    has not seen yet that the claims before are gone, the third waits for that, and does not go to the other GPU."""
    report, api, gpu = scene.report, scene.api, scene.tranche.gpus()[0]
    asked = {"six": ("6Gi", "20"), "twenty": ("20Gi", "30"), "ten": ("10Gi", "50")}
    for name, amounts in asked.items():
        scene.put(name, *amounts, command=cuda("--allocate", "1G", "--hold", "--report-every", "1"), gpu=gpu)
    for name, (memory, cores) in asked.items():
        seen = scene.attached(name)
        report.check(f"a pod with a claim of {memory} and {cores} % runs with that limit and at least these SMs",
                     seen["limit"] >> 20 == int(memory[:-2]) * 1024 and seen["runs_on"] >= 132 * int(cores) // 100, (seen["limit"] >> 20, seen["runs_on"]))
        entry = scene.reported(name, "LimitsEnforced")
        report.check("and the claim's status has what is enforced", entry["data"]["memoryBytes"] == seen["limit"] and entry["data"]["sms"] == seen["runs_on"]
                     and entry["shareID"] == scene.result(name)["shareID"] and entry["pool"] == NODE, entry["data"])
    report.check("every status is written", scene.tranche.status()["dra"]["statusProblem"] == "", scene.tranche.status()["dra"]["statusProblem"])
    report.check("all three are shares of one GPU", {scene.result(name)["device"] for name in asked} == {"gpu-0-shared"})
    scene.put("greedy", "2Gi", "7", command=cuda("--allocate", "3G", "--hold"))
    api.until_phase("greedy", "Failed")
    report.check("a program that allocates beyond its claim is refused", True)
    scene.remove("six", "greedy")
    report.check("the end of one leaves the others alone", all(api.pod(name)["status"]["phase"] == "Running" for name in ("twenty", "ten")))
    scene.remove_all("twenty", "ten")
    report.check("nothing stays prepared", True)


def what_faults_do(scene):
    report, tranche = scene.report, scene.tranche
    before = tranche.status()["dra"]["slices"]["writes"]
    tranche.sim_node("gpu", "0", "lost")
    began = time.monotonic()
    taints = until("the first GPU to be tainted", lambda: (scene.device("gpu-0-shared") or {}).get("taints"), pause=0.005)
    took = (time.monotonic() - began) * 1000
    report.check("a fault taints the shared and the whole device", taints[0]["effect"] == "NoSchedule" and scene.device("gpu-0").get("taints"), taints)
    scene.published()
    report.check("in one write", tranche.status()["dra"]["slices"]["writes"] == before + 1, f"seen {took:.0f} ms after the fault")
    scene.put("newcomer", "1Gi", "10")
    report.check("newcomers go to the healthy GPU", scene.granted("newcomer")["device"] == "gpu-1-shared")
    scene.remove("newcomer")
    tranche.sim_node("gpu", "0", "back")
    until("the taints to be gone", lambda: not any((scene.device(name) or {"taints": 1}).get("taints") for name in ("gpu-0", "gpu-0-shared")))
    scene.put("later", "1Gi", "10")
    report.check("and to the other again when it is back", scene.granted("later")["device"] == "gpu-0-shared")
    scene.remove("later")


def what_deletions_do(scene):
    status, _ = scene.api.call("DELETE", SLICES)
    began = time.monotonic()
    until("both slices to be back", lambda: len(scene.slices()) == 2, pause=0.005)
    scene.report.check("slices that another program deletes are published again", status == 200, f"{(time.monotonic() - began) * 1000:.0f} ms")
    scene.published()


def an_extended_resource(scene):
    scene.api.create_file(f"{DEPLOY}/dra/extended-resource.yaml")
    scene.api.add(pod("legacy", {f"{GPU}.shared": 1}))

    def granted():
        status = (scene.api.pod("legacy") or {}).get("status", {}).get("extendedResourceClaimStatus")
        return status and scene.result(status["resourceClaimName"])
    result = until("the scheduler to make a claim for the pod", granted)
    scene.report.check("a pod that asks for an extended resource gets a share of the default size", result["consumedCapacity"] == {"memory": "1Gi", "cores": "7"}, result["device"])
    scene.api.until_phase("legacy", "Running")
    scene.report.check("and runs", True)
    scene.api.remove("legacy")


def back_to_slots(scene):
    """The same request in slots: the scheduler counts those of the node, and kubelet refuses the pod that it placed."""
    report, tranche, api = scene.report, scene.tranche, scene.api
    tranche.configure(sharing("mps", 10))
    until("the slices to be gone", lambda: not scene.slices())
    report.check("dra.devices: none takes the slices away", True)
    tranche.until_serves(20)
    until("the node to offer 20 slots", lambda: api.amounts()[1] == 20)
    for name in ("six", "six-more"):
        api.add(pod(name, {GPU: 6}))
        api.until_phase(name, "Running")
    api.add(pod("unsolvable", {GPU: 6}))
    failed = api.until_phase("unsolvable", "Failed")
    report.check("six slots with four free on each GPU: as slots the pod fails on the node, as a claim it waits in the scheduler", True, failed["status"].get("reason"))


def condition(scene, reason):
    def found():
        listed = scene.api.node().get("status", {}).get("conditions", [])
        return next((c for c in listed if c["type"] == "TrancheDraReady" and c["reason"] == reason), None)
    return until(f"the condition TrancheDraReady to be {reason}", found)


def begin(world, driver=DRIVER, more="", gpus=2, config=""):
    """A cluster of one node with GPUs whose agent has published them; its token is bound to a pod of this node, as kubelet's own are.
    `more`: keys of dra, where `config` is not the whole configuration."""
    tranche, api = world.tranche, world.control_plane
    world.start_cluster()
    tranche.make_gpus(gpus)
    tranche.configure(config or f"version: v1\ndra:\n  devices: all\n  driverName: {driver}\n{more}")
    own_node.account(api)
    for name in ("rbac/condition", "rbac/dra", "dra/classes", "admission/slices", "admission/own-node", "admission/own-claims"):
        api.create_file(f"{DEPLOY}/{name}.yaml", DRIVER, driver)
    agent = pod("agent", command=["/bin/sh", "-c", "exec sleep 100000"])
    agent["metadata"]["namespace"] = "tranche"
    agent["spec"].update(nodeName=NODE, serviceAccountName="tranche-node")
    uid = api.create("/api/v1/namespaces/tranche/pods", agent)["metadata"]["uid"]
    scene = Scene(world)
    scene.token = own_node.token_of(api, name="agent", uid=uid)
    own_node.kubeconfig(world, scene.token)
    tranche.start_mps()
    start_agent(world)
    scene.published()
    scene.untainted()
    return scene


def start_agent(world, pod_uid="uid-of-the-agents-pod"):
    world.tranche.start_node([f"{world.tranche.build}/bin/tranche", "node", "--config-file", "/etc/kubernetes/tranche.yaml", "--log-format", "json",
                              "--kubeconfig", world.machine.path("agent.json")], env={"NODE_NAME": NODE, "POD_UID": pod_uid})


def run(world):
    world.report.start("Dynamic Resource Allocation")
    scene = begin(world)
    what_is_published(scene, scene.api.node()["metadata"]["uid"], world.tranche.gpus())
    world.report.check("the node's condition says so", condition(scene, "Published")["status"] == "True")
    who_may_write(scene)
    who_may_report(scene)
    who_gets_what(scene)
    what_deletions_do(scene)
    who_runs(scene)
    an_extended_resource(scene)
    what_faults_do(scene)
    back_to_slots(scene)
    condition(scene, "Off")


def run_older_server(world):
    """What an API server of before 1.36 does: the same gates are off there."""
    tranche, api = world.tranche, world.control_plane
    world.report.start("Dynamic Resource Allocation on an API server that drops fields")
    off = ["--feature-gates=" + ",".join(f"{gate}=false" for gate in ("DRAConsumableCapacity", "DRAPartitionableDevices", "DRADeviceTaints"))]
    api.more = {name: off for name in ("kube-apiserver", "kube-scheduler", "kube-controller-manager")}
    scene = begin(world)
    status = scene.published()
    names = [device["name"] for item in scene.slices() for device in item["spec"].get("devices", [])]
    world.report.check("only whole GPUs are published", names == ["gpu-1", "gpu-0"], names)
    world.report.check("status names the gates", all(any(gate in note for note in status["withheld"]) for gate in ("DRAConsumableCapacity", "DRAPartitionableDevices")), status["withheld"])
    world.report.check("and so does the node's condition", "DRAConsumableCapacity" in condition(scene, "Withheld")["message"])
    scene.put("whole", device_class="tranche-gpu")
    world.report.check("a claim gets a whole GPU", scene.granted("whole")["device"] == "gpu-1")
    tranche.sim_node("gpu", "0", "lost")
    until("the lost GPU to be left out", lambda: scene.device("gpu-0") is None)
    world.report.check("a faulty GPU is left out, since a taint would be dropped", scene.device("gpu-1") is not None)
