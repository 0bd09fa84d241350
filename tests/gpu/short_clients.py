#!/usr/bin/env python3
"""Whether short CUDA programs (starts and ordinary ends) reach the neighbours on a plain MPS control daemon, with an Xid for each harm.

  short_clients.py [--seconds N] ROW...

A row is `short:beside`. short: probe (`tranche probe`, one context, a kernel, an orderly end), context (a Python program with one context
that ends without destroying it), killed (a probe that is killed 50 to 400 ms after its start), contexts (a program that makes and destroys
one context after the other), none. beside: nothing, deep (two live clients with a deep bf16 queue), fp32 (a live client with kernels of
some 100 ms on 8 % of the threads), deaths (clients with a deep bf16 queue are killed, their descriptors held for 5 s), idle (held clients
without work are killed). Each row runs for N seconds; after a harm everything is started anew.

Rows `short:WHEN[:STARTS:DEATHS]` tell which starts do harm: STARTS (8) short programs are starting when DEATHS (2) clients with deep queues
are killed, and none begins before their descriptors are closed (WHEN = at); so many at a time begin while the dead clients are held, and
none was starting at their death (after); they begin after the close, and none is starting at the next death (apart)."""

import ctypes, os, random, subprocess, sys, threading, time

from deaths import Held, World, make_shim
from endings_bed import Witness
from gpu_bed import HERE, Machine, Program, started
from rows import parsed, parser, title

BATCH = 30  # clients that are to die are started before the first of them does: their own starts are not beside a death


