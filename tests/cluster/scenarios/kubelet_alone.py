"""kubelet without an API server, pods from files: register, allocate, what the container gets, and restarts of everyone."""

import itertools
import os
import signal
import subprocess
import sys

from lib.kubelet import PLUGINS
from lib.pods import PodOutput, container, cuda, events, pod
from lib.report import until
from lib.tranche import sharing

GPU = "nvidia.com/gpu"
ENDPOINT = "/run/tranche/mps"
SOCKET = f"{PLUGINS}/nvidia-gpu.sock"


def phase_of(world, name):
    found = world.kubelet.static(name)
    return found["status"].get("phase") if found else None


def output_of(world, name, seconds=120, of=""):
    def output():
        found = world.kubelet.static(name)
        said = PodOutput(world.kubelet.log(found, of)) if found else None
        return said if said and said.complete else None
    return until(f"pod {name} to print what it was given", output, seconds)


def container_ids(world, *names):
    """By pod: its containers and how often they were restarted, as soon as kubelet knows them all as running."""
    def known():
        pods = {name: world.kubelet.static(name) for name in names}
        found = {name: [(s["containerID"], s["restartCount"]) for s in pod["status"].get("containerStatuses", [])
                        if "running" in s.get("state", {})] for name, pod in pods.items() if pod}
        return found if len(found) == len(names) and all(found.values()) else None
    return until(f"kubelet to know {', '.join(names)} as running", known)


def take_away(world, *names):
    for name in names:
        world.kubelet.remove(name)
    until("pods to be gone", lambda: not any(world.kubelet.static(name) for name in names))


# Connects to each socket of $1… and says to which it could.
CONNECT = """
import socket, sys
for path in sys.argv[1:]:
    for kind in (socket.SOCK_SEQPACKET, socket.SOCK_STREAM):
        try:
            with socket.socket(socket.AF_UNIX, kind) as s:
                s.connect(path)
                print(path)
        except OSError as error:
            print(error.strerror, file=sys.stderr)
"""


def reached_by_nobody(root="/run/nvidia/mps"):
    """Sockets below the MPS root to which a process of user 65534 outside of containers connects, and the errors of the others."""
    sockets = [os.path.join(folder, name) for folder, _, names in os.walk(root) for name in names
               if name in ("control", "control_privileged", "mps.sock")]
    if len(sockets) < 4:
        return ["too few sockets to try", *sockets], ""
    done = subprocess.run(["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", sys.executable, "-c", CONNECT, *sockets],
                          capture_output=True, text=True)
    return done.stdout.split(), f"{len(sockets)} sockets: " + ", ".join(sorted(set(done.stderr.split("\n")) - {""}))


