#!/usr/bin/env python3
"""Two GPUs in one container: of a resource per GPU (`names: gpu%d`, five slots of each), and of one resource whose request does not fit
on one GPU (`split: span`). Each process is held to the container's share on the GPU that it uses, while a neighbour holds slots of both.
With --seen, instead: what a container gets, by how much of its GPUs it sees. With --deaths: ranks of NCCL with PyTorch are killed in the
middle of their work beside programs of neighbours on both GPUs (docs/internals/evidence/deaths.md: not protected).
Prints a table last and exits 1 when a row does not hold. Needs root, two idle GPUs with MPS, and a build; --simulated runs it on the
stand-ins. It changes no setting of a GPU."""

import concurrent.futures, itertools, json, os, random, shutil, signal, sys, tempfile, threading, time

from gpu_bed import Machine, Node, Program, last_json, signal_to, started, wait_for
from rows import clean, parsed, parser, promises, run_parts, title
from shares import HEAD, memory_of, probe, sms_of, speed_of
from stop_moments import ranks_in

EACH = 20  # slots of a GPU


class Individual(Node):
    SLOTS = 2 * EACH
    CONFIG = HEAD + f"    - {{name: nvidia.com/gpu, replicas: {EACH}, names: nvidia.com/gpu%d}}\n"

    def tenant(self, name, **more):
        tenant = super().tenant(name, **more)
        # It names the GPUs of one of the container's two answers and stands for device nodes, which no container here has.
        tenant.envs.pop("NVIDIA_VISIBLE_DEVICES")
        return tenant


class Span(Individual):
    CONFIG = HEAD + f"    - {{name: nvidia.com/gpu, replicas: {EACH}, split: span}}\n"


def gpus_of(node):
    """UUIDs by index, as the node reports them."""
    found = {int(device["index"]): device["uuid"] for device in node.status().get("devices", [])}
    return [found[index] for index in sorted(found)]


def held_to(report, promised):
    """Words, and whether it is within 2 % of the promise and right about its SMs."""
    if "failed" in report:
        return f"the probe failed: {report['failed']}", False
    got, (attribute, seen) = memory_of(report), sms_of(report)
    return f"{got} of {promised} MiB, {attribute} SMs by attribute, {seen} seen", abs(got / promised - 1) <= 0.02 and attribute == seen


def measure(node, name, tenant, slots, args, rows):
    machine, uuids = node.machine, gpus_of(node)
    for index, uuid in enumerate(uuids):
        promised = machine.total_mib * slots[index] // EACH
        words, holds = held_to(probe(tenant, "--device", uuid, "--find-limit", seconds=args.seconds), promised)
        rows.append((f"{name}: on GPU {index}, {slots[index]} of {EACH} slots", f"{promised} MiB within 2 %", words, holds))
    with concurrent.futures.ThreadPoolExecutor(2) as workers:
        reports = list(workers.map(lambda uuid: probe(tenant, "--device", uuid, seconds=args.seconds), uuids))
    ran = all(map(speed_of, reports))
    rows.append((f"{name}: computing on both at once", "both run", "both ran" if ran else json.dumps(reports)[:300], ran))


def individual(node, args, rows):
    machine = node.machine
    node.tenant("neighbour", limits={"nvidia.com/gpu0": 3, "nvidia.com/gpu1": 3})
    tenant = node.tenant("both", limits={"nvidia.com/gpu0": 5, "nvidia.com/gpu1": 5})
    endpoints = lambda: node.pool().get("endpoints", [])
    wait_for(lambda: endpoints() and all(len(each["limits"] or []) == 2 for each in endpoints()))
    measure(node, "gpu0: 5 with gpu1: 5", tenant, (5, 5), args, rows)
    alone = node.tenant("second", limits={"nvidia.com/gpu1": 7})
    promised = machine.total_mib * 7 // EACH
    words, holds = held_to(probe(alone, "--device", gpus_of(node)[1], "--find-limit", seconds=args.seconds), promised)
    rows.append((f"gpu1: 7 alone, 7 of {EACH} slots of GPU 1", f"{promised} MiB within 2 %", words, holds))


