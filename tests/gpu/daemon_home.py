#!/usr/bin/env python3
"""`tranche mps --daemon-home host` with the real programs on a GPU: it is killed, and ended as an upgrade ends it, and started again,
while PyTorch programs of three pods compute. Prints a table and exits 1 when a row does not hold. Needs root, an idle GPU with MPS and
PyTorch; --simulated runs the same rows on the stand-ins. It changes no setting of the GPU.

  killed   SIGKILL, and a new instance at once
  ended    SIGTERM, and a new instance after --gap seconds, in which the programs compute on
  limits   after all that, a program is refused memory beyond its share
  end      `tranche mps --end` leaves no daemon and no server"""

import os, signal, statistics, sys, time

from endings_bed import gone
from gpu_bed import Machine, Node, wait_for
from neighbours import Neighbours
from rows import finish, parsed, parser


class HomeNode(Node):
    def mps_options(self):
        return ["--daemon-home", "host", "--daemon-cgroup", "none", "--daemon-host-process", str(os.getpid())]

    def tranche_mps(self, *more):
        return [f"{self.machine.bin}/tranche", "mps", *self.parts["mps"].args[2:], *more]


def processes(node):
    """The daemon's and its servers' process ids."""
    return [node.pool().get("daemonPid"), *(s["pid"] for s in node.pool().get("servers", []))]


def again(node, how, gap):
    """Ends `tranche mps`, starts it again; seconds until all slots are healthy, None: not in a minute."""
    argv, before = node.parts["mps"].args, processes(node)
    node.parts["mps"].send_signal(how)
    node.parts["mps"].wait(60)
    time.sleep(gap)
    begin = time.monotonic()
    node.start("mps", *argv)
    well = wait_for(lambda: node.pool().get("state") == "serving" and node.healthy() == node.SLOTS)
    return round(time.monotonic() - begin, 2) if well and before == processes(node) else None


def restarts(node, neighbours, how, times, gap):
    took, starts, steps = [], [], []
    for _ in range(times):
        before = [len(program.windows) for program in neighbours.programs]
        took.append(again(node, how, gap))
        steps.append(min(len(program.windows) - count for program, count in zip(neighbours.programs, before)))
        starts.append(neighbours.start())
    dead, right = neighbours.dead(), None not in took and None not in starts
    words = f"{times} times: neighbours dead {dead} of {len(neighbours.programs)}; " + \
        (f"all slots healthy after {statistics.median(took):.1f} s median, {max(took):.1f} worst, by the same daemon and server; a new program starts in "
         f"{statistics.median(starts):.0f} ms median, {max(starts)} worst" if right else f"healthy after {took}, new programs {starts}")
    return {"measured": words, "holds": right and dead == 0, "took": took, "starts": starts, "windows": steps}


def limits(node):
    tenant = node.tenant("limited")
    client = tenant.client()
    share = node.machine.total_mib // node.SLOTS
    fits = client.ready() and client.ask(f"alloc {share * 3 // 4}").get("code") == 0
    refused = client.ask(f"alloc {share // 2}").get("code")
    client.kill()
    tenant.delete()
    return {"measured": f"{share * 3 // 4} MiB {'granted' if fits else 'refused'}, {share // 2} MiB more: CUDA error {refused}", "holds": fits and refused == 2}


def end(node):
    pids = processes(node)
    done = node.machine.run(*node.tranche_mps("--end"), timeout=60)
    wait_for(lambda: all(map(gone, pids)))
    left = [pid for pid in pids if not gone(pid)]
    return {"measured": f"exit status {done.returncode}, {len(left)} of {len(pids)} processes left",
            "holds": done.returncode == 0 and not left, "said": (done.stdout + done.stderr)[-600:]}


def main():
    options = parser(__doc__)
    options.add_argument("--repeats", type=int, default=20)
    options.add_argument("--gap", type=float, default=1)
    args = parsed(options)
    machine = Machine(args)
    node, results = HomeNode(machine), {}
    try:
        neighbours = Neighbours(machine, node)
        results["killed"] = restarts(node, neighbours, signal.SIGKILL, args.repeats, 0)
        results["ended"] = restarts(node, neighbours, signal.SIGTERM, max(1, args.repeats // 4), args.gap)
        results["limits"] = limits(node)
        neighbours.end()
    finally:
        results["end"] = end(node)
        log = node.log("mps")
        node.stop()
    return finish(machine, results, "daemon_home", log=log[-20000:])


if __name__ == "__main__":
    sys.exit(main())