def run(world):
    report, kubelet, tranche = world.report, world.kubelet, world.tranche
    report.start("kubelet alone, MPS")
    gpus = tranche.make_gpus(4)
    tranche.configure(sharing("mps", 10))
    kubelet.start()
    files = world.machine.files()
    tranche.start_mps()
    tranche.start_node()
    tranche.until_serves(40)
    report.check("4 GPUs x 10 slots are registered with a real kubelet and healthy", True)

    kubelet.put(pod("one", {GPU: 1}))
    kubelet.put(pod("three", {GPU: 3}))
    one, three = output_of(world, "one"), output_of(world, "three")
    report.check("NVIDIA_VISIBLE_DEVICES names one GPU of the node", one.env.get("NVIDIA_VISIBLE_DEVICES") in gpus, one.env.get("NVIDIA_VISIBLE_DEVICES"))
    report.check("three slots of one container lie on one GPU", three.env.get("NVIDIA_VISIBLE_DEVICES") in gpus, three.env.get("NVIDIA_VISIBLE_DEVICES"))
    report.check("the endpoint is mounted read-only", one.mounts.get(ENDPOINT, "").startswith("ro"), one.mounts.get(ENDPOINT))
    report.check("the endpoint holds the relay's socket and nothing else", one.endpoint == ["control"], one.endpoint)
    report.check("the container has its endpoint", one.env.get("CUDA_MPS_PIPE_DIRECTORY") == ENDPOINT)
    report.check("three slots get more memory than one", memory_of(three) > 2 * memory_of(one) > 0, f"{memory_of(one)} and {memory_of(three)} MiB")
    held = until("both pods to be seen as holders", lambda: holders(tranche) >= {"one", "three"} and holders(tranche))
    report.check("status names who holds what", True, sorted(held))

    kubelet.put(pod("pair", containers=[container("left", {GPU: 1}), container("right", {GPU: 2})]))
    left, right = output_of(world, "pair", of="left"), output_of(world, "pair", of="right")
    report.check("two containers of a pod have a grant each, of their own size",
                 left.endpoint == right.endpoint == ["control"] and left.roots[ENDPOINT] != right.roots[ENDPOINT] and memory_of(right) >= 2 * memory_of(left) > 0,
                 f"{memory_of(left)} and {memory_of(right)} MiB")
    take_away(world, "pair")

    kubelet.put(pod("fits", {GPU: 1}, cuda("--allocate", f"{memory_of(one) // 2}M", "--kernel-ms", "1", "--hold", "--report-every", "1")))
    kubelet.put(pod("greedy", {GPU: 1}, cuda("--allocate", f"{memory_of(one) * 2}M", "--hold")))
    until("the greedy pod to fail", lambda: phase_of(world, "greedy") == "Failed")
    code = kubelet.static("greedy")["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"]
    report.check("a CUDA client in a container is refused memory beyond its grant", code == 12, f"status {code}")
    until("the modest client to report", lambda: len(events(kubelet.log(kubelet.static("fits")))) > 2)
    report.check("a CUDA client in a container works through its endpoint", phase_of(world, "fits") == "Running")

    reached, why_not = reached_by_nobody()
    report.check("a user of the node without rights reaches neither the daemon nor a tenant's endpoint", not reached, reached or why_not)

    kubelet.put(pod("eleven", {GPU: 11}))
    until("kubelet to refuse the pod", lambda: phase_of(world, "eleven") == "Failed")
    message = kubelet.static("eleven")["status"].get("message", "")
    report.check("eleven slots of ten a GPU are refused with the reason in the pod's status", "lie on 2 GPUs" in message, message[:160])
    take_away(world, "eleven", "greedy")

    before = container_ids(world, "one", "three", "fits")

    def undisturbed(what):
        now = container_ids(world, *before)
        at = len(events(kubelet.log(kubelet.static("fits"))))
        grows = until("the client to go on", lambda: len(events(kubelet.log(kubelet.static("fits")))) > at + 1)
        report.check(f"{what}: running containers are the same, their client goes on", now == before and grows)

    numbers = itertools.count(1)

    def new_pod(what):
        name = f"next-{next(numbers)}"  # kubelet is slow to take a pod of a file that it knew before
        kubelet.put(pod(name, {GPU: 2}))
        said = output_of(world, name)
        report.check(f"{what}: a new pod is served", said.env.get("NVIDIA_VISIBLE_DEVICES") in gpus)
        take_away(world, name)

    kubelet.stop()
    kubelet.start()
    tranche.until_serves(40)
    undisturbed("kubelet restarted")
    new_pod("kubelet restarted")

    kubelet.stop(signal.SIGKILL)
    kubelet.start()
    tranche.until_serves(40)
    undisturbed("kubelet killed")
    new_pod("kubelet killed")

    tranche.node.stop()
    report.check("the node agent removes its socket when it stops", not os.path.exists(SOCKET))
    undisturbed("node agent stopped")
    tranche.start_node()
    tranche.until_serves(40)
    undisturbed("node agent started again")
    new_pod("node agent started again")

    tranche.node.stop(signal.SIGKILL)
    tranche.start_node()
    tranche.until_serves(40)
    undisturbed("node agent killed")
    new_pod("node agent killed")

    old = tranche.node
    tranche.start_node(name="node-newer")
    until("the newer agent to serve", lambda: tranche.status().get("pid") == tranche.node.pid and tranche.resource().get("registered"))
    report.check("upgrade: a newer agent takes over while the old one runs", old.running())
    old.stop()
    tranche.until_serves(40)
    report.check("upgrade: the old one leaves the newer one's socket alone", os.path.exists(SOCKET))
    undisturbed("agent upgraded")
    new_pod("agent upgraded")

    tranche.sim_node("gpu", "0", "lost")
    until("slots of the lost GPU to be unhealthy", lambda: tranche.resource().get("healthy") == 30)
    report.check("a lost GPU takes only its own slots", True, "30 of 40")
    new_pod("one GPU lost")
    tranche.sim_node("gpu", "0", "back")
    tranche.until_serves(40)
    report.check("a GPU that is back is healthy again, without a restart", True)

    take_away(world, "one", "three", "fits")
    tranche.stop()
    left = [name for name in os.listdir(PLUGINS) if "nvidia" in name]
    report.check("nothing of ours is left in kubelet's directory", not left, left)
    changed = files.items() ^ world.machine.files().items()
    strange = sorted({path for path, _ in changed if not path.startswith(("/run/tranche", "/run/nvidia"))})
    report.check("nothing is written outside our own folders", not strange, strange[:5])
    kubelet.stop()


def memory_of(output):
    """MiB of the grant, from the client's variable."""
    value = output.env.get("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT", "")
    digits = value.rpartition("=")[2].rstrip("MGKB")
    return int(digits) if digits.isdigit() else 0


def holders(tranche):
    """Names of pods that the status document knows as holders."""
    return {grant["pod"].removesuffix("-tranche-node") for grant in tranche.status().get("grants", []) if grant.get("pod")}
