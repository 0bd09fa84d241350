"""What /metrics says of pods: each container's figures under its names, through restarts of containers, kubelet and agent and through a
change of tenants on the same slots; the DCGM names beside them."""

import os
import re
import signal
import urllib.request

from lib.containers import called
from lib.machine import NODE
from lib.pods import container, cuda, pod
from lib.report import until
from lib.tranche import CONFIG, sharing

GPU = "nvidia.com/gpu"
ADDRESS = "127.0.0.1:9400"
LEAST = 512 << 20  # bytes; a client has a little more than it allocates
ROW = re.compile(r"^(\w+)\{(.*)\} (\S+)$", re.MULTILINE)


def rows(name, path="/metrics"):
    """By (pod, container) the values of a metric; None where the agent does not answer."""
    try:
        with urllib.request.urlopen(f"http://{ADDRESS}{path}", timeout=10) as answer:
            page = answer.read().decode()
    except OSError:
        return None
    found = {}
    for metric, text, value in ROW.findall(page):
        labels = dict(re.findall(r'(\w+)="([^"]*)"', text))
        if metric == name and labels.get("pod"):
            found.setdefault((labels["pod"], labels["container"]), []).append(float(value))
    return found


def tenant(name, slots, gib, **more):
    return pod(name, {GPU: slots}, cuda("--allocate", f"{gib}G", "--hold"), **more)


class Figures:
    """The memory of each container as the page says it, against what its program allocated. `former`: containers that had a row."""

    def __init__(self, report):
        self.report, self.wanted, self.former, self.ever = report, {}, set(), set()

    def right(self):
        seen = rows("tranche_tenant_memory_used_bytes") or {}
        self.ever |= {key for key, values in seen.items() if any(values)}
        near = {key: len(values) == 1 and 0 <= values[0] - (self.wanted.get(key, -9) << 30) < LEAST for key, values in seen.items()}
        return set(seen) == set(self.wanted) and all(near.values()) and seen

    def check(self, what):
        seen = until(f"the figures: {what}", self.right)
        wrong = self.ever - set(self.wanted) - self.former
        self.report.check(what, not wrong, wrong or {" ".join(key): f"{values[0] / 2**30:.1f} GiB" for key, values in seen.items()})


def run(world):
    report, kubelet, tranche, api = world.report, world.kubelet, world.tranche, world.control_plane
    report.start("figures of pods")
    world.start_cluster()
    gpus = tranche.make_gpus(2)
    tranche.configure(sharing("mps", 10))
    tranche.start_mps()

    def agent():
        tranche.start_node([f"{tranche.build}/bin/tranche", "node", "--config-file", CONFIG, "--kubeconfig", api.kubeconfig, "--node-name", NODE,
                            "--listen", ADDRESS, "--dcgm-names", "new"])

    agent()
    tranche.until_serves(20)

    figures = Figures(report)
    api.add(tenant("train", 4, 20))
    api.add(tenant("serve", 1, 5, restart="Always"))
    api.add(pod("pair", containers=[container("left", {GPU: 1}, cuda("--allocate", "2G", "--hold")), container("right", {GPU: 1}, cuda("--allocate", "3G", "--hold"))]))
    for name in ("train", "serve", "pair"):
        api.until_phase(name, "Running")
    figures.wanted = {("train", "main"): 20, ("serve", "main"): 5, ("pair", "left"): 2, ("pair", "right"): 3}
    figures.check("each container has its figure, under its names")
    limits = rows("tranche_tenant_memory_limit_bytes")
    report.check("and its limit: four slots and one", {key: round(values[0] / 2**20) for key, values in limits.items() if key[0] in ("train", "serve")}
                 == {("train", "main"): 57508, ("serve", "main"): 14377}, limits)

    dcgm = rows("DCGM_FI_DEV_FB_USED_BYTES", "/metrics/dcgm") or {}
    report.check("DCGM's name has the same memory, in bytes, one row for a container", dcgm == rows("tranche_tenant_memory_used_bytes"), dcgm)
    whole = rows("DCGM_FI_DEV_GPU_UTIL_RATIO", "/metrics/dcgm")
    report.check("what DCGM's exporter says of a whole GPU is booked on none of its tenants", not whole, whole)

    before = called(api.pod("serve"), "/usr/bin/sim-cuda")
    os.kill(before, signal.SIGKILL)
    until("the container to start again", lambda: called(api.pod("serve"), "/usr/bin/sim-cuda") not in (None, before))
    figures.check("a container that was killed and started again: one row, the same names")

    kubelet.stop(signal.SIGKILL)
    figures.check("while kubelet is away")
    kubelet.start()
    tranche.until_serves(20)
    figures.check("after kubelet has started again")

    tranche.node.stop(signal.SIGKILL)
    agent()
    tranche.until_serves(20)
    figures.check("after the agent was killed and has started again")

    api.remove("train")
    figures.former = {("train", "main")}
    figures.wanted.pop(("train", "main"))
    figures.check("a pod that is gone has no row")
    api.add(tenant("next", 4, 30))
    api.add(tenant("last", 4, 1))
    for name in ("next", "last"):
        api.until_phase(name, "Running")
    figures.wanted |= {("next", "main"): 30, ("last", "main"): 1}
    figures.check("other pods on the slots that were given back")

    used = rows("tranche_tenant_memory_used_bytes")
    on_board = sum(used[key][0] for key in used)
    in_use = until("the GPUs' own figures, which are read once a second", lambda: (seen := sum(board(gpus))) > on_board and seen)
    report.check("no memory is booked twice: the tenants' sum is what both GPUs have in use, but for the driver's", 0 < in_use - on_board < 4 * LEAST * len(gpus),
                 f"{on_board / 2**30:.1f} of {in_use / 2**30:.1f} GiB")


def board(gpus):
    with urllib.request.urlopen(f"http://{ADDRESS}/metrics", timeout=10) as answer:
        page = answer.read().decode()
    return [float(value) for metric, text, value in ROW.findall(page) if metric == "tranche_gpu_memory_used_bytes" and any(gpu in text for gpu in gpus)]
