#!/usr/bin/env python3
"""What keeps a tenant's death from its neighbours, measured on a GPU with a plain MPS control daemon; nothing of Tranche takes part.

  deaths.py [--out FOLDER] [--seconds N] ROW...

A row is `held:order:patience:work:end:tries`. held: which of the client's NVIDIA descriptors this program duplicates
(all, none, uvm, others = all but uvm, mm and va = uvm by their UVM_MM_INITIALIZE and UVM_INITIALIZE, ctl, dev). order: closed `good`
(nvidia0, caps, nvidiactl, uvm last) or `bad` (uvm first). patience: seconds from the death to the close. work: deep (256 bf16 products
of 8192, 1.7 s at a quarter of the GPU), deeper (1,024, 7 s), burn (4), or a kind of tenants.py. end: kill; for products also exception,
exit, os_exit, segv, abort, each with the whole queue in flight. A try has three neighbours; harm = one of them dies, and then
everything is started anew. Other rows: `files` (which descriptors, and when), `stall:held:work:patience` (the longest wait of other
clients, of newcomers and of NVML while a dead client's work runs out), `host:held` (host memory that stays pinned), `early:tries:held`
(killed at a random moment of its start; what is held is looked for every 5 ms)."""

import argparse, collections, ctypes, json, os, random, signal, subprocess, sys, tempfile, threading, time

HERE = os.path.dirname(os.path.abspath(__file__))
TENANTS = os.path.join(HERE, "tenants.py")
libc = ctypes.CDLL(None, use_errno=True)
WORKS = {"burn": 4, "deep": 256, "deeper": 1024}
NEIGHBOURS = (("train",), ("elementwise",), ("serve",))


# --- the victim, a process of its own ----------------------------------------------------------------------------------------
def victim(queue, heap):
    import torch
    a, b = (torch.randn(8192, 8192, device="cuda").to(torch.bfloat16) for _ in range(2))
    c = torch.empty_like(a)
    torch.mm(a, b, out=c)
    torch.cuda.synchronize()
    kept = bytearray(heap << 20)
    for at in range(0, len(kept), 4096):
        kept[at] = 1
    end = []
    print("ready", flush=True)
    sys.stdin.readline()
    threading.Thread(target=lambda: end.append(sys.stdin.readline().strip()), daemon=True).start()
    while True:
        for _ in range(queue):
            torch.mm(a, b, out=c)
        if end:  # all of it is queued
            {"exception": lambda: [][1], "exit": lambda: sys.exit(0), "os_exit": lambda: os._exit(0), "abort": os.abort,
             "segv": lambda: ctypes.string_at(0)}[end[0]]()
        torch.cuda.synchronize()


def probe(what):
    """Says {"at", "ms"} of each thing it does, one after the other."""
    if what == "alloc":
        sys.path.insert(0, HERE)
        from cuda_client import Cuda
        cuda = Cuda()

        def once():
            block = cuda.allocate(64 << 20)
            cuda.call("cuMemFree_v2", ctypes.c_uint64(block))
    elif what == "newcomer":
        code = f"import sys; sys.path.insert(0, {HERE!r}); from cuda_client import Cuda; Cuda()"
        once = lambda: subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
    else:
        import pynvml
        pynvml.nvmlInit()
        handle = pynvml.nvmlDeviceGetHandleByIndex(0)
        once = lambda: (pynvml.nvmlDeviceGetMemoryInfo(handle), pynvml.nvmlDeviceGetComputeRunningProcesses(handle))
    print(json.dumps({"ready": True}), flush=True)
    while True:
        begin = time.monotonic()
        once()
        print(json.dumps({"at": begin, "ms": (time.monotonic() - begin) * 1000}), flush=True)
        time.sleep(0.005)


SHIM = r"""
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>
int ioctl(int fd, unsigned long request, ...) {
  va_list words;
  va_start(words, request);
  void* argument = va_arg(words, void*);
  va_end(words);
  int result = (int)syscall(SYS_ioctl, fd, request, argument);
  if (request == 75 || request == 0x30000001) {
    char path[64], line[96];
    snprintf(path, sizeof path, "/tmp/uvm.%d", (int)getpid());
    int to = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    int size = snprintf(line, sizeof line, "%d %lu result %d argument 0x%x 0x%x\n", fd, request, result, ((unsigned*)argument)[0], ((unsigned*)argument)[1]);
    if (to >= 0) { (void)!write(to, line, size); close(to); }
  }
  return result;
}
"""


