#!/usr/bin/env python3
"""Whether short CUDA programs (starts and ordinary ends) reach the neighbours on a plain MPS control daemon, with an Xid for each harm.

  short_clients.py --probe PROGRAM [--seconds N] ROW...

A row is `short:beside`. short: probe (`tranche probe`, one context, a kernel, an orderly end), context (a Python program with one context
that ends without destroying it), killed (a probe that is killed 50 to 400 ms after its start), contexts (a program that makes and destroys
one context after the other), none. beside: nothing, deep (two live clients with a deep bf16 queue), fp32 (a live client with kernels of
some 100 ms on 8 % of the threads), deaths (clients with a deep bf16 queue are killed, their descriptors held for 5 s), idle (held clients
without work are killed). Each row runs for N seconds; after a harm everything is started anew.

Rows `short:WHEN[:STARTS:DEATHS]` tell which starts do harm: STARTS (8) short programs are starting when DEATHS (2) clients with deep queues
are killed, and none begins before their descriptors are closed (WHEN = at); so many at a time begin while the dead clients are held, and
none was starting at their death (after); they begin after the close, and none is starting at the next death (apart)."""

import argparse, os, random, subprocess, sys, threading, time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import deaths
from endings_bed import Witness

HERE = os.path.dirname(os.path.abspath(__file__))


