#!/usr/bin/env python3
"""When does a limit of a running MPS server (`set_device_pinned_mem_limit SERVER`, `set_active_thread_percentage SERVER`) become a
client's own? Whoever lets clients in one after the other can give each its own limits only if the answer is: while it connects.
A plain daemon, and clients that stop between the steps of a CUDA start. Prints a table. Needs root and an idle GPU with MPS;
--simulated runs it on the stand-ins. It changes no setting of the GPU."""

import argparse, ctypes, json, os, re, subprocess, sys, time

from gpu_bed import Machine, PlainDaemon, wait_for
from rows import parsed, parser, table, title

LOW, HIGH = (8192, 10), (24576, 50)  # MiB, percent


def staged():
    """The client: a step for each line of stdin, an answer for each step."""
    cuda = ctypes.CDLL("libcuda.so.1")
    device, context = ctypes.c_int(), ctypes.c_void_p()

    def ctx():
        nonlocal context
        context = ctypes.c_void_p()
        return cuda.cuCtxCreate_v2(ctypes.byref(context), 0, device)

    def look():
        free, total, sms = ctypes.c_size_t(), ctypes.c_size_t(), ctypes.c_int()
        code = cuda.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total))
        cuda.cuDeviceGetAttribute(ctypes.byref(sms), 16, device)
        return {"code": code, "free": free.value >> 20, "sms": sms.value}

    def alloc(mib):
        address = ctypes.c_uint64()
        return cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(mib << 20))

    steps = {"init": lambda: cuda.cuInit(0) or cuda.cuDeviceGet(ctypes.byref(device), 0), "ctx": ctx, "look": look,
             "destroy": lambda: cuda.cuCtxDestroy_v2(context), "alloc": alloc}
    for line in sys.stdin:
        words = line.split()
        answer = steps[words[0]](*map(int, words[1:]))
        print(json.dumps(answer if isinstance(answer, dict) else {"code": answer}), flush=True)
    return 0


class Staged:
    def __init__(self, daemon, env=None):
        self.process = subprocess.Popen([sys.executable, os.path.abspath(__file__), "--staged"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        text=True, env={**daemon.machine.env, "CUDA_MPS_PIPE_DIRECTORY": daemon.pipe, **(env or {})})
        self.pid = self.process.pid

    def begin(self, step):
        self.process.stdin.write(step + "\n")
        self.process.stdin.flush()

    def end(self):
        return json.loads(self.process.stdout.readline() or "{}")

    def do(self, *steps):
        answer = {}
        for step in steps:
            self.begin(step)
            answer = self.end()
        return answer

    def leave(self):
        self.process.stdin.close()
        self.process.wait(60)


class Bench:
    def __init__(self, machine):
        self.daemon = PlainDaemon(machine, limited=False)
        self.uuid = machine.gpu["uuid"]
        self.keeper = Staged(self.daemon)  # the server lives as long as it does
        self.keeper.do("init", "ctx")
        self.server = self.daemon.command("get_server_list").split()[-1]

    def limits(self, mib, percent):
        begin = time.monotonic()
        self.daemon.command(f"set_device_pinned_mem_limit {self.server} {self.uuid} {mib}M\nset_active_thread_percentage {self.server} {percent}")
        return (time.monotonic() - begin) * 1000

    def seen(self, pid):
        return re.search(rf"\b{pid}\b", self.daemon.log())

    def stop(self):
        self.keeper.leave()
        self.daemon.stop()


def which(look):
    """Whose limits a client has, by memory and by SMs."""
    memory = "low" if look["free"] <= LOW[0] else "high" if look["free"] <= HIGH[0] else "none"
    return f"{memory} memory ({look['free']} MiB free), {look['sms']} SMs"


def look_of(bench, env=None):
    """What a client sees that starts without a pause."""
    client = Staged(bench.daemon, env)
    look = client.do("init", "ctx", "look")
    client.leave()
    return which(look)


def after_init(bench):
    bench.limits(*LOW)
    client = Staged(bench.daemon)
    client.do("init")
    named = bench.seen(client.pid)
    bench.limits(*HIGH)
    look = client.do("ctx", "look")
    client.leave()
    return which(look) + ("; the log named it before its context" if named else "; the log named it only with its context")


def before_init(bench):
    bench.limits(*LOW)
    client = Staged(bench.daemon)
    bench.limits(*HIGH)
    look = client.do("init", "ctx", "look")
    client.leave()
    return which(look)


def second_context(bench):
    bench.limits(*LOW)
    client = Staged(bench.daemon)
    client.do("init", "ctx")
    bench.limits(*HIGH)
    look = client.do("destroy", "ctx", "look")
    client.leave()
    return which(look)


def in_turn(bench, count=12):
    """Limits are changed as soon as the log names the client, while it is still inside cuInit."""
    right, took = 0, []
    for i in range(count):
        low = i % 2 == 0
        took.append(bench.limits(*(LOW if low else HIGH)))
        client = Staged(bench.daemon)
        client.begin("init")
        wait_for(lambda: bench.seen(client.pid), every=0.0005)
        bench.limits(*(HIGH if low else LOW))
        client.end()
        look = client.do("ctx", "look")
        client.leave()
        right += which(look).startswith("low" if low else "high") and (look["sms"] < 40) == low
    return f"{right} of {count} have the limits of their turn; two commands take {sorted(took)[len(took) // 2]:.1f} ms"


def malformed(bench):
    bench.limits(*LOW)
    client = Staged(bench.daemon, {"CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": "zz", "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "100"})
    look = client.do("init", "ctx", "look")
    code = client.do(f"alloc {LOW[0] + 1024}")["code"]
    client.leave()
    return which(look) + f"; an allocation beyond it: code {code}"


def higher(bench):
    bench.limits(*LOW)
    return look_of(bench, {"CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": f"{bench.uuid}=16G", "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "50"})


def without(bench):
    bench.limits(*LOW)
    bench.limits(1 << 20, 100)
    return look_of(bench)


ROWS = {
    "limits changed after cuInit, before the context": after_init,
    "limits changed before cuInit": before_init,
    "limits changed between two contexts of a process": second_context,
    "limits changed as soon as the log names the client": in_turn,
    "the client asks for more than the server's limits": higher,
    "the client's memory variable is malformed": malformed,
    "limits far above the GPU after low ones": without,
}


def main():
    made = parser(__doc__)
    made.add_argument("--staged", action="store_true", help=argparse.SUPPRESS)
    args = parsed(made)
    if args.staged:
        return staged()
    machine = Machine(args)
    bench = Bench(machine)
    lines = []
    for what, row in ROWS.items():
        try:
            lines.append((what, row(bench)))
        except Exception as error:
            lines.append((what, f"{type(error).__name__}: {error}"))
    log = bench.daemon.log()
    bench.stop()
    print("\n".join(log.splitlines()[-40:]))
    print("", title(machine), *table("what", "the client has", rows=lines), sep="\n")
    print(f"low: {LOW[0]} MiB and {LOW[1]} %; high: {HIGH[0]} MiB and {HIGH[1]} %")
    machine.clean()
    return 0


if __name__ == "__main__":
    sys.exit(main())
