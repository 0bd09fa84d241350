#!/usr/bin/env python3
"""What `tranche node` and `tranche mps` cost on one GPU: CPU time and resident memory while nobody has the GPU, and while one client holds
memory of it. Needs root, an idle GPU with MPS, and a build; --simulated runs on the stand-ins. It changes no setting of the GPU."""

import os, sys, time

from gpu_bed import Machine, Node, wait_for
from rows import parsed, parser, table, title


def cpu_ms(pid):
    """Of all its threads, since they began."""
    total = 0
    for task in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{task}/schedstat") as file:
            total += int(file.read().split()[0])
    return total / 1e6


def resident_mib(pid):
    with open(f"/proc/{pid}/status") as file:
        return next(int(line.split()[1]) // 1024 for line in file if line.startswith("VmRSS"))


def cost(node, seconds, when):
    pids = {name: node.parts[name].pid for name in ("node", "mps")}
    before = {name: cpu_ms(pid) for name, pid in pids.items()}
    time.sleep(seconds)
    figures = [f"{(cpu_ms(pids[name]) - before[name]) / seconds:.2f} ms/s, {resident_mib(pids[name])} MiB" for name in pids]
    return (when, *figures, f"{node.status()['guard']['paceMs']} ms")


def main():
    made = parser(__doc__)
    made.add_argument("--seconds", type=float, default=15)
    args = parsed(made)
    machine = Machine(args)
    node = Node(machine)
    wait_for(lambda: node.status()["guard"]["paceMs"] == 1000)  # what a start does is done
    rows = [cost(node, args.seconds, "nobody has the GPU")]
    tenant = node.tenant("one")
    client = tenant.client()
    attached = client.ready() and client.ask("alloc 1024").get("code") == 0
    wait_for(lambda: node.status()["guard"]["paceMs"] < 1000)
    rows.append(cost(node, args.seconds, "one client holds 1 GiB"))
    client.leave()
    tenant.delete()
    killed = node.stop()
    machine.clean()
    print(title(machine), *table("", "`tranche node`", "`tranche mps`", "the guard looks every", rows=rows), sep="\n")
    return 0 if attached and not killed else 1


if __name__ == "__main__":
    sys.exit(main())