def span(node, args, rows):
    tenant = node.tenant("wide", slots=30)
    grants = lambda: [grant for grant in node.status().get("grants", []) if grant["pod"] == "wide"]  # once kubelet has named it
    held = {device["uuid"]: device["slots"] for grant in wait_for(grants) or [] for device in grant["devices"]}
    slots = [held.get(uuid, 0) for uuid in gpus_of(node)]
    if len(slots) != 2 or 0 in slots:
        rows.append(("span: 30 of 40 slots", "slots of both GPUs", f"{slots}", False))
    else:
        measure(node, "span: 30 of 40 slots", tenant, slots, args, rows)


ONLY = """
import ctypes, os, subprocess, sys, tempfile
minor, command, libc = sys.argv[1], sys.argv[2:], ctypes.CDLL(None)
assert libc.unshare(0x20000) == 0 and libc.mount(b"none", b"/", None, 0x44000, None) == 0
folder = tempfile.mkdtemp()
subprocess.run(["mount", "-t", "tmpfs", "none", folder], check=True)
for name in (f"nvidia{minor}", "nvidiactl", "nvidia-uvm", "nvidia-uvm-tools", "null", "zero", "urandom"):
    open(f"{folder}/{name}", "w").close()
    subprocess.run(["mount", "--bind", f"/dev/{name}", f"{folder}/{name}"], check=True)
os.mkdir(f"{folder}/shm")
subprocess.run(["mount", "--bind", "/dev/shm", f"{folder}/shm"], check=True)
os.chmod(folder, 0o755)
subprocess.run(["mount", "--rbind", folder, "/dev"], check=True)
libc.prctl(38, 1, 0, 0, 0)
os.setgroups([])
os.setgid(65534)
os.setuid(65534)
os.execvp(command[0], command)
"""


def seen(node, args, rows):
    """What a container gets that holds slots of one GPU of two, by what it sees: both, its own by CUDA_VISIBLE_DEVICES, its own by device nodes."""
    uuids, machine = gpus_of(node), node.machine
    program, alone = f"{machine.bin}/tranche", lambda at: ((), {"NVIDIA_VISIBLE_DEVICES": uuids[at]}, ())
    if not machine.simulated:
        import pynvml
        pynvml.nvmlInit()
        minors = [pynvml.nvmlDeviceGetMinorNumber(pynvml.nvmlDeviceGetHandleByUUID(uuid)) for uuid in uuids]
        copy = tempfile.mkdtemp(dir=machine.scratch)  # which the user 65534 can read
        os.chmod(copy, 0o755)
        program = shutil.copy(program, copy)
        for library in filter(None, os.environ.get("LD_LIBRARY_PATH", "").split(":")):
            for name in os.listdir(library) if "build" in library else []:
                shutil.copy(f"{library}/{name}", copy)
        alone = lambda at: ((sys.executable, "-c", ONLY, str(minors[at])), {"LD_LIBRARY_PATH": copy + ":" + os.environ.get("LD_LIBRARY_PATH", "")}, ())
    tenants = {"gpu0: 3": {"nvidia.com/gpu0": 3}, "gpu1: 7": {"nvidia.com/gpu1": 7}, "gpu0: 2, gpu1: 6": {"nvidia.com/gpu0": 2, "nvidia.com/gpu1": 6}}
    for i, (name, limits) in enumerate(tenants.items()):
        tenant = node.tenant(f"t{i}", limits=limits)
        wait_for(lambda: node.pool().get("endpoints"))
        for at in (0, 1):
            slots = limits.get(f"nvidia.com/gpu{at}")
            if not slots:
                continue
            promised = machine.total_mib * slots // EACH
            ways = {"both seen": ((), {}, ("--device", uuids[at])), "CUDA_VISIBLE_DEVICES": ((), {"CUDA_VISIBLE_DEVICES": uuids[at]}, ()),
                    "turned round": ((), {"CUDA_VISIBLE_DEVICES": f"{uuids[1]},{uuids[0]}"}, ("--device", uuids[at]))}
            if len(limits) == 1:
                ways["its device node alone"] = alone(at)
            for way, (prefix, env, words) in ways.items():
                command = (*tenant.enter, *prefix, program, "probe", "--json", "--find-limit", "--seconds", "0", *words)
                done = machine.run(*command, env={**tenant.envs, **env})
                got = memory_of(last_json(done.stdout))
                # With shares of two sizes, a program that hides or reorders its GPUs gets the wrong one.
                right = got and abs(got / promised - 1) <= 0.02 or len(limits) == 2 and way != "both seen"
                rows.append((f"{name}, on GPU {at}: {way}", f"{promised} MiB", f"{got} MiB {done.stderr[-160:].strip()}", bool(right)))
        node.kubelet_command("delete", f"t{i}")


