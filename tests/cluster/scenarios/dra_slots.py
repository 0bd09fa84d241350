"""Slots of the device plugin beside claims on one node: each on GPUs of its own, a GPU that changes sides while it is held, and pods that ask for
an extended resource where the node has slots of it, none left, or none at all."""

from lib.pods import pod
from lib.report import until
from .dra import API, HOLD, begin, tenant

GPU = "nvidia.com/gpu"
MIB = 1 << 20
# The class of the drop-in, for this driver: pods that ask for nvidia.com/gpu get whole GPUs by claims.
CLASS = {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": "whole-by-name"}, "spec": {
    "extendedResourceName": GPU, "selectors": [{"cel": {"expression": "device.driver == 'gpu.tranche.io' && device.attributes['gpu.tranche.io'].type == 'gpu'"}}]}}


def split(gpus):
    """`gpus` are for claims, the others for two slots each."""
    return ("version: v1\n"
            f"dra: {{devices: {gpus}}}\n"
            "sharing:\n  mps:\n    failRequestsGreaterThanOne: false\n"
            f"    resources:\n    - {{name: {GPU}, replicas: 2}}\n")


class Sides:
    def __init__(self, scene):
        self.scene, self.api, self.report, self.tranche = scene, scene.api, scene.report, scene.tranche

    def devices(self):
        return sorted({device["name"].split("-")[1] for item in self.scene.slices() for device in item["spec"].get("devices", [])})

    def offers(self, slots, gpus):
        """What kubelet and the API server say, once they say it."""
        until(f"{slots} slots", lambda: self.api.amounts()[1] == slots)
        until(f"slices of GPUs {gpus}", lambda: self.devices() == gpus)
        self.scene.untainted()

    def slot(self, name, slots=1):
        self.api.add(pod(name, {GPU: slots}, HOLD))

    def runs(self, name):
        return self.scene.attached(name)

    def is_claim(self, name):
        return "extendedResourceClaimStatus" in self.api.pod(name)["status"]

    def claims_of_gpu(self):
        """Slots that are unhealthy because claims hold their GPU."""
        return [device for device in self.tranche.status()["devices"] if device.get("cause") == "claims"]


