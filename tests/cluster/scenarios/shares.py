"""Shares of any size under a real kubelet: several slots of a container, resources of which one container holds several, and
GPUs that are one pool."""

from lib.pods import container, cuda, events, pod
from lib.report import until
from scenarios.kubelet_alone import memory_of, phase_of, take_away, output_of

GPU = "nvidia.com/gpu"
TOTAL = 143771  # MiB of an H200


def config(entry, section=""):
    return ("version: v1\nflags:\n  plugin:\n    passDeviceSpecs: true\n    deviceListStrategy: [envvar]\nsharing:\n  mps:\n    failRequestsGreaterThanOne: false\n"
            f"{section}    resources:\n    - name: {GPU}\n{entry}")


def endpoints(tranche):
    """By grant, of how many GPUs its endpoint has limits."""
    status = tranche.status("/run/nvidia/mps/mps.sock")
    return {endpoint["grant"]: len(endpoint["limits"] or []) for pool in status.get("pools", []) for endpoint in pool.get("endpoints", [])}


def contexts(world, name):
    """What a process that opens a context on each of its GPUs says of them."""
    def said():
        found = world.kubelet.static(name)
        lines = [line for line in events(world.kubelet.log(found)) if line.get("event") == "attached"] if found else []
        return lines if len(lines) == 2 else None
    return until(f"pod {name} to have a context on two GPUs", said)


def run(world):
    report, kubelet, tranche = world.report, world.kubelet, world.tranche
    report.start("shares of any size")
    gpus = tranche.make_gpus(2)
    tranche.configure(config("      replicas: 20\n      names: gpu%d\n"))
    kubelet.start()
    tranche.start_mps()
    tranche.start_node()
    for number in range(2):
        tranche.until_serves(20, f"{GPU}{number}")
    report.check("each GPU is a resource of its own: gpu0 and gpu1 with 20 slots", True)

    # Several pods, so that kubelet draws both orders of their resources. A process gets its GPUs by the variable of
    # one answer only; what it says first is which. The container waits until its endpoints know of both.
    names = [f"both-{number}" for number in range(4)]
    firsts = set()
    for name in names:
        kubelet.put(pod(name, {f"{GPU}0": 5, f"{GPU}1": 5}))
        output = output_of(world, name)
        nodes = {node for node in output.nodes if node in ("nvidia0", "nvidia1")}
        firsts.add(output.env.get("NVIDIA_VISIBLE_DEVICES"))
        report.check(f"{name} has the nodes of both GPUs and no limit of one of them in its environment",
                     nodes == {"nvidia0", "nvidia1"} and "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT" not in output.env, sorted(nodes))
    until("both endpoints of each to have both GPUs", lambda: sorted(endpoints(tranche).values()) == [2] * 8)
    report.check("kubelet has named the containers, and every endpoint knows both GPUs", True, f"{len(firsts)} orders were drawn")
    take_away(world, *names)

    # The variable stands for the device nodes in the stand-in, hence the pod's own.
    worker = container("main", {f"{GPU}0": 5, f"{GPU}1": 5}, ["/bin/sh", "-c", "sleep 3; exec /usr/bin/sim-cuda --all-devices --hold"],
                       {"NVIDIA_VISIBLE_DEVICES": ",".join(gpus)})
    for number in range(3):
        name = f"works-{number}"
        kubelet.put(pod(name, containers=[worker]))
        on = contexts(world, name)
        report.check(f"{name} computes on both GPUs with 5 of 20 of each",
                     [line["gpu"] for line in on] == gpus and all(line["limit"] >> 20 == TOTAL * 5 // 20 and line["runs_on"] == 32 for line in on),
                     [(line["limit"] >> 20, line["runs_on"]) for line in on])
        take_away(world, name)

    kubelet.put(pod("one", {f"{GPU}1": 5}, cuda("--allocate", f"{TOTAL * 5 // 20 + 1000}M", "--hold")))
    until("the greedy pod to fail", lambda: phase_of(world, "one") == "Failed")
    report.check("a GPU that is not the first is limited too", True)
    take_away(world, "one")

    tranche.configure(config("      replicas: 20\n"))
    tranche.until_serves(40)
    kubelet.put(pod("one", {GPU: 1}))
    kubelet.put(pod("fifteen", {GPU: 15}))
    one, fifteen = output_of(world, "one"), output_of(world, "fifteen")
    report.check("fifteen of twenty slots are fifteen times the memory of one", memory_of(fifteen) == TOTAL * 15 // 20 and memory_of(one) == TOTAL // 20,
                 f"{memory_of(one)} and {memory_of(fifteen)} MiB")
    take_away(world, "one", "fifteen")
    kubelet.put(pod("split", {GPU: 25}))
    until("kubelet to refuse the pod", lambda: phase_of(world, "split") == "Failed")
    message = kubelet.static("split")["status"].get("message", "")
    report.check("25 slots of 20 a GPU are refused with both GPUs named", all(gpu in message for gpu in gpus) and "split: span" in message, message[:200])
    take_away(world, "split")

    tranche.configure(config("      replicas: 20\n", "    split: span\n"))
    until("one pool of both GPUs", lambda: len(tranche.status("/run/nvidia/mps/mps.sock").get("pools", [])) == 1)
    tranche.until_serves(40)
    spread = container("main", {GPU: 25}, ["/usr/bin/sim-cuda", "--all-devices", "--hold"])
    kubelet.put(pod("span", containers=[spread]))
    on = contexts(world, "span")
    limits = sorted(line["limit"] >> 20 for line in on)
    report.check("with split: span it has a limit on each GPU", limits == [TOTAL * 5 // 20, TOTAL], limits)
    report.check("and the smaller part of its SMs on both", {line["runs_on"] for line in on} == {32}, [line["runs_on"] for line in on])
    take_away(world, "span")
    tranche.stop()
    kubelet.stop()
