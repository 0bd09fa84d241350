#!/usr/bin/env python3
"""ResourceClaims on one GPU with real programs: `tranche mps` and `tranche node` (dra.devices: all, compute mode left alone), kubelet's
calls made by its double, an API that has the claims and their pods. Three claims share the GPU: 6 GiB and 20 % of the SMs, 20 GiB and
30 %, 10 GiB and 50 %. Prints a table last and exits 1 when a row does not hold.

  prepare  the three are prepared; how long each call takes
  share    what PyTorch sees in each: SMs, memory, and the speed of bf16 products, all three at once
  limit    a program in each takes memory until it is refused
  delete   the busy one of 50 % is deleted with a grace, and its claim unprepared, while the others serve and train
  empty    after the last unprepare nothing is left

Needs root, an idle GPU with MPS, PyTorch and a build; --simulated runs the same rows on the stand-ins. It changes no setting of the GPU.
Raw results go to $OUT/claims.json."""

import json, os, statistics, subprocess, sys, time, types

from endings_bed import CONTAINED, DYING, Contained, EndingsNode, delete_pod, median_worst
from gpu_bed import TENANTS, Machine, Program, leftovers, started, wait_for
from pods_api import NODE, SLICES
from rows import clean, parsed, parser, parts, save, title

DRIVER = "gpu.tranche.io"
CLAIMS = {"six": (6, 20), "twenty": (20, 30), "ten": (10, 50)}  # GiB, percent of the SMs
VICTIMS = {"products": ("products", "queue=4"), "deep": ("products", "queue=256"), "fp8": ("fp8",), "convolutions": ("convolutions",)}
MOUNT = 'while [ "$1" != -- ]; do mkdir -p "$2" && mount --bind "$1" "$2" || exit 125; shift 2; done; shift; exec "$@"'


class ClaimsNode(EndingsNode):
    SLOTS, CONFIG = 0, "version: v1\ndra: {devices: all}\nsharing:\n  mps:\n    computeMode: leave\n    resources:\n    - {name: nvidia.com/gpu, replicas: 10}\n"

    def __init__(self, machine):
        super().__init__(machine)
        if not wait_for(lambda: self.status().get("dra", {}).get("serving") and self.api_has_shares()):
            self.show_logs()
            sys.exit(f"the node serves no claims: {self.status().get('dra')}")

    def api_has_shares(self):
        return any(device["name"].endswith("-shared") and not device.get("taints") for path, each in list(self.api.objects.items()) if path.startswith(SLICES)
                   for device in each["spec"].get("devices", []))

    def node_options(self):
        for name in ("plugins_registry", "cdi"):
            os.mkdir(self.path(name))
        return [*super().node_options(), "--cdi-root", self.path("cdi")]

    def call(self, which, name):
        began = time.monotonic()
        done = self.machine.run(f"{self.machine.standins}/sim-kubelet", "claim", self.path(f"plugins_registry/{DRIVER}-reg.sock"), which,
                                f"default/{name}", f"uid-{name}")
        answer = json.loads(done.stdout) if done.stdout.startswith("{") else {"error": done.stderr or "no answer"}
        return {**answer, "ms": round((time.monotonic() - began) * 1000, 1)}

    def prepare(self, name, pod):
        gib, cores = CLAIMS[name.split("-")[0]]
        share = {"request": "gpu", "driver": DRIVER, "pool": NODE, "device": "gpu-0-shared", "shareID": f"share-{name}",
                 "consumedCapacity": {"memory": f"{gib}Gi", "cores": str(cores)}}
        self.api.claim(name, f"uid-{name}", pod, [share])
        answer = self.call("prepare", name)
        if answer["error"]:
            raise RuntimeError(f"claim {name} is not prepared: {answer['error']}")
        with open(self.path(f"cdi/{DRIVER}-claim_uid-{name}.json")) as file:
            edits = json.load(file)["devices"][0]["containerEdits"]
        envs = dict(each.split("=", 1) for each in edits.get("env", []))
        mounts = [(m["hostPath"], m["containerPath"]) for m in edits.get("mounts", [])]
        endpoint = next(host for host, inside in mounts if inside == envs["CUDA_MPS_PIPE_DIRECTORY"])
        return types.SimpleNamespace(name=name, pod=pod, envs=envs, endpoint=endpoint, ms=answer["ms"],
                                     enter=["unshare", "-m", "--propagation", "private", "/bin/sh", "-c", MOUNT, "sh",
                                            *[word for pair in mounts for word in pair], "--"])

    def box(self, grant, words, shape):
        """A container of the claim's pod, with a pid namespace of its own."""
        box = self.wires[grant.pod] = Contained(self, grant.pod, words, shape)
        box.tenant = grant
        box.shim = subprocess.Popen([*grant.enter, sys.executable, CONTAINED, self.path("io.sock"), grant.pod, shape, sys.executable, TENANTS,
                                     *words], env={**self.machine.env, **grant.envs}, stdin=subprocess.DEVNULL)
        self.api.add(grant.pod, f"uid-{grant.pod}", claim=grant.name)
        return box

    def shown(self, name):
        """The claim's part of the grants in the status."""
        return next((g for g in self.status().get("grants", []) if g.get("claim") == name), {})


