"""MIG partitions on demand with the real scheduler: it grants what fits by the counters, what overlaps waits, instances are made
and destroyed with the claims, over a restart of the agent."""

import signal

from lib.pods import container
from lib.report import until

from .dra import CLAIMS, begin, claim, condition, start_agent, tenant

DRIVER = "gpu.tranche.io"


def partition(scene, name, profile):
    asked = claim(name, device_class="tranche-mig")
    asked["spec"]["devices"]["requests"][0]["exactly"]["selectors"] = [{"cel": {"expression": f"device.attributes['{DRIVER}'].profile == '{profile}'"}}]
    scene.api.create(CLAIMS, asked)
    made = tenant(name)
    made["spec"]["containers"] = [{**container("main", command=["/bin/sh", "-c", "echo $NVIDIA_VISIBLE_DEVICES; exec sleep 100000"]),
                                   "resources": {"claims": [{"name": "gpu"}]}}]
    scene.api.add(made)


def instances(tranche):
    """UUID → profile of the MIG devices that the driver has."""
    lines = [line.split() for line in tranche.sim_node("show").splitlines()]
    return {word: words[2] for words in lines if words[:1] == ["MIG"] for word in words if word.startswith("MIG-")}


def what_is_published(scene):
    report = scene.report
    status = scene.published()
    found = scene.slices()
    sets = [one for item in found for one in item["spec"].get("sharedCounters", [])]
    devices = [one for item in found for one in item["spec"].get("devices", [])]
    report.check("the server keeps the counters of the GPU, in a slice of their own",
                 [one["name"] for one in sets] == ["gpu-0-counter-set"] and sets[0]["counters"]["memory-slice-7"]["value"] == "1" and not status["withheld"], status["withheld"])
    names = {one["name"] for one in devices}
    report.check("each profile at each placement is a device", {"gpu-0-mig-3g71gb-9-0", "gpu-0-mig-3g71gb-9-4", "gpu-0-mig-1g18gb-19-6", "gpu-0-mig-7g141gb-0-0"} <= names, sorted(names))
    report.check("all of them draw on the counters", all(one["consumesCounters"][0]["counterSet"] == "gpu-0-counter-set" for one in devices))
    return found


def same(found, before):
    return [(item["metadata"]["uid"], item["spec"]) for item in found] == [(item["metadata"]["uid"], item["spec"]) for item in before]


def run(world):
    kubelet, tranche, api, report = world.kubelet, world.tranche, world.control_plane, world.report
    report.start("MIG partitions on demand")
    scene = begin(world, gpus=1, more="  partitions: onDemand\n")
    tranche.sim_node("gpu", "0", "mig", "on")
    until("the partitions to be published", lambda: scene.device("gpu-0-mig-1g18gb-19-6"))
    before = what_is_published(scene)

    partition(scene, "first", "3g.71gb")
    partition(scene, "second", "3g.71gb")
    for name in ("first", "second"):
        scene.granted(name)
        api.until_phase(name, "Running")
    granted = {scene.result(name)["device"] for name in ("first", "second")}
    report.check("two claims of half a GPU each are granted at both placements", granted == {"gpu-0-mig-3g71gb-9-0", "gpu-0-mig-3g71gb-9-4"}, granted)
    seen = {name: until(f"{name} to print its device", lambda n=name: kubelet.log(api.pod(n)).strip()) for name in ("first", "second")}
    there = instances(tranche)
    report.check("each pod has an instance of its own", sorted(there.values()) == ["3g.71gb", "3g.71gb"] and all(any(uuid in text for uuid in there) for text in seen.values())
                 and seen["first"] != seen["second"], there)
    report.check("the claim's status names its MIG device", scene.reported("first")["data"]["gpu"] in there)

    partition(scene, "third", "1g.18gb")
    message = scene.waits("third")
    report.check("a third that overlaps waits in the scheduler", "cannot allocate all claims" in message and scene.result("third") is None, message[:120])

    tranche.node.stop(signal.SIGKILL, 10)
    start_agent(world)
    scene.published()
    until("the new agent to know the claims", lambda: len(tranche.status()["dra"].get("claims", [])) == 2)
    report.check("an agent that is killed and started again keeps the instances, the pods and the slices",
                 instances(tranche) == there and same(scene.slices(), before) and scene.result("third") is None)

    scene.remove("first")
    device = scene.granted("third")["device"]
    api.until_phase("third", "Running")
    report.check("the end of a claim frees its part, and the third gets an instance there", device.startswith("gpu-0-mig-1g18gb-19-"), device)
    report.check("the instance of the claim that ended is gone", sorted(instances(tranche).values()) == ["1g.18gb", "3g.71gb"], instances(tranche))
    report.check("the other pod did not notice", api.pod("second")["status"]["phase"] == "Running" and set(instances(tranche)) & set(there))
    scene.remove_all("second", "third")
    report.check("in the end there is no instance, and nothing was published again", instances(tranche) == {} and same(scene.slices(), before), instances(tranche))

    partition(scene, "any", "7g.141gb")
    api.until_phase("any", "Running")
    report.check("then a claim gets all of the GPU", list(instances(tranche).values()) == ["7g.141gb"], instances(tranche))
    scene.remove("any")
    report.check("the node's condition says that it is published", condition(scene, "Published")["status"] == "True")
