"""The configuration file is edited under running pods: allocatable follows at once, and nobody who holds something notices."""

import shutil

from lib.report import until
from lib.tranche import sharing

GPU = "nvidia.com/gpu"


def run(world):
    report, tranche, api = world.report, world.tranche, world.control_plane
    report.start("a configuration that changes")
    world.share(sharing("mps", 10))
    until("20 slots", lambda: api.amounts() == (20, 20))

    def undisturbed(what, *names):
        world.go_on(f"{what}: clients go on without an error or a restart", *names)

    def edited(what, text, allocatable):
        tranche.configure(text)
        until(f"allocatable {allocatable}", lambda: api.amounts()[1] == allocatable)
        report.check(f"{what}: allocatable {allocatable}", True, api.amounts())

    def waiting():
        return tranche.status().get("change", {}).get("waitingFor", [])

    world.client("one", {GPU: 8})
    world.client("two", {GPU: 3})
    edited("fewer slots", sharing("mps", 5), 10)
    report.check("held slots are still counted", api.amounts()[0] >= 11, api.amounts())
    report.check("status says what waits", waiting(), waiting()[:1])
    undisturbed("fewer slots", "one", "two")

    api.remove("one")
    until("its slots to go", lambda: not waiting())
    report.check("its pod is gone: capacity is what is configured", until("capacity 10", lambda: api.amounts() == (10, 10)), api.amounts())
    undisturbed("its neighbour", "two")

    # The GPU of "two" waits. The other is free, and its pool ends first.
    edited("from MPS to time-slicing", sharing("timeSlicing", 4), 4)
    report.check("the GPU that is held waits", any("MPS" in line and "time-slicing" in line for line in waiting()), waiting()[:1])
    undisturbed("from MPS to time-slicing", "two")
    api.remove("two")
    report.check("it is free, and changes", until("8 slots", lambda: api.amounts() == (8, 8)), api.amounts())

    world.client("three", {GPU: 1})
    tranche.configure("version: v1\nsharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: 0}]}}\n")
    until("the problem to be reported", lambda: tranche.status().get("config", {}).get("problems"))
    report.check("a configuration that cannot be used changes nothing", api.amounts() == (8, 8), api.amounts())
    undisturbed("a configuration that cannot be used", "three")

    # As on a node that another plugin served until now: nothing of ours is there, and "three" computes on.
    tranche.stop()
    for folder in ("/run/tranche", "/run/nvidia/mps"):
        shutil.rmtree(folder, ignore_errors=True)
    tranche.configure(sharing("mps", 10))
    tranche.start_mps()
    pools = lambda: tranche.status("/run/nvidia/mps/mps.sock").get("pools", [])
    until("a pool to serve", lambda: any(pool["state"] == "serving" for pool in pools()))
    tranche.start_node()
    report.check("a node that others served: the free GPU is shared by MPS", until("10 slots", lambda: api.amounts()[1] == 10), api.amounts())
    report.check("a node that others served: the GPU that is held is left alone",
                 until("its pool to wait", lambda: any("without MPS" in pool.get("reason", "") for pool in pools())) and waiting(),
                 [pool.get("reason", "") for pool in pools()])
    undisturbed("a node that others served", "three")

    api.remove("three")
    report.check("its pod is deleted: both GPUs serve MPS", until("20 slots", lambda: api.amounts() == (20, 20)), api.amounts())