def at_once(node, grants, words_of):
    """A program in each claim, side by side."""
    programs = {name: Program(node.machine, grants[name].envs, *words_of(name), prefix=grants[name].enter) for name in grants}
    started(programs.values())
    return programs


def prepare(bed):
    took = {name: grant.ms for name, grant in bed.grants.items()}
    return True, [("three claims", f"prepared in {', '.join(f'{ms:.0f}' for ms in took.values())} ms, start of the calling program included")]


def share(bed):
    kind = "share_by_driver" if bed.machine.simulated else "share"
    programs = at_once(bed.node, bed.grants, lambda name: (kind, "wait=1"))
    for program in programs.values():
        program.go()
    lines, holds = [], True
    for name, program in programs.items():
        seen = wait_for(lambda: program.said("measured"))
        gib, cores = CLAIMS[name]
        promised = bed.node.shown(name)["devices"][0]
        least = bed.machine.sms * cores / 100
        right = seen["sms"] >= int(least) and seen["sms"] == promised.get("sms") and promised.get("memoryMiB") == gib << 10
        holds &= right
        lines.append((f"{gib} GiB, {cores} %", f"{seen['sms']} SMs ({least:.1f} requested); {seen['tflops']} TFLOP/s of bf16 "
                      f"products while all three multiply; status says {promised.get('memoryMiB')} MiB, {promised.get('sms')} SMs"))
    print(bed.machine.run(f"{bed.machine.bin}/tranche", "status", "--socket", bed.node.path("run/node.sock")).stdout, file=sys.stderr)
    for program in programs.values():
        program.kill()
    return holds, lines


def limit(bed):
    kind = "hoard" if bed.machine.simulated else "grow"
    programs = at_once(bed.node, bed.grants, lambda name: (kind, "step=128", f"most={bed.machine.total_mib}"))
    lines, holds = [], True
    for name, program in programs.items():
        gib, _ = CLAIMS[name]
        grown = wait_for(lambda: program.said("grown"))
        right = (gib << 10) - 1536 <= grown["held"] <= gib << 10 and program.well()
        holds &= right
        lines.append((f"{gib} GiB", f"refused after {grown['held']} MiB in pieces of 128 MiB; the program {'goes on' if program.well() else 'is gone'}"))
    for program in programs.values():
        program.kill()
    return holds, lines