def deaths(node, args, rows):
    """One rank, the other, both at once, and what is left of the program 1 s later. Programs start side by side and die in turn."""
    near = [node.tenant(f"neighbour{i}", limits={f"nvidia.com/gpu{i}": 4}) for i in (0, 1)]
    kinds = [(at, words) for at in (0, 1) for words in (("serve",), ("elementwise", "fresh=1"))]
    began, turn, tries, result = time.monotonic(), threading.Lock(), itertools.count(), {"rank 0": [0, 0], "rank 1": [0, 0], "both ranks": [0, 0]}
    void = []

    def begin():
        # The containers here see both GPUs.
        return started([Program(node.machine, near[at].envs, *words, f"device={at}", prefix=near[at].enter) for at, words in kinds])

    programs = begin()

    def die(program, ranks, which):
        first = [pid for rank, pid in ranks.items() if which in (f"rank {rank}", "both ranks")]
        for pids in (first, ranks.values()):
            for pid in pids:
                signal_to(pid, signal.SIGKILL)
            time.sleep(1)
        program.kill()
        time.sleep(0.5)
        dead = [p for p in programs if not p.well()]
        result[which][0] += len(dead)
        result[which][1] += len(programs)
        if dead:
            for each in programs:
                each.kill()
            programs[:] = begin()

    def loop(tenant):
        while (number := next(tries)) < 3 * args.deaths and time.monotonic() - began < args.budget:
            program = Program(node.machine, tenant.envs, "nccl", f"port={29600 + number}", prefix=tenant.enter)
            ranks, clear = ranks_in(node.machine, program, 90)
            if len(ranks) < 2:
                void.append(f"ranks {sorted(ranks)} of 2, status {program.process.poll()}: {program.errors} {''.join(program.stderr)[-300:]}")
                clear()
                continue
            with turn:
                time.sleep(random.uniform(0.1, 0.4))
                if program.process.poll() is None:  # else another's death has struck it
                    die(program, ranks, list(result)[number % 3])
            clear()

    with concurrent.futures.ThreadPoolExecutor(3) as workers:
        list(workers.map(loop, [node.tenant(f"ranks{i}", limits={"nvidia.com/gpu0": 5, "nvidia.com/gpu1": 5}) for i in range(3)]))
    time.sleep(6)  # until the keeper has closed what the last ones had open
    dead = [p for p in programs if not p.well()]
    for each in programs:
        each.kill()
    rows.append(("NCCL over two GPUs: not started", "", f"{len(void)}: {void[:1]}", True))
    rows.append(("NCCL over two GPUs: after the last close", "no neighbour dies", f"neighbours dead {len(dead)}", not dead))
    for which, (dead, of) in result.items():
        rows.append((f"NCCL over two GPUs, SIGKILL: {which}; {of // len(kinds)} tries", "no neighbour dies", f"neighbours dead {dead} of {of}", of and not dead))


def main():
    made = parser(__doc__)
    made.add_argument("--seconds", type=float, default=1.0, help="how long each computes")
    made.add_argument("--deaths", type=int, default=0, metavar="N", help="tries of each death")
    made.add_argument("--seen", action="store_true", help="only what a container gets, by what it sees")
    made.add_argument("--budget", type=float, default=400, help="seconds of --deaths: no new try begins after them")
    args = parsed(made)
    args.gpus = 2
    machine, rows, killed = Machine(args), [], []
    for kind, part in [(Individual, deaths)] if args.deaths else [(Individual, seen)] if args.seen else [(Individual, individual), (Span, span)]:
        killed += run_parts(kind(machine), args, rows, [part])
    print(title(machine))
    promises(rows)
    left = clean(machine, killed)
    return 0 if rows and all(row[3] for row in rows) and not left else 1


if __name__ == "__main__":
    sys.exit(main())