def make_shim():
    """UVM_INITIALIZE (0x30000001) and UVM_MM_INITIALIZE (75) of clients are written to /tmp/uvm.PID."""
    with open("/tmp/uvm_shim.c", "w") as file:
        file.write(SHIM)
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", "/tmp/uvm_shim.so", "/tmp/uvm_shim.c"], check=True)


# --- processes ---------------------------------------------------------------------------------------------------------------
class Program:
    def __init__(self, *argv, env=None):
        self.lines, self.process = collections.deque(maxlen=20000), None
        self.process = subprocess.Popen([sys.executable, *argv], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                        env={**os.environ, "PYTHONUNBUFFERED": "1", **(env or {})})
        self.errors = collections.deque(maxlen=20)
        for stream, kept in ((self.process.stdout, self.lines), (self.process.stderr, self.errors)):
            threading.Thread(target=lambda s=stream, k=kept: k.extend(line.strip() for line in s), daemon=True).start()

    def until(self, text, seconds=120):
        end = time.monotonic() + seconds
        while time.monotonic() < end and self.process.poll() is None:
            if any(text in line for line in list(self.lines)):
                return True
            time.sleep(0.01)
        return False

    def say(self, text):
        self.process.stdin.write(text + "\n")
        self.process.stdin.flush()

    def well(self):
        return self.process.poll() is None and not any('"error"' in line for line in list(self.lines))

    def kill(self):
        self.process.kill()
        self.process.wait()