def delete(bed):
    node, args = bed.node, bed.args
    kinds = {"serve": "six", "train": "twenty"}
    words = {"serve": ("serve",), "train": ("train",)} if not bed.machine.simulated else {"serve": ("steps",), "train": ("steps",)}
    begin = lambda kind: Program(node.machine, bed.grants[kinds[kind]].envs, *words[kind], prefix=bed.grants[kinds[kind]].enter)
    neighbours = {kind: begin(kind) for kind in kinds}
    started(neighbours.values())
    node.call("unprepare", "ten")
    tries, dead, void = [], 0, []
    for i in range(args.repeats):
        if time.monotonic() > bed.until:
            break
        kind = list(VICTIMS)[i % len(VICTIMS)]
        name, victim = f"ten-{i}", VICTIMS[kind] if not bed.machine.simulated else ("spin", "ms=150", "queue=4")
        grant = node.prepare(name, f"busy-{i}")
        box = node.box(grant, [*victim, "wait=1"], ("first", "shell", "init")[i % 3])
        try:
            if not box.ready() or not box.go():
                void.append(f"{kind}: {box.errors} {''.join(box.stderr)[-200:]}")
                continue
            time.sleep(0.5)
            result = delete_pod(node, box, 3)
            undone = node.call("unprepare", name)
            time.sleep(DYING)
            lost = [kind for kind, program in neighbours.items() if not program.well()]
            dead += len(lost)
            tries.append({"kind": kind, **result, "dead": lost, "unprepared_ms": undone["ms"], "unprepared": undone["error"], "granted_ms": grant.ms})
            for kind in lost:
                neighbours[kind].kill()
                neighbours[kind] = begin(kind)
                neighbours[kind].ready(90)
        finally:
            if not tries or tries[-1].get("granted_ms") != grant.ms:
                node.call("unprepare", name)
            box.kill()
            node.api.remove(grant.pod)
            box.shim.wait(60)
    slow = {kind: statistics.median(ms for w in program.windows for ms in w["ms"]) if program.windows else None for kind, program in neighbours.items()}
    for program in neighbours.values():
        program.kill()
    by = {who: sum(t["by"] == who for t in tries) for who in dict.fromkeys(t["by"] for t in tries)}
    odd = [t["unprepared"] for t in tries if t["unprepared"]]
    lines = [("the busy one is deleted", f"neighbours dead {dead} of {2 * len(tries)}; {len(tries)} of {args.repeats} tries; ended by {by}; unprepared in "
              f"{median_worst([t['unprepared_ms'] for t in tries])} ms, prepared in {median_worst([t['granted_ms'] for t in tries])} ms (with the start of the "
              f"calling program); median step of the neighbours {slow}" + (f"; void: {void}" if void else "") + (f"; errors: {odd[:2]}" if odd else ""))]
    bed.tries = tries
    return bool(tries) and dead == 0 and not odd and not void, lines


def empty(bed):
    for name in ("six", "twenty", "ten"):
        bed.node.call("unprepare", name)
    left = [os.path.join(folder, name) for folder, names, _ in os.walk(bed.node.path("mps/pools")) if folder.endswith("/endpoints") for name in names]
    specs, claims = os.listdir(bed.node.path("cdi")), bed.node.status().get("dra", {}).get("claims")
    return not left and not specs and not claims, [("after the last unprepare", f"{len(left)} endpoints, {len(specs)} CDI files, {len(claims or [])} claims in the status")]


ROWS = {"prepare": prepare, "share": share, "limit": limit, "delete": delete, "empty": empty}


def main():
    made = parser(__doc__)
    made.add_argument("--repeats", type=int, default=20, help="busy tenants that are deleted")
    made.add_argument("--budget", type=float, default=400, help="seconds: no new try begins after them")
    args = parsed(made)
    if os.geteuid() != 0:
        print("claims.py needs root: containers get namespaces of their own")
        return 77
    began = time.monotonic()
    machine = Machine(args)
    machine.shows_uvm()
    already, node = leftovers(machine), ClaimsNode(machine)
    bed, rows = types.SimpleNamespace(machine=machine, args=args, node=node, until=began + args.budget, tries=[]), {}
    try:
        bed.grants = {name: node.prepare(name, f"pod-{name}") for name in CLAIMS}
        for name, row in ROWS.items():
            try:
                rows[name] = row(bed)
            except Exception as error:  # a row must not take the others along
                rows[name] = False, [(name, f"{type(error).__name__}: {error}"[:300])]
            print(f"{name}: {rows[name]}", file=sys.stderr, flush=True)
        if not all(holds for holds, _ in rows.values()):
            node.show_logs()
    finally:
        killed = node.stop()
    left = clean(machine, killed, already)
    save(args.out, "claims", {"gpu": machine.gpu, "rows": rows, "tries": bed.tries})
    print(title(machine, began), *parts(rows), sep="\n")
    return 1 if left or killed or not all(holds for holds, _ in rows.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
