"""Under the name of NVIDIA's DRA driver: claims in the shapes of its quick start and of its tests, on the real scheduler and kubelet. The classes
are those of deploy/dra, and a CUDA program in each container reports which GPU it has and with which limits."""

from lib.pods import PRINT_ALL, PodOutput, container, pod
from lib.report import until
from .dra import API, CLAIMS, DEPLOY, HOLD, begin

DRIVER = "gpu.nvidia.com"
TEMPLATES = f"{API}/namespaces/default/resourceclaimtemplates"
MIB = 1 << 20
PRINT_COMMAND = ["/bin/sh", "-c", PRINT_ALL]


def request(name="gpu", device_class="gpu.nvidia.com", **more):
    return {"name": name, "exactly": {"deviceClassName": device_class, **more}}


def selects(expression):
    return {"selectors": [{"cel": {"expression": expression}}]}


def config(sharing, requests=None, kind="GpuConfig"):
    made = {"opaque": {"driver": DRIVER, "parameters": {"apiVersion": "resource.nvidia.com/v1beta1", "kind": kind, "sharing": sharing}}}
    return {**made, "requests": requests} if requests else made


def spec(*requests, **more):
    return {"devices": {"requests": list(requests or [request()]), **more}}


def user(name, uses, command=None, **source):
    """A pod whose claim `gpu` has this source. uses: the request that each container names, by container; None: the whole claim."""
    made = pod(name, containers=[{**container(c, command=command or HOLD), "resources": {"claims": [{"name": "gpu", **({"request": r} if r else {})}]}} for c, r in uses.items()])
    made["spec"]["resourceClaims"] = [{"name": "gpu", **source}]
    return made