class World:
    """A control daemon, three neighbours and some victims that wait."""

    def __init__(self, queue, heap=0, waiting=3):
        self.queue, self.heap = queue, heap
        self.folder = tempfile.mkdtemp(prefix="deaths.")
        self.env = {"CUDA_MPS_PIPE_DIRECTORY": f"{self.folder}/pipe", "CUDA_MPS_LOG_DIRECTORY": f"{self.folder}/log"}
        for name in self.env.values():
            os.mkdir(name)
        self.client = {**self.env, "XLA_PYTHON_CLIENT_PREALLOCATE": "false", "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "25", "LD_PRELOAD": "/tmp/uvm_shim.so"}
        subprocess.run(["nvidia-cuda-mps-control", "-d"], env={**os.environ, **self.env}, check=True)
        self.neighbours = [Program(TENANTS, *words, env=self.client) for words in NEIGHBOURS]
        self.victims = collections.deque(self.new_victim() for _ in range(waiting))
        for each in self.neighbours:
            if not each.until('"ready"'):
                raise SystemExit(f"a neighbour does not start: {list(each.errors)}")

    def new_victim(self):
        if not isinstance(self.queue, int):
            return Program(TENANTS, self.queue, "wait=1", env=self.client)
        return Program(os.path.abspath(__file__), "--victim", str(self.queue), str(self.heap), env=self.client)

    def next_victim(self):
        one = self.victims.popleft()
        self.victims.append(self.new_victim())
        if not one.until("ready"):
            raise SystemExit(f"a victim does not start: {list(one.errors)}")
        return one

    def dead(self):
        return sum(not each.well() for each in self.neighbours)

    def server(self):
        done = subprocess.run(["nvidia-cuda-mps-control"], input="get_server_list\n", text=True, capture_output=True, env={**os.environ, **self.env})
        return int(done.stdout.split()[0])

    def end(self):
        for each in [*self.neighbours, *self.victims]:
            each.kill()
        subprocess.run(["nvidia-cuda-mps-control"], input="quit -t 1\n", text=True, capture_output=True, env={**os.environ, **self.env}, timeout=60)
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/comm") as file:
                    if file.read().startswith("nvidia-cuda-mps"):
                        os.kill(int(pid), 9)
            except OSError:
                pass
        time.sleep(1)


# --- descriptors -------------------------------------------------------------------------------------------------------------
def files_of(pid):
    """[(number, device)] of NVIDIA's device files."""
    found = []
    for name in os.listdir(f"/proc/{pid}/fd"):
        try:
            target = os.readlink(f"/proc/{pid}/fd/{name}")
        except OSError:
            continue
        if target.startswith("/dev/nvidia"):
            found.append((int(name), target))
    return sorted(found)


def same_file(one, first, other, second):
    return libc.syscall(312, one, other, 0, first, second) == 0  # kcmp, KCMP_FILE


def uvm_kinds(pid):
    """{number: mm | va}: the file of UVM_MM_INITIALIZE pins the address space; told apart by what the shim wrote, if it did."""
    kinds = {}
    try:
        with open(f"/tmp/uvm.{pid}") as file:
            for line in file:
                number, request = line.split()[:2]
                kinds[int(number)] = {"75": "mm", "805306369": "va"}.get(request, "?")
    except FileNotFoundError:
        pass
    return kinds


class Held:
    """Duplicates of a process's descriptors."""

    def __init__(self, pid, which):
        self.files, self.pid, self.which, self.numbers = [], pid, which, set()
        self.look()

    def look(self):
        """Duplicates what has come."""
        pid, which, kinds = self.pid, self.which, uvm_kinds(self.pid)
        pidfd = os.pidfd_open(pid)
        for number, device in files_of(pid) if which != "none" else []:
            if number in self.numbers:
                continue
            kind = {"nvidia-uvm": kinds.get(number, "uvm"), "nvidiactl": "ctl"}.get(os.path.basename(device), "dev")
            uvm = device.endswith("nvidia-uvm")
            if which in ("all", kind) or which == "uvm" and uvm or which == "others" and not uvm:
                got = libc.syscall(438, pidfd, number, 0)  # pidfd_getfd
                if got >= 0:
                    self.numbers.add(number)
                    self.files.append((got, device, kind))
        os.close(pidfd)

    def close(self, order):
        rank = lambda entry: 3 if entry[1].endswith("nvidia-uvm") else 2 if entry[1].endswith("nvidiactl") else 1 if "caps" in entry[1] else 0
        for number, device, _ in sorted(self.files, key=rank, reverse=order == "bad"):
            begin = time.monotonic()
            os.close(number)
            yield device, (time.monotonic() - begin) * 1000


def used_mib():
    import pynvml
    return pynvml.nvmlDeviceGetMemoryInfo(pynvml.nvmlDeviceGetHandleByIndex(0)).used >> 20


def available_mib():
    with open("/proc/meminfo") as file:
        return next(int(line.split()[1]) >> 10 for line in file if line.startswith("MemAvailable"))


# --- rows --------------------------------------------------------------------------------------------------------------------
def die(world, held, order, patience, end):
    """One try; what happened."""
    one = world.next_victim()
    pid = one.process.pid
    one.say("go")
    time.sleep(0.9)
    before = world.dead()
    took = time.monotonic()
    kept = Held(pid, held)
    took = (time.monotonic() - took) * 1000
    if before or one.process.poll() is not None:
        one.kill()
        return {"void": True}
    begin = time.monotonic()
    if end == "kill":
        one.process.kill()
    else:
        one.say(end)
        begin = None
    one.process.wait(120)
    gone = time.monotonic()
    if begin is None:
        begin = gone
    time.sleep(patience)
    closes = list(kept.close(order))
    slowest = max(closes, key=lambda c: c[1], default=("", 0.0))
    until = time.monotonic() + 2.5
    while time.monotonic() < until and not world.dead():
        time.sleep(0.02)
    if world.dead():
        time.sleep(0.5)
    return {"dead": world.dead(), "gone_ms": round((gone - begin) * 1000), "held": len(kept.files), "dup_ms": round(took, 2),
            "close_ms": round(sum(ms for _, ms in closes)), "slowest": f"{slowest[0]} {slowest[1]:.0f}", "status": one.process.returncode}


class Session:
    def __init__(self, out, seconds):
        self.world, self.key, self.out, self.deadline, self.table = None, None, out, time.monotonic() + seconds, []

    def need(self, *key):
        if self.key != key or self.world is None:
            self.drop()
            self.world, self.key = World(*key), key

    def drop(self):
        if self.world:
            self.world.end()
        self.world = None

    def note(self, row, **what):
        self.out.write(json.dumps({"row": row, **what}) + "\n")
        self.out.flush()
        print(row, what, flush=True)

    def tries(self, row, held, order, patience, work, end, tries):
        harm = dead = count = void = 0
        gone, closes = [], []
        for _ in range(int(tries)):
            if time.monotonic() > self.deadline:
                break
            self.need(WORKS.get(work, work))
            came = die(self.world, held, order, float(patience), end)
            self.note(row, **came)
            if came.get("void"):
                void += 1
                self.drop()
                continue
            count += 1
            harm += came["dead"] > 0
            dead += came["dead"]
            gone.append(came["gone_ms"])
            closes.append(came["close_ms"])
            if came["dead"]:
                self.drop()
        span = lambda values: f"{min(values)}–{max(values)}" if values else "–"
        self.table.append(f"| {held}, {order}, {patience} s | {work}: {end} | {harm} of {count}{f' ({void} void)' if void else ''} | {dead} of {3 * count} | {span(gone)} | {span(closes)} |")

    def files(self, row):
        self.need(WORKS["deep"])
        begin = time.monotonic()
        one = Program(os.path.abspath(__file__), "--victim", "256", "0", env=self.world.client)
        seen = None
        while not one.until("ready", 0.02) and one.process.poll() is None:
            now = dict(collections.Counter(os.path.basename(d) for _, d in files_of(one.process.pid)))
            if now != seen:
                self.note(row, ms=round((time.monotonic() - begin) * 1000), files=now)
                seen = now
        pid, server = one.process.pid, self.world.server()
        mine = files_of(pid)
        self.note(row, ready_ms=round((time.monotonic() - begin) * 1000), numbers=mine, shim=uvm_kinds(pid))
        theirs = files_of(server)
        self.note(row, shared_with_server=[(n, d) for n, d in mine if any(same_file(pid, n, server, m) for m, e in theirs if e == d)],
                  server=dict(collections.Counter(os.path.basename(d) for _, d in theirs)))
        self.note(row, same_among_uvm=[(a, b) for a, d in mine for b, e in mine if a < b and d.endswith("uvm") and e.endswith("uvm") and same_file(pid, a, pid, b)])
        try:
            with open(f"/tmp/uvm.{pid}") as file:
                self.note(row, ioctls=file.read().split("\n"))
        except FileNotFoundError:
            pass
        one.kill()

    def early(self, row, tries, held="none"):
        harm = count = 0
        moments = []
        for _ in range(int(tries)):
            self.need(WORKS["deep"])
            one = Program(os.path.abspath(__file__), "--victim", "256", "0", env=self.world.client)
            while one.process.poll() is None and not files_of(one.process.pid):
                time.sleep(0.002)
            began, wait = time.monotonic(), random.uniform(0, 0.5)
            kept = Held(one.process.pid, held)
            while time.monotonic() < began + wait:
                time.sleep(0.005)
                kept.look()
            ready = any("ready" in line for line in list(one.lines))
            one.kill()
            time.sleep(1 if kept.files else 0)
            list(kept.close("good"))
            end = time.monotonic() + 1.5
            while time.monotonic() < end and not self.world.dead():
                time.sleep(0.02)
            count += 1
            harm += self.world.dead() > 0
            moments.append(round(wait * 1000))
            self.note(row, ms_after_first_file=moments[-1], ready=ready, dead=self.world.dead())
            if self.world.dead():
                self.drop()
        self.table.append(f"| early: killed {min(moments)}–{max(moments)} ms after its first descriptor, {held} held | {harm} of {count} tries with harm |")

    def stall(self, row, held, work, patience="2.5"):
        self.need(WORKS[work])
        import pynvml
        probes = {what: Program(os.path.abspath(__file__), "--probe", what, env=self.world.client if what != "nvml" else None) for what in ("alloc", "newcomer", "nvml")}
        if pynvml.nvmlDeviceGetCount() > 1:
            probes["alloc on GPU 1, outside of MPS"] = Program(os.path.abspath(__file__), "--probe", "alloc", env={"CUDA_VISIBLE_DEVICES": "1", "CUDA_MPS_PIPE_DIRECTORY": "/nonexistent"})
        for each in probes.values():
            each.until("ready")
        time.sleep(2)
        one = self.world.next_victim()
        one.say("go")
        time.sleep(0.9)
        kept = Held(one.process.pid, held)
        states, stop = [], threading.Event()

        def watch():
            while not stop.wait(0.05):
                try:
                    with open(f"/proc/{one.process.pid}/stat") as file:
                        states.append(file.read().rsplit(")", 1)[1].split()[0])
                except OSError:
                    return
        threading.Thread(target=watch, daemon=True).start()
        before, memory = time.monotonic(), used_mib()
        one.process.kill()
        one.process.wait()
        gone = time.monotonic()
        while time.monotonic() < before + float(patience):
            time.sleep(0.05)
        closing = time.monotonic()
        closes = list(kept.close("good"))
        closed = time.monotonic()
        time.sleep(2)
        stop.set()
        worst = {}
        for what, each in probes.items():
            marks = [json.loads(line) for line in list(each.lines) if '"at"' in line]
            inside = lambda a, b: max([m["ms"] for m in marks if a - 0.3 <= m["at"] <= b], default=None)
            worst[what] = {"usual": round(sorted(m["ms"] for m in marks if m["at"] < before - 0.3)[len([m for m in marks if m["at"] < before - 0.3]) * 99 // 100], 1),
                           "until_close": inside(before, closing), "at_close": inside(closing, closed + 1), "alive": each.process.poll() is None}
            each.kill()
        self.note(row, gone_ms=round((gone - before) * 1000), states=dict(collections.Counter(states)), closes=[(d, round(ms)) for d, ms in closes if ms > 5],
                  close_ms=round((closed - closing) * 1000), worst=worst, dead=self.world.dead(), memory_before=memory, memory_after=used_mib())
        self.table.append(f"| stall: {held} held, {work}, closed {patience} s after the kill | gone {round((gone - before) * 1000)} ms, close {round((closed - closing) * 1000)} ms, neighbours dead {self.world.dead()} | "
                          + "; ".join(f"{k}: usual p99 {v['usual']}, before close {v['until_close'] and round(v['until_close'])}, at close {v['at_close'] and round(v['at_close'])} ms" for k, v in worst.items()) + " |")
        if self.world.dead():
            self.drop()

    def host(self, row, held="all"):
        self.need(WORKS["deep"], 8192, 1)
        one = self.world.next_victim()
        one.say("go")
        time.sleep(0.9)
        kept = Held(one.process.pid, held)
        marks = [available_mib()]
        memory = [used_mib()]
        one.kill()
        for _ in range(2):
            time.sleep(1.2)
            marks.append(available_mib())
            memory.append(used_mib())
        closes = list(kept.close("good"))
        time.sleep(1)
        marks.append(available_mib())
        memory.append(used_mib())
        self.note(row, available_mib=marks, gpu_used_mib=memory, closes=[(d, round(ms)) for d, ms in closes if ms > 5], dead=self.world.dead())
        self.table.append(f"| host: {held} held, 8 GiB heap | available before, 1.2 s and 2.4 s after the death, after the close: {marks} MiB | GPU used: {memory} MiB |")
        self.drop()


def main():
    if sys.argv[1:2] == ["--victim"]:
        return victim(int(sys.argv[2]), int(sys.argv[3]))
    if sys.argv[1:2] == ["--probe"]:
        return probe(sys.argv[2])
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", default=".")
    parser.add_argument("--seconds", type=float, default=540)
    parser.add_argument("rows", nargs="+")
    options = parser.parse_args()
    import pynvml
    make_shim()
    pynvml.nvmlInit()
    handle = pynvml.nvmlDeviceGetHandleByIndex(0)
    print(time.strftime("%Y-%m-%d"), pynvml.nvmlDeviceGetName(handle), pynvml.nvmlSystemGetDriverVersion(), os.uname().release, flush=True)
    with open(os.path.join(options.out, "deaths.jsonl"), "w") as out:
        session = Session(out, options.seconds)
        try:
            for row in options.rows:
                if time.monotonic() > session.deadline:
                    session.table.append(f"| {row} | not run: no time |")
                    continue
                kind, *rest = row.split(":")
                if kind in ("files", "stall", "host", "early"):
                    getattr(session, kind)(row, *rest)
                else:
                    session.tries(row, kind, *rest)
        except SystemExit as why:
            session.table.append(f"| ended: {why} |")
        finally:
            session.drop()
    print("\n| held, order, patience | work: end | tries with harm | neighbours dead | gone after (ms) | close (ms) |\n| --- | --- | --- | --- | --- | --- |")
    print("\n".join(session.table))


if __name__ == "__main__":
    main()
