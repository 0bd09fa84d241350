"""Row of mps_that_holds.py about a node that others served before: containers hold the GPU without MPS when `tranche mps` begins."""

import os, signal, time

from gpu_bed import Client, leftovers, wait_for

WHOLE = "version: v1\n"


def held_before(machine, daemon, args):
    client = Client(machine, {"CUDA_MPS_PIPE_DIRECTORY": "/nowhere"})
    client.ready()
    alive = daemon.alive()
    client.leave()
    return {"measured": "the daemon serves beside it" if alive else "the daemon has ended"}


def configure(node, text):
    with open(node.path("config.new"), "w") as file:
        file.write(text)
    os.rename(node.path("config.new"), node.path("config.yaml"))


def again(node, name):
    node.start(name, *node.parts[name].args)


def daemons_of(machine):
    return [p for p, command in leftovers(machine).items() if "nvidia-cuda-mps" in command]


def held_after(machine, node, args):
    configure(node, WHOLE)
    if not wait_for(lambda: node.healthy() == 1):
        return {"measured": "the whole GPU was not offered", "holds": False}
    tenant = node.tenant("held")
    client = tenant.client({"CUDA_MPS_PIPE_DIRECTORY": "/nowhere"})
    runs = client.ready() and client.ask("alloc 1024").get("code") == 0
    for name in ("node", "mps"):  # as on a node that we have never seen
        node.parts[name].send_signal(signal.SIGTERM)
        node.parts[name].wait(60)
    if os.path.exists(node.path("mps/other-holders")):
        os.remove(node.path("mps/other-holders"))
    configure(node, node.CONFIG)
    again(node, "mps")
    began = bool(wait_for(lambda: node.pool().get("state") == "serving"))
    begin = time.monotonic()
    again(node, "node")
    left = bool(wait_for(lambda: "without MPS" in str(node.pool().get("reason")) and not daemons_of(machine)))
    gone_ms = round((time.monotonic() - begin) * 1000)
    well = runs and client.well()
    client.leave()
    begin = time.monotonic()
    tenant.delete()
    shared = bool(wait_for(lambda: node.status() and node.healthy() == node.SLOTS))
    shared_ms = round((time.monotonic() - begin) * 1000)
    words = f"its pool {'begins and' if began else 'does not begin and'} {f'has ended {gone_ms} ms after the agent was started' if left else 'stays'}; "
    words += f"the container {'computes on' if well else 'is hit'}; all slots {f'{shared_ms} ms after its end' if shared else 'never'}"
    return {"measured": words, "holds": left and well and shared, "began": began}