def side_by_side(sides):
    report, scene, gpus = sides.report, sides.scene, sides.tranche.gpus()
    sides.offers(2, ["0"])
    report.check("case 13: with a list in dra.devices the slices have its GPUs and the slots are of the others", True, [sides.devices(), sides.api.amounts()])
    sides.slot("slot")
    scene.put("six", "6Gi", "20", command=HOLD)
    slot, six = sides.runs("slot"), sides.runs("six")
    report.check("case 13: a pod with a slot and a pod with a claim run on the GPU of their side", slot["gpu"] == gpus[1] and six["gpu"] == gpus[0] and six["limit"] // MIB == 6144, [slot["gpu"][:12], six["gpu"][:12]])
    scene.put("more", "138Gi", "20")
    report.check("case 13: what does not fit beside the claim waits, and gets nothing of the GPU of the slots", "cannot allocate" in scene.waits("more") and scene.result("more") is None)
    sides.slot("three", 3)
    report.check("case 13: more slots than the node has wait, and get nothing of the GPU of the claims", f"Insufficient {GPU}" in scene.waits("three"))
    scene.remove("more", "three")


def exchanged(sides):
    """The GPUs change sides while both are held."""
    report, scene, api, tranche = sides.report, sides.scene, sides.api, sides.tranche
    tranche.configure(split([1]))
    until("the slots of the claim's GPU to be unhealthy", sides.claims_of_gpu)
    until("slices of GPU 1", lambda: sides.devices() == ["1"])
    report.check("case 13: a GPU that a claim still holds has no healthy slot", until("0 slots", lambda: api.amounts()[1] == 0), sides.claims_of_gpu()[0].get("cause"))
    scene.put("moved", "6Gi", "20", command=HOLD)
    granted = scene.granted("moved")
    message = scene.refusal("moved", "pod default/slot (container main)")
    report.check("case 13: a claim on a GPU whose slots are held is not prepared, and the event names the pod", granted["device"] == "gpu-1-shared", message[-160:])
    api.add(tenant("late", HOLD, "six"))
    late = sides.runs("late")
    report.check("case 20: a second pod of a claim whose device is withdrawn gets what the claim has", late["gpu"] == tranche.gpus()[0] and late["limit"] // MIB == 6144)
    api.remove("slot")
    report.check("upstream: what was refused is prepared when kubelet tries again", sides.runs("moved")["gpu"] == tranche.gpus()[1])
    api.remove("late")
    scene.remove("six")
    sides.offers(2, ["1"])
    report.check("case 13: both sides serve their new GPU when the former holders are gone", True, api.amounts())
    scene.remove_all("moved")


def by_name(sides):
    """Pods that ask for nvidia.com/gpu, with a class that maps the name to whole GPUs of claims."""
    report, scene, api, tranche = sides.report, sides.scene, sides.api, sides.tranche
    api.create(f"{API}/deviceclasses", CLASS)
    for name in ("first", "second"):
        sides.slot(name)
        sides.runs(name)
    report.check("case 12: where the node has slots of the name, pods get slots and no claim", not any(sides.is_claim(name) for name in ("first", "second")))
    sides.slot("third")
    report.check("case 12: and wait when they are taken, although a GPU of claims is free", f"Insufficient {GPU}" in scene.waits("third") and not sides.is_claim("third"), scene.waits("third")[:100])
    api.add(pod("none", {GPU: 0}))
    api.until_phase("none", "Running")
    report.check("upstream: a pod that asks for 0 of it gets nothing", not sides.is_claim("none"))
    for name in ("none", "first", "second", "third"):
        api.remove(name)

    tranche.configure("version: v1\ndra: {devices: all}\n")
    sides.offers(0, ["0", "1"])
    made = pod("both", containers=[dict(pod("x", {GPU: 1}, HOLD)["spec"]["containers"][0], name=name) for name in ("a", "b")])
    api.add(made)
    seen = [scene.attached("both", name)["gpu"] for name in ("a", "b")]
    status = api.pod("both")["status"]["extendedResourceClaimStatus"]
    mapped = {each["containerName"]: each["resourceName"] for each in status["requestMappings"]}
    report.check("case 12: where it has 0, after the slots went, each container gets a whole GPU by a claim", len(set(seen)) == 2 and mapped == {"a": GPU, "b": GPU}, status["requestMappings"])
    sides.slot("waits")
    scene.waits("waits")
    report.check("upstream: no GPU is given away twice by the name", not sides.is_claim("waits"))
    api.remove("both")
    report.check("upstream: the next one gets the GPU when it is free", bool(sides.runs("waits")["gpu"]))
    api.remove("waits")
    scene.unprepared()
    quota(sides)
    tranche.configure(split("none").replace("dra: {devices: none}\n", ""))
    until("four slots", lambda: api.amounts()[1] == 4)
    until("no slices", lambda: not scene.slices())
    sides.slot("again")
    sides.runs("again")
    report.check("case 12: and back: the node has slots again, and pods get them", not sides.is_claim("again"), api.amounts())
    api.remove("again")


def quota(sides):
    place = "/api/v1/namespaces/default/resourcequotas"
    sides.api.create(place, {"metadata": {"name": "gpus"}, "spec": {"hard": {f"requests.{GPU}": "1"}}})
    until("the quota to be known", lambda: sides.api.call("GET", f"{place}/gpus")[1].get("status", {}).get("hard"))
    sides.slot("one")
    status, answer = sides.api.call("POST", "/api/v1/namespaces/default/pods", pod("two", {GPU: 1}))
    sides.report.check("case 12: a quota of the extended resource counts pods that are served by claims", status == 403 and "exceeded quota" in answer, status)
    sides.runs("one")
    sides.api.remove("one")
    sides.api.call("DELETE", f"{place}/gpus")
    sides.scene.unprepared()


def run(world):
    world.report.start("slots and claims on one node")
    sides = Sides(begin(world, config=split([0])))
    side_by_side(sides)
    exchanged(sides)
    by_name(sides)