class Shapes:
    def __init__(self, scene):
        self.scene, self.api, self.report, self.kubelet = scene, scene.api, scene.report, scene.kubelet

    def template(self, name, made):
        self.api.create(TEMPLATES, {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate", "metadata": {"name": name, "namespace": "default"}, "spec": {"spec": made}})

    def by_template(self, name, made, uses=None, pods=1):
        """Pods of one template; their names."""
        self.template(name, made)
        names = [f"{name}-{n}" for n in range(pods)]
        for one in names:
            self.api.add(user(one, uses or {"main": None}, resourceClaimTemplateName=name))
        return names

    def runs(self, name, *containers):
        """What the program in each container reports, once the pod runs."""
        self.api.until_phase(name, "Running")
        seen = [self.scene.attached(name, one) for one in containers or ("main",)]
        return seen if len(seen) > 1 else seen[0]

    def devices(self, name):
        found = self.api.pod(name)["status"]
        object_name = found["resourceClaimStatuses"][0]["resourceClaimName"] if "resourceClaimStatuses" in found else found["extendedResourceClaimStatus"]["resourceClaimName"]
        results = self.api.call("GET", f"{CLAIMS}/{object_name}")[1]["status"]["allocation"]["devices"]["results"]
        return sorted(result["device"] for result in results)

    def visible(self, name):
        """The GPUs that the CDI specification of the pod's claim shows to a container."""
        parts = [part for one in self.scene.tranche.status()["dra"]["claims"] if one["name"].startswith(name) for part in one["parts"]]
        return sorted({part["gpu"] for part in parts}), sorted({part["grant"] for part in parts})

    def end(self, *names, template=None):
        for name in names:
            self.api.remove(name)
        if template:
            self.api.call("DELETE", f"{TEMPLATES}/{template}")
        self.scene.unprepared()


def one_gpu_each(shapes):
    """Shape 1: two pods, a claim of its own for each."""
    names = shapes.by_template("single", spec(), pods=2)
    seen = [shapes.runs(name) for name in names]
    shapes.report.check("shape 1: two pods of one template have a whole GPU each", len({one["gpu"] for one in seen}) == 2 and all(one["runs_on"] == 132 for one in seen), [one["gpu"][:12] for one in seen])
    shapes.end(*names, template="single")


def two_containers(shapes):
    """Shape 2: two containers of a pod share one GPU."""
    (name,) = shapes.by_template("both", spec(), {"a": None, "b": None})
    a, b = shapes.runs(name, "a", "b")
    shapes.report.check("shape 2: two containers of a pod share the GPU of one claim at the same time", a["gpu"] == b["gpu"] and a["mps"] and b["mps"], a["gpu"][:12])
    shapes.end(name, template="both")


def two_pods(shapes):
    """Shape 3: two pods share one ResourceClaim that a user made."""
    shapes.api.create(CLAIMS, {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": "global", "namespace": "default"}, "spec": spec()})
    names = ["first", "second"]
    for name in names:
        shapes.api.add(user(name, {"main": None}, resourceClaimName="global"))
    seen = [shapes.runs(name) for name in names]
    shapes.report.check("shape 3: two pods share the GPU of one claim", seen[0]["gpu"] == seen[1]["gpu"], seen[0]["gpu"][:12])
    shapes.end(*names)
    shapes.api.call("DELETE", f"{CLAIMS}/global")


def sharing_strategies(shapes):
    """Shape 5: one claim with a GPU for time-slicing and one for MPS, each for two containers."""
    made = spec(request("ts"), request("mps"), config=[
        config({"strategy": "TimeSlicing", "timeSlicingConfig": {"interval": "Long"}}, ["ts"]),
        config({"strategy": "MPS", "mpsConfig": {"defaultActiveThreadPercentage": 50, "defaultPinnedDeviceMemoryLimit": "10Gi"}}, ["mps"])])
    (name,) = shapes.by_template("strategies", made, {"ts-0": "ts", "ts-1": "ts", "mps-0": "mps", "mps-1": "mps"})
    seen = shapes.runs(name, "ts-0", "ts-1", "mps-0", "mps-1")
    sliced, limited = seen[:2], seen[2:]
    shapes.report.check("shape 5: two containers share a GPU without limits by TimeSlicing", len({one["gpu"] for one in sliced}) == 1 and all(one["runs_on"] == 132 for one in sliced))
    shapes.report.check("shape 5: and two share another by MPS, 10 GiB and half of the SMs for each process",
                        len({one["gpu"] for one in limited}) == 1 and limited[0]["gpu"] != sliced[0]["gpu"] and all(one["limit"] // MIB == 10240 and one["runs_on"] == 66 for one in limited),
                        [(one["limit"] // MIB, one["runs_on"]) for one in limited])
    shapes.end(name, template="strategies")


def selection(shapes):
    """Shape 6: by attributes, capacity and UUID."""
    uuids = sorted(shapes.scene.tranche.gpus())
    attributes = f"device.attributes['{DRIVER}']"
    by_model = f"{attributes}.productName.lowerAscii().matches('^.*h200.*$') && {attributes}.architecture == 'Hopper' && {attributes}.cudaComputeCapability.compareTo(semver('9.0.0')) >= 0"
    by_size = f"device.capacity['{DRIVER}'].memory.compareTo(quantity('100Gi')) >= 0"
    for name, expression in (("model", by_model), ("size", by_size), ("one", f"{attributes}.uuid == '{uuids[0]}'")):
        (one,) = shapes.by_template(name, spec(request(**selects(expression))))
        gpu = shapes.runs(one)["gpu"]
        shapes.report.check(f"shape 6: a selector by {name} is met", name != "one" or gpu == uuids[0], gpu[:12])
        shapes.end(one, template=name)
    made = spec(request("x"), request("y"), constraints=[{"requests": ["x", "y"], "distinctAttribute": f"{DRIVER}/uuid"}])
    (one,) = shapes.by_template("apart", made, {"x": "x", "y": "y"})
    x, y = shapes.runs(one, "x", "y")
    shapes.report.check("two requests for two containers are two GPUs", x["gpu"] != y["gpu"])
    shapes.end(one, template="apart")


def several_in_one_request(shapes):
    for name, asked in (("two", {"count": 2}), ("all", {"allocationMode": "All"})):
        (one,) = shapes.by_template(name, spec(request(**asked)))
        shapes.runs(one)
        devices, (gpus, grants) = shapes.devices(one), shapes.visible(one)
        shapes.report.check(f"{name} GPUs of one request are the container's by one endpoint", devices == ["gpu-0", "gpu-1"] and len(gpus) == 2 and len(grants) == 1, devices)
        shapes.end(one, template=name)
    asked = {"count": 2, "capacity": {"requests": {"memory": "6Gi", "cores": "20"}}}
    (one,) = shapes.by_template("spread", spec(request(device_class="tranche-shared", **asked)))
    seen = shapes.runs(one)
    shapes.report.check("two shares of one request are on two GPUs, with a limit on each", shapes.devices(one) == ["gpu-0-shared", "gpu-1-shared"] and seen["limit"] // MIB == 6144, seen["runs_on"])
    shapes.end(one, template="spread")


def extended_resource(shapes):
    shapes.api.add(pod("legacy", {"nvidia.com/gpu": 1}, HOLD))
    gpu = shapes.runs("legacy")["gpu"]
    shapes.report.check("a pod that asks for nvidia.com/gpu gets a whole GPU by the class", shapes.devices("legacy") in (["gpu-0"], ["gpu-1"]), gpu[:12])
    shapes.end("legacy")


def configurations(shapes):
    """Of a class and of a claim, and those that are wrong."""
    limits = config({"strategy": "MPS", "mpsConfig": {"defaultActiveThreadPercentage": 20, "defaultPinnedDeviceMemoryLimit": "4Gi"}})
    shapes.api.create(f"{API}/deviceclasses", {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": "limited"}, "spec": {
        **selects(f"device.driver == '{DRIVER}' && device.attributes['{DRIVER}'].type == 'gpu'"), "config": [limits]}})
    (by_class,) = shapes.by_template("by-class", spec(request(device_class="limited")))
    seen = shapes.runs(by_class)
    shapes.report.check("a class's configuration limits each process", seen["limit"] // MIB == 4096 and seen["runs_on"] == 30, (seen["limit"] // MIB, seen["runs_on"]))
    (by_claim,) = shapes.by_template("by-claim", spec(request(device_class="limited"), config=[config({"strategy": "TimeSlicing"})]))
    seen = shapes.runs(by_claim)
    shapes.report.check("the claim's configuration is used and not its class's", seen["runs_on"] == 132, seen["runs_on"])
    shapes.end(by_class, by_claim, template="by-class")
    wrong = {"unknown-field": (config({"strategy": "MPS", "mpsConfig": {"threads": 50}}), "sharing.mpsConfig has no field \"threads\""),
             "bad-interval": (config({"strategy": "TimeSlicing", "timeSlicingConfig": {"interval": "5ms"}}), "write one of: Default, Short, Medium, Long"),
             "for-mig": (config({"strategy": "MPS"}, ["gpu"], kind="MigDeviceConfig"), "is for MIG devices")}
    for name, (bad, word) in wrong.items():
        (one,) = shapes.by_template(name, spec(config=[bad]))
        said = shapes.scene.refusal(one, word)
        shapes.report.check(f"a configuration that is wrong ({name}) is refused with its field", "config[0].opaque.parameters" in said, said[-160:])
        shapes.api.remove(one)
    shapes.scene.unprepared()


def two_claims_of_one_template(shapes):
    """Shape 7: two claims of one template for the two containers of a pod."""
    shapes.template("each", spec())
    made = pod("pair", containers=[{**container(c, command=HOLD), "resources": {"claims": [{"name": c}]}} for c in ("a", "b")])
    made["spec"]["resourceClaims"] = [{"name": c, "resourceClaimTemplateName": "each"} for c in ("a", "b")]
    shapes.api.add(made)
    a, b = shapes.runs("pair", "a", "b")
    shapes.report.check("shape 7: two containers of a pod, each with a claim of its own, have a GPU each", a["gpu"] != b["gpu"])
    shapes.end("pair", template="each")


def shares_by_capacity(shapes):
    """NVIDIA's shares: `memory` of a GPU is a whole GPU with that much here, and `shares` is a capacity that no device has."""
    names = shapes.by_template("share-memory", spec(request(capacity={"requests": {"memory": "2Gi"}})), pods=2)
    seen = [shapes.runs(name) for name in names]
    shapes.report.check("two pods that ask for memory of a GPU have a whole GPU each", len({one["gpu"] for one in seen}) == 2 and all(one["runs_on"] == 132 for one in seen))
    shapes.end(*names, template="share-memory")
    (name,) = shapes.by_template("share-integer", spec(request(capacity={"requests": {"shares": "1"}})))
    shapes.report.check("a pod that asks for one of NVIDIA's shares waits in the scheduler", "cannot allocate" in shapes.scene.waits(name), shapes.scene.waits(name)[:120])
    shapes.end(name, template="share-integer")


def virtual_machines(shapes):
    """What is not served: GPUs for virtual machines."""
    (name,) = shapes.by_template("vfio", spec(request(device_class="vfio.gpu.nvidia.com")))
    shapes.report.check("a pod of the class vfio.gpu.nvidia.com waits, and the scheduler names the class", "vfio.gpu.nvidia.com" in shapes.scene.waits(name), shapes.scene.waits(name)[:120])
    shapes.end(name, template="vfio")
    made = spec(config=[{"opaque": {"driver": DRIVER, "parameters": {"apiVersion": "resource.nvidia.com/v1beta1", "kind": "VfioDeviceConfig"}}}])
    (name,) = shapes.by_template("vfio-config", made)
    said = shapes.scene.refusal(name, "virtual machine")
    shapes.report.check("a VfioDeviceConfig is refused with its field and what to do", "config[0].opaque.parameters.kind" in said, said[-220:])
    shapes.end(name, template="vfio-config")


CUT = ("3g.71gb", "2g.35gb", "1g.18gb", "1g.18gb")


def mig_devices(shapes):
    """Shape 4: a pod with four containers, each with a MIG device of the same GPU; a pod for each GPU."""
    for gpu in ("0", "1"):
        shapes.scene.tranche.sim_node("gpu", gpu, "mig", *CUT)

    def published():
        found = {d["attributes"]["uuid"]["string"]: d["attributes"] for item in shapes.scene.slices() for d in item["spec"].get("devices", [])}
        return len(found) == 2 * len(CUT) and all(one["type"]["string"] == "mig" for one in found.values()) and found
    devices = until("the MIG devices to be published", published)
    asked = {"mig-1g-0": "1g.18gb", "mig-1g-1": "1g.18gb", "mig-2g": "2g.35gb", "mig-3g": "3g.71gb"}
    requests = [request(name, "mig.nvidia.com", **selects(f"device.attributes['{DRIVER}'].profile == '{profile}'")) for name, profile in asked.items()]
    shapes.template("migs", spec(*requests, constraints=[{"requests": [], "matchAttribute": f"{DRIVER}/parentUUID"}]))

    def visible(name, *containers):
        """The MIG device that each container is given."""
        shapes.api.until_phase(name, "Running")
        output = [until(f"{name} to print", lambda c=c: (t := PodOutput(shapes.kubelet.log(shapes.api.pod(name), c))).complete and t) for c in containers]
        return [one.env["NVIDIA_VISIBLE_DEVICES"] for one in output]
    parents = []
    for name in ("migs-0", "migs-1"):
        shapes.api.add(user(name, {request_name: request_name for request_name in asked}, PRINT_COMMAND, resourceClaimTemplateName="migs"))
        seen = visible(name, *asked)
        parents.append({devices[uuid]["parentUUID"]["string"] for uuid in seen})
        shapes.report.check("shape 4: four containers of a pod have a MIG device each, of the profiles that they ask for and of one GPU",
                            len(set(seen)) == 4 and [devices[uuid]["profile"]["string"] for uuid in seen] == list(asked.values()) and len(parents[-1]) == 1, [uuid[:12] for uuid in seen])
    shapes.report.check("shape 4: a second pod has those of the other GPU", parents[0] != parents[1])
    shapes.api.add(user("migs-2", {"main": None}, PRINT_COMMAND, resourceClaimTemplateName="migs"))
    shapes.scene.waits("migs-2")
    shapes.end("migs-0", "migs-1", "migs-2", template="migs")

    large = request(device_class="mig.nvidia.com", **selects(f"device.capacity['{DRIVER}'].memory.compareTo(quantity('40Gi')) >= 0"))
    shapes.template("any-mig", spec(large, config=[config({"strategy": "TimeSlicing"}, kind="MigDeviceConfig")]))
    shapes.api.add(user("any-mig", {"main": None}, PRINT_COMMAND, resourceClaimTemplateName="any-mig"))
    (uuid,) = visible("any-mig", "main")
    shapes.report.check("a MIG device by its least memory is one that has it, also with a MigDeviceConfig", devices[uuid]["profile"]["string"] == "3g.71gb", devices[uuid]["profile"]["string"])
    shapes.end("any-mig", template="any-mig")
    shapes.template("mig-mps", spec(request(device_class="mig.nvidia.com"), config=[config({"strategy": "MPS"}, kind="MigDeviceConfig")]))
    shapes.api.add(user("mig-mps", {"main": None}, PRINT_COMMAND, resourceClaimTemplateName="mig-mps"))
    said = shapes.scene.refusal("mig-mps", "config[0]")
    shapes.report.check("MPS in a MIG device is refused with its field", "opaque.parameters" in said, said[-220:])
    shapes.end("mig-mps", template="mig-mps")


def alternatives(shapes):
    made = spec({"name": "gpu", "firstAvailable": [
        {"name": "large", "deviceClassName": "gpu.nvidia.com", **selects(f"device.capacity['{DRIVER}'].memory.compareTo(quantity('500Gi')) >= 0")},
        {"name": "usual", "deviceClassName": "gpu.nvidia.com"}]},
        config=[config({"strategy": "MPS", "mpsConfig": {"defaultPinnedDeviceMemoryLimit": "3Gi"}}, ["gpu/large"]),
                config({"strategy": "MPS", "mpsConfig": {"defaultPinnedDeviceMemoryLimit": "5Gi"}}, ["gpu/usual"])])
    (one,) = shapes.by_template("either", made)
    seen = shapes.runs(one)
    shapes.report.check("of alternatives the one that was taken has its own configuration", seen["limit"] // MIB == 5120, seen["limit"] // MIB)
    shapes.end(one, template="either")


def run(world):
    world.report.start("Dynamic Resource Allocation under the name of NVIDIA's driver")
    shapes = Shapes(begin(world, DRIVER, "  split: span\n"))
    shapes.api.create_file(f"{DEPLOY}/dra/nvidia-classes.yaml")
    for shape in (one_gpu_each, two_containers, two_pods, sharing_strategies, selection, several_in_one_request, extended_resource, configurations, alternatives, two_claims_of_one_template, shares_by_capacity,
                  virtual_machines, mig_devices):
        shape(shapes)