class Shorts:
    """Short programs without the limits of the other clients."""

    def __init__(self, kind, world):
        probe = [f"{world.machine.bin}/tranche", "probe", "--json", "--seconds", "0", "--deadline", "10"]
        python = [sys.executable, "-c", f"import sys; sys.path.insert(0, {HERE!r}); from cuda_client import Cuda; Cuda()"]
        self.argv = {"context": python, "contexts": [sys.executable, os.path.abspath(__file__), "--contexts"]}.get(kind, probe)
        self.kind, self.env = kind, {**world.machine.env, **world.daemon.env}
        self.count, self.spans, self.failed, self.threads, self.over = 0, [], [], [], threading.Event()

    def one(self):
        begin = time.monotonic()
        process = subprocess.Popen(self.argv, env=self.env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if self.kind == "killed":
            time.sleep(random.uniform(0.05, 0.4))
            process.kill()
        if self.kind == "contexts":
            text = self.follow(process)
        else:
            text = process.communicate()[0]
            self.count += 1
        self.spans.append((begin, time.monotonic(), process.returncode))
        if process.returncode and self.kind != "killed":
            self.failed.append(text[-200:])

    def follow(self, process):
        text = ""
        for text in process.stdout:
            if not text.startswith("made"):
                break
            self.count += 1
            if self.over.is_set():
                process.kill()
                break
        process.wait()
        return text

    def begin(self, count, spread, go_on):
        """So many at a time, the first of each within `spread` seconds, the next ones while go_on() says so."""
        def loop(wait):
            time.sleep(wait)
            self.one()
            while go_on():
                self.one()

        self.threads = [threading.Thread(target=loop, args=(random.uniform(0, spread),), daemon=True) for _ in range(count)]
        for each in self.threads:
            each.start()

    def end(self):
        for each in self.threads:
            each.join(20)


def contexts():
    lib, device = ctypes.CDLL("libcuda.so.1"), ctypes.c_int()
    codes = [lib.cuInit(0), lib.cuDeviceGet(ctypes.byref(device), 0)]
    while not any(codes):
        context = ctypes.c_void_p()
        codes = [lib.cuCtxCreate_v2(ctypes.byref(context), 0, device)]
        codes += [lib.cuCtxDestroy_v2(context)] if not codes[0] else []
        if not any(codes):
            print("made", flush=True)
    print("codes", codes, flush=True)
    sys.exit(1)


def xids(witness, seconds, zero):
    """Those of the last seconds, with the seconds after the moment `zero`."""
    now = time.monotonic()
    lines = [(at, what) for at, who, what in witness.last(seconds) if who == "kernel" and "Xid" in what]
    return [(round(now + at - zero, 2), what.split("Xid", 1)[1][:60]) for at, what in lines[:2]]


def report(short, beside, count, died, harms, failed):
    print(f"| {short} | {beside} | {count} short programs, {died} deaths | harm {len(harms)} | "
          f"failed {len(failed)} {failed[:1]} |", flush=True)
    for harm in harms:
        print("    ", harm, flush=True)


def row(machine, args, witness, short, beside):
    until, harms, count, died, failed = time.monotonic() + args.seconds, [], 0, 0, []
    while time.monotonic() < until:
        waiting = {"deaths": 4, "idle": 4, "deep": 2}.get(beside, 0)
        world = World(machine, "products,n=1024,queue=4" if beside == "idle" else "deep", waiting=waiting)
        others = [world.next_victim() for _ in range(2 if beside == "deep" else 0)]
        for each in others:
            each.go()
        if beside == "fp32":
            others = started([Program(machine, {**world.client, "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "8"}, "fp32", "n=5632")])
        shorts = Shorts(short, world)
        shorts.begin(0 if short == "none" else 2, 0, lambda: not shorts.over.is_set())
        held, begun = [], time.monotonic()
        while time.monotonic() < until and not world.dead():
            if beside in ("deaths", "idle"):
                one = world.next_victim()
                if beside == "deaths":
                    one.go()
                time.sleep(0.4)
                kept = Held(one.pid, "all")
                one.kill()
                died += 1
                held.append((time.monotonic(), kept))
            time.sleep(0.05)
            for each in [h for h in held if h[0] + 5 < time.monotonic()]:
                list(each[1].close("good"))
                held.remove(each)
        if world.dead():
            time.sleep(0.3)
            now = time.monotonic()
            ended = [(round(b - now, 2), round(e - now, 2), c) for b, e, c in shorts.spans if e > now - 1.5]
            harms.append((round(now - begun), xids(witness, 4, now), ended, [round(death - now, 2) for death, _ in held]))
        shorts.over.set()
        shorts.end()
        count, failed = count + shorts.count, failed + shorts.failed
        for each in others:
            each.kill()
        for _, each in held:
            list(each.close("good"))
        world.end()
    report(short, beside, count, died, harms, failed)


def when(machine, args, witness, short, beside, starting=8, dead=2):
    starting, dead = int(starting), int(dead)
    until, harms, died, failed, lengths, world = time.monotonic() + args.seconds, [], 0, [], [], None
    while time.monotonic() < until:
        world = world or World(machine, "deep", waiting=0)
        batch, starts = started([world.new_victim() for _ in range(BATCH)], 120), Shorts(short, world)
        time.sleep(1)
        while len(batch) >= dead and time.monotonic() < until and not world.dead():
            dying = [batch.pop() for _ in range(dead)]
            for one in dying:
                one.go()
            time.sleep(0.5)
            if beside == "at":
                starts.begin(starting, 0.5, lambda: False)
                time.sleep(0.5)
            held = [Held(one.pid, "all") for one in dying]
            for one in dying:
                one.process.kill()
            death = time.monotonic()
            died += dead
            if beside == "after":
                time.sleep(0.02)
                starts.begin(starting, 0.3, lambda: time.monotonic() < death + 1)
            starts.end()
            for one in dying:
                one.process.wait()
            time.sleep(max(0, death + 2.5 - time.monotonic()))
            alive = not world.dead()
            for each in held:
                list(each.close("good"))
            if beside == "apart" and alive:
                starts.begin(starting, 0.3, lambda: False)
                starts.end()
            if world.dead():
                time.sleep(0.3)
                begun = sorted(round(b - death, 2) for b, e, _ in starts.spans if e > death)[:starting]
                harms.append(("after the close" if alive else "before the close", "Xids, s after the death",
                              xids(witness, time.monotonic() - death, death), "starts", begun))
        failed = failed + starts.failed
        lengths += [e - b for b, e, code in starts.spans if not code]
        for each in batch:
            each.kill()
        if world.dead():
            world.end()
            world = None
    if world:
        world.end()
    median = sorted(lengths)[len(lengths) // 2] if lengths else 0
    report(short, beside, f"{len(lengths)} (median {median:.2f} s)", died, harms, failed)


def main():
    if sys.argv[1:] == ["--contexts"]:
        return contexts()
    made = parser(__doc__)
    made.add_argument("--seconds", type=float, default=60)
    made.add_argument("rows", nargs="+")
    args = parsed(made)
    make_shim()
    machine, witness = Machine(args), Witness("/nonexistent")
    print(title(machine), flush=True)
    for each in args.rows:
        try:
            short, beside, *counts = each.split(":")
            (when if beside in ("at", "after", "apart") else row)(machine, args, witness, short, beside, *counts)
        except Exception as error:  # a row must not take the others along
            print(f"| {each} | {type(error).__name__}: {error}", flush=True)
    machine.clean()


if __name__ == "__main__":
    main()