class Shorts:
    def __init__(self, kind, program, env):
        self.kind, self.program, self.env, self.count, self.failed, self.over = kind, program, {**os.environ, **env}, 0, [], threading.Event()
        self.env.pop("LD_PRELOAD", None)
        self.env.pop("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", None)
        self.spans = []
        self.threads = [threading.Thread(target=self.run, daemon=True) for _ in range(0 if kind == "none" else 2)]
        for each in self.threads:
            each.start()

    def run(self):
        probe = [self.program, "probe", "--json", "--seconds", "0", "--deadline", "10"]
        python = [sys.executable, "-c", f"import sys; sys.path.insert(0, {HERE!r}); from cuda_client import Cuda; Cuda()"]
        argv = {"context": python, "contexts": [sys.executable, os.path.abspath(__file__), "--contexts"]}.get(self.kind, probe)
        while not self.over.is_set():
            begin = time.monotonic()
            one = subprocess.Popen(argv, env=self.env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            if self.kind == "killed":
                time.sleep(random.uniform(0.05, 0.4))
                one.kill()
            if self.kind == "contexts":
                text = self.follow(one)
            else:
                text = one.communicate()[0]
                self.count += 1
            self.spans.append((begin, time.monotonic(), one.returncode))
            if one.returncode and self.kind != "killed":
                self.failed.append(text[-200:])

    def follow(self, one):
        text = ""
        for text in one.stdout:
            if not text.startswith("made"):
                break
            self.count += 1
            if self.over.is_set():
                one.kill()
                break
        one.wait()
        return text

    def end(self):
        self.over.set()
        for each in self.threads:
            each.join(15)


def contexts():
    import ctypes
    lib = ctypes.CDLL("libcuda.so.1")
    device = ctypes.c_int()
    codes = [lib.cuInit(0), lib.cuDeviceGet(ctypes.byref(device), 0)]
    while not any(codes):
        context = ctypes.c_void_p()
        codes = [lib.cuCtxCreate_v2(ctypes.byref(context), 0, device)]
        codes += [lib.cuCtxDestroy_v2(context)] if not codes[0] else []
        if not any(codes):
            print("made", flush=True)
    print("codes", codes, flush=True)
    sys.exit(1)


def row(args, short, beside, witness):
    until, harms, count, died, failed = time.monotonic() + args.seconds, [], 0, 0, []
    while time.monotonic() < until:
        world = deaths.World("products,n=1024,queue=4" if beside == "idle" else "deep", waiting=4 if beside in ("deaths", "idle") else 2 if beside == "deep" else 0)
        if beside == "fp32":
            long = deaths.Program(deaths.TENANTS, "fp32", "n=5632", env={**world.client, "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "8"})
            long.until('"ready"')
        alive = [world.next_victim() for _ in range(2)] if beside == "deep" else []
        for each in alive:
            each.say("go")
        shorts = Shorts(short, args.probe, world.client)
        held, begun = [], time.monotonic()
        while time.monotonic() < until and not world.dead():
            if beside in ("deaths", "idle"):
                one = world.next_victim()
                if beside == "deaths":
                    one.say("go")
                time.sleep(0.4)
                held.append([None, deaths.Held(one.process.pid, "all")])
                one.kill()
                died += 1
                held[-1][0] = time.monotonic()
            time.sleep(0.05)
            for each in [h for h in held if h[0] + 5 < time.monotonic()]:
                list(each[1].close("good"))
                held.remove(each)
        if world.dead():
            time.sleep(0.3)
            now = time.monotonic()
            xids = [(round(at, 2), what.split("Xid", 1)[1][:60]) for at, who, what in witness.last(4) if who == "kernel" and "Xid" in what][:2]
            ended = [(round(b - now, 2), round(e - now, 2), c) for b, e, c in shorts.spans if e > now - 1.5]
            harms.append((round(now - begun), xids, ended, [round(h[0] - now, 2) for h in held]))
        shorts.end()
        if beside == "fp32":
            long.kill()
        count, failed = count + shorts.count, failed + shorts.failed
        for each in alive:
            each.kill()
        for each in held:
            list(each[1].close("good"))
        world.end()
    print(f"| {short} | {beside} | {count} short programs, {died} deaths | harm {len(harms)} | failed {len(failed)} {failed[:1]} |", flush=True)
    for harm in harms:
        print("    ", harm, flush=True)


class Starts:
    """Short programs whose begin is chosen."""

    def __init__(self, kind, program, env):
        self.argv = [sys.executable, "-c", f"import sys; sys.path.insert(0, {HERE!r}); from cuda_client import Cuda; Cuda()"]
        if kind == "probe":
            self.argv = [program, "probe", "--json", "--seconds", "0", "--deadline", "10"]
        self.env = {**os.environ, **env}
        self.env.pop("LD_PRELOAD", None)
        self.env.pop("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", None)
        self.spans, self.failed, self.threads = [], [], []

    def one(self, wait, until):
        time.sleep(wait)
        while True:
            begin = time.monotonic()
            done = subprocess.run(self.argv, env=self.env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            self.spans.append((begin, time.monotonic(), done.returncode))
            if done.returncode:
                self.failed.append(done.stdout[-200:])
            if time.monotonic() >= until:
                return

    def begin(self, count, spread, until=0.0):
        self.threads = [threading.Thread(target=self.one, args=(random.uniform(0, spread), until), daemon=True) for _ in range(count)]
        for each in self.threads:
            each.start()

    def end(self):
        for each in self.threads:
            each.join(20)


BATCH = 30  # clients that are to die are started before the first of them does: their own starts are not beside a death


def when(args, short, beside, witness, starting=8, dead=2):
    starting, dead = int(starting), int(dead)
    until, harms, died, failed, lengths, world = time.monotonic() + args.seconds, [], 0, [], [], None
    while time.monotonic() < until:
        world = world or deaths.World("deep", waiting=0)
        batch = [world.new_victim() for _ in range(BATCH)]
        starts = Starts(short, args.probe, world.client)
        for one in batch:
            one.until("ready")
        time.sleep(1)
        while len(batch) >= dead and time.monotonic() < until and not world.dead():
            dying = [batch.pop() for _ in range(dead)]
            for one in dying:
                one.say("go")
            time.sleep(0.5)
            if beside == "at":
                starts.begin(starting, 0.5)
                time.sleep(0.5)
            held = [deaths.Held(one.process.pid, "all") for one in dying]
            for one in dying:
                one.process.kill()
            death = time.monotonic()
            died += dead
            if beside == "after":
                time.sleep(0.02)
                starts.begin(starting, 0.3, death + 1)
            starts.end()
            for one in dying:
                one.process.wait()
            time.sleep(max(0, death + 2.5 - time.monotonic()))
            alive = not world.dead()
            for each in held:
                list(each.close("good"))
            if beside == "apart" and alive:
                starts.begin(starting, 0.3)
                starts.end()
            if world.dead():
                time.sleep(0.3)
                now = time.monotonic()
                xids = [(round(now + at - death, 2), what.split("Xid", 1)[1][:60]) for at, who, what in witness.last(now - death) if who == "kernel" and "Xid" in what][:2]
                begun = sorted(round(b - death, 2) for b, e, _ in starts.spans if e > death)[:starting]
                harms.append(("before the close" if not alive else "after the close", "Xids, s after the death", xids, "starts", begun))
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
    print(f"| {short} | {beside} | {len(lengths)} short programs (median {median:.2f} s), {died} deaths | harm {len(harms)} | failed {len(failed)} {failed[:1]} |", flush=True)
    for harm in harms:
        print("    ", harm, flush=True)


def main():
    if sys.argv[1:] == ["--contexts"]:
        return contexts()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--probe", default="build/bin/tranche")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("rows", nargs="+")
    args = parser.parse_args()
    deaths.make_shim()
    witness = Witness("/nonexistent")
    for each in args.rows:
        try:
            short, beside, *counts = each.split(":")
            (when if beside in ("at", "after", "apart") else row)(args, short, beside, witness, *counts)
        except BaseException as error:
            print(f"| {each} | {type(error).__name__}: {error}", flush=True)


if __name__ == "__main__":
    main()
