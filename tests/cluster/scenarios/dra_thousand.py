"""A thousand claims at the real scheduler for the shares of one node with eight GPUs: what is granted never exceeds a GPU, every
claim gets its share in the end, and how long that takes. kubelet is stopped once the slices are published, so that the node runs
none of the pods: a pod counts as ended when it is deleted."""

import collections
import time
from concurrent.futures import ThreadPoolExecutor

from lib.machine import NODE
from lib.report import until
from scenarios.dra import CLAIMS, PODS, Scene, begin, claim, tenant

TENANTS, GPUS, MEMORY, CORES = 1000, 8, 4, 10  # GiB and percent of each
AT_A_TIME = GPUS * (100 // CORES)


class Thousand(Scene):
    def __init__(self, world):
        super().__init__(world)
        self.workers = ThreadPoolExecutor(4)
        self.asked, self.granted_after = {}, {}
        self.most = collections.Counter()

    def ask(self, name):
        self.api.create(CLAIMS, claim(name, f"{MEMORY}Gi", str(CORES)))
        made = tenant(name)
        made["spec"]["tolerations"] = [{"operator": "Exists"}]  # kubelet is stopped
        self.asked[name] = time.monotonic()
        self.api.add(made)

    def newly_granted(self):
        status, listed = self.api.call("GET", CLAIMS)
        held, new = collections.Counter(), []
        for item in listed["items"] if status == 200 else []:
            for result in item.get("status", {}).get("allocation", {}).get("devices", {}).get("results", []):
                held[result["device"]] += int(result["consumedCapacity"]["cores"])
                name = item["metadata"]["name"]
                if name not in self.granted_after:
                    self.granted_after[name] = time.monotonic() - self.asked[name]
                    new.append(name)
        for device, cores in held.items():
            self.most[device] = max(self.most[device], cores)
        return new

    def end(self, name):
        self.api.call("DELETE", f"{PODS}/{name}", {"gracePeriodSeconds": 0})
        self.api.call("DELETE", f"{CLAIMS}/{name}")


def run(world):
    api, report = world.control_plane, world.report
    report.start("a thousand claims of one node")
    begin(world, gpus=GPUS)
    scene = Thousand(world)
    sizes = [len(str(item)) for item in scene.slices()]
    report.check("the slices of eight GPUs are far below what etcd stores in an object (1.5 MB)", max(sizes) < 150_000, f"{len(sizes)} slices, the largest {max(sizes)} bytes")
    world.kubelet.stop()
    amounts = {"pods": "2000", "cpu": "1000", "memory": "1000Gi"}
    status, answer = api.call("PATCH", f"/api/v1/nodes/{NODE}/status", {"status": {"capacity": amounts, "allocatable": amounts}})
    report.check("the node has room for the pods", status == 200, answer if status != 200 else "")

    names = [f"t{i:04}" for i in range(TENANTS)]
    began = time.monotonic()
    list(scene.workers.map(scene.ask, names))
    created = time.monotonic() - began
    held = []

    def full():
        held.extend(scene.newly_granted())
        return len(held) >= AT_A_TIME
    until(f"{AT_A_TIME} shares to be granted", full, pause=0.2)
    filled = time.monotonic() - began
    report.check(f"{AT_A_TIME} claims fill the GPUs, the others wait", len(held) == AT_A_TIME, f"{created:.1f} s to create {TENANTS}, full after {filled:.1f} s")

    def served():
        list(scene.workers.map(scene.end, held))
        held[:] = scene.newly_granted()
        return len(scene.granted_after) == TENANTS
    until("every claim to be granted", served, 400, pause=0.2)
    took = time.monotonic() - began
    report.check("no GPU is ever granted beyond its cores", max(scene.most.values()) <= 100 and len(scene.most) == GPUS, dict(scene.most))
    waits = sorted(scene.granted_after.values())
    report.check("every claim gets its share once others end", True, f"{took:.0f} s, {TENANTS / took:.0f} shares a second; from creation to grant: median {waits[TENANTS // 2]:.1f} s, the longest {waits[-1]:.1f} s")
