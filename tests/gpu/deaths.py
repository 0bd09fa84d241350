#!/usr/bin/env python3
"""What keeps a tenant's death from its neighbours, measured on a GPU with a plain MPS control daemon; nothing of Tranche takes part.

  deaths.py [--out FOLDER] [--seconds N] ROW...

A row is `held:order:patience:work:end:tries`. held: which of the client's NVIDIA descriptors this program duplicates
(all, none, uvm, others = all but uvm, mm and va = uvm by their UVM_MM_INITIALIZE and UVM_INITIALIZE, ctl, dev). order: closed `good`
(nvidia0, caps, nvidiactl, uvm last) or `bad` (uvm first). patience: seconds from the death to the close. work: deep (256 bf16 products
of 8192, 1.7 s at a quarter of the GPU), deeper (1,024, 7 s), burn (4), big (4, and 8 GiB of GPU memory), `sleep,MS,COUNT` (kernels of
MS milliseconds on one thread), or a kind of tenants.py with its options (`triton,ms=10000`). end: kill; for products also exception, exit, os_exit, segv, abort, each with the
whole queue in flight; done (the script ends after it synchronized); oom (the kernel's OOM killer, at the limit of a control group);
`fork,SECONDS` (kill; a forked child lives SECONDS longer, 0 = both are killed at once). A try has three neighbours; harm = one of them
dies, and then everything is started anew. Other rows: `stall:held:work:patience:end:tries` (as well the longest wait of other clients, of
newcomers and of NVML), `files` (which descriptors, and when), `host:held` (host memory that stays pinned), `early:tries:held:looks:window`
(killed within `window` seconds of its first descriptor, or, `work`, within 0.1 s of its first product; what is held is looked for every
5 ms, or looks = `0,10,30,…` ms after the first descriptor)."""

import argparse, collections, ctypes, json, os, random, signal, subprocess, sys, tempfile, threading, time, traceback

HERE = os.path.dirname(os.path.abspath(__file__))
TENANTS = os.path.join(HERE, "tenants.py")
libc = ctypes.CDLL(None, use_errno=True)
WORKS = {"burn": 4, "deep": 256, "deeper": 1024, "big": 4, "early": 256}  # calls in flight
NEIGHBOURS = (("train",), ("elementwise",), ("serve",))


# --- the victim, a process of its own ----------------------------------------------------------------------------------------
def victim(work, heap):
    import torch
    _, ms, count = work.split(",") if work.startswith("sleep") else ("", 0, WORKS[work])
    if work == "early":  # its CUDA begins with the line, and tensor cores are the first thing that it uses
        print("ready", flush=True)
        sys.stdin.readline()
        a, b, c = (torch.empty(8192, 8192, device="cuda", dtype=torch.bfloat16) for _ in range(3))
        torch.mm(a, b, out=c)
        print("working", time.monotonic(), flush=True)
    else:
        a, b = (torch.randn(8192, 8192, device="cuda").to(torch.bfloat16) for _ in range(2))
        c = torch.empty_like(a)
        torch.mm(a, b, out=c)
        torch.cuda.synchronize()
    kept = [bytearray(heap << 20), work == "big" and torch.ones(8 << 30, dtype=torch.uint8, device="cuda")]
    for at in range(0, len(kept[0]), 4096):
        kept[0][at] = 1
    end = []

    def listen():
        end.append(sys.stdin.readline().strip())
        while end[0] == "oom":
            kept.append(b"x" * (32 << 20))

    if work != "early":
        print("ready", flush=True)
        if sys.stdin.readline().strip() == "fork":
            child = os.fork()
            while not child:
                time.sleep(1)
            print("child", child, flush=True)
    threading.Thread(target=listen, daemon=True).start()
    while True:
        for _ in range(int(count)):
            torch.cuda._sleep(int(ms) * 1_980_000) if ms else torch.mm(a, b, out=c)
        if end:  # all of it is queued
            {"exception": lambda: [][1], "exit": lambda: sys.exit(0), "os_exit": lambda: os._exit(0), "abort": os.abort, "oom": lambda: None,
             "segv": lambda: ctypes.string_at(0), "done": lambda: (torch.cuda.synchronize(), sys.exit(0))}[end[0]]()
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

    def __init__(self, work, heap=0, waiting=3):
        self.work, self.heap, self.probes = work, heap, {}
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
        if self.work not in WORKS and not self.work.startswith("sleep"):
            return Program(TENANTS, *self.work.split(","), "wait=1", env=self.client)
        return Program(os.path.abspath(__file__), "--victim", self.work, str(self.heap), env=self.client)

    def next_victim(self):
        one = self.victims.popleft()
        self.victims.append(self.new_victim())
        if not one.until("ready"):
            raise SystemExit(f"a victim does not start: {list(one.errors)}")
        return one

    def start_probes(self):
        import pynvml
        if self.probes:
            return
        for what in ("alloc", "newcomer", "nvml"):
            self.probes[what] = Program(os.path.abspath(__file__), "--probe", what, env=self.client if what != "nvml" else None)
        if pynvml.nvmlDeviceGetCount() > 1:
            self.probes["alloc on GPU 1, outside of MPS"] = Program(os.path.abspath(__file__), "--probe", "alloc", env={"CUDA_VISIBLE_DEVICES": "1", "CUDA_MPS_PIPE_DIRECTORY": "/nonexistent"})
        for each in self.probes.values():
            each.until("ready")
        time.sleep(2)

    def dead(self):
        return sum(not each.well() for each in self.neighbours)

    def server(self):
        done = subprocess.run(["nvidia-cuda-mps-control"], input="get_server_list\n", text=True, capture_output=True, env={**os.environ, **self.env})
        return int(done.stdout.split()[0])

    def end(self):
        for each in [*self.neighbours, *self.victims, *self.probes.values()]:
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


class ControlGroup:
    """A new control group with a memory limit, in cgroup v2 if that has the memory controller here, else in v1."""

    def __init__(self, limit_mib):
        why = []
        for kind, options, limit, used in (("cgroup2", [], "memory.max", "memory.current"), ("cgroup", ["-o", "memory"], "memory.limit_in_bytes", "memory.usage_in_bytes")):
            self.root = tempfile.mkdtemp(prefix=f"{kind}.")
            self.folder, self.used_name = tempfile.mktemp(prefix="deaths.", dir=self.root), used
            done = subprocess.run(["mount", "-t", kind, *options, "none", self.root], capture_output=True, text=True)
            try:
                if done.returncode:
                    raise OSError(done.stderr.strip())
                if kind == "cgroup2":
                    self.write(f"{self.root}/cgroup.subtree_control", "+memory")
                os.mkdir(self.folder)
                self.write(f"{self.folder}/{limit}", str(limit_mib << 20))
                return
            except OSError as error:
                why.append(f"{kind}: {error}")
                subprocess.run(["umount", self.root], capture_output=True)
        raise SystemExit(f"no control group with a memory limit: {why}")

    def write(self, path, text):
        with open(path, "w") as file:
            file.write(text)

    def add(self, pid):
        self.write(f"{self.folder}/cgroup.procs", str(pid))

    def read(self, name):
        try:
            with open(f"{self.folder}/{name}") as file:
                return file.read()
        except OSError as error:
            return str(error)

    def used_mib(self):
        return int(self.read(self.used_name)) >> 20

    def oom(self):
        return "; ".join(line for name in ("memory.events", "memory.oom_control") for line in self.read(name).split("\n") if line.startswith("oom_kill"))

    def end(self):
        """What the removal of the group says."""
        try:
            os.rmdir(self.folder)
            return subprocess.run(["umount", self.root], capture_output=True, text=True).stderr.strip()
        except OSError as error:
            return str(error)


def used_mib():
    import pynvml
    return pynvml.nvmlDeviceGetMemoryInfo(pynvml.nvmlDeviceGetHandleByIndex(0)).used >> 20


def available_mib():
    with open("/proc/meminfo") as file:
        return next(int(line.split()[1]) >> 10 for line in file if line.startswith("MemAvailable"))


# --- rows --------------------------------------------------------------------------------------------------------------------
def die(world, held, order, patience, end):
    """One try; what happened."""
    end, _, longer = end.partition(",")
    one, group = world.next_victim(), None
    pid, memory = one.process.pid, used_mib()
    if end == "oom":
        group = ControlGroup(1024)
        group.add(pid)
    one.say("fork" if end == "fork" else "go")
    time.sleep(0.9)
    before = world.dead()
    took = time.monotonic()
    kept = Held(pid, held)
    took = (time.monotonic() - took) * 1000
    if before or one.process.poll() is not None:
        one.kill()
        return {"void": True}
    steps, child = [(patience, "close")], None
    if end == "fork":
        child = next(int(line.split()[1]) for line in list(one.lines) if line.startswith("child"))
        steps = sorted(steps + [(float(longer), "child")])
    begin = time.monotonic()
    if end in ("kill", "fork"):
        one.process.kill()
        if child and not float(longer):
            os.kill(child, 9)
            steps.remove((0.0, "child"))
    else:
        one.say(end)
        begin = None
    one.process.wait(120)
    gone = time.monotonic()
    if begin is None:
        begin = gone
    what = {"held": len(kept.files), "dup_ms": round(took, 2), "gone_ms": round((gone - begin) * 1000), "status": one.process.returncode}
    if group:
        time.sleep(0.1)
        what["group_mib"] = [group.used_mib()]
    for after, step in steps:
        time.sleep(max(0, gone + after - time.monotonic()))
        what[f"dead_before_{step}"] = world.dead()
        if step == "child":
            os.kill(child, 9)
            continue
        if group:
            what["group_mib"].append(group.used_mib())
        closing = time.monotonic()
        closes = list(kept.close(order))
        closed = time.monotonic()
        if not child:
            what["used_mib"] = [memory, used_mib()]
    until = time.monotonic() + 2
    while time.monotonic() < until and not world.dead():
        time.sleep(0.02)
    if world.dead():
        time.sleep(0.5)
    if group:
        what.update(group_mib=[*what["group_mib"], group.used_mib()], oom=group.oom(), removal=group.end())
    return {"dead": world.dead(), **what, "close_ms": round((closed - closing) * 1000), "ctl_ms": round(sum(ms for device, ms in closes if device.endswith("ctl"))),
            "closes": [(os.path.basename(device), round(ms)) for device, ms in closes if ms > 5], "at": (begin, closing, closed)}


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

    def tries(self, row, held, order, patience, work, end, tries, probed=False):
        done, void, waits = [], 0, {}
        for _ in range(int(tries)):
            if time.monotonic() > self.deadline:
                break
            self.need(work, 0, 1 if work == "big" else 3)
            if probed:
                self.world.start_probes()
            came = die(self.world, held, order, float(patience), end)
            if came.get("void"):
                void += 1
            else:
                done.append(came)
                if probed:
                    came["waits"] = self.waits(*came.pop("at"))
                    for what, each in came["waits"].items():
                        waits.setdefault(what, []).append(each)
                came.pop("at", None)
            self.note(row, **came)
            if void or came["dead"]:
                self.drop()
        span = lambda name: f"{min(c[name] for c in done)}–{max(c[name] for c in done)}" if done else "–"
        most = lambda rows: [max((row[at] for row in rows if row[at] is not None), default=None) for at in range(3)]
        more = [f"harm before the child's death {sum(c['dead_before_child'] > 0 for c in done)}" for _ in done[:1] if "dead_before_child" in done[0]]
        more += [f"group MiB {[c['group_mib'] for c in done]}, {done[0]['oom']}" for _ in done[:1] if "oom" in done[0]]
        more += [f"{what} ms: usual, before, at close {most(rows)}" for what, rows in waits.items()]
        self.table.append(f"| {held}, {order}, {patience} s | {work}: {end} | {sum(c['dead'] > 0 for c in done)} of {len(done)}{f' ({void} void)' if void else ''} | {sum(c['dead'] for c in done)} of {3 * len(done)} | {span('gone_ms')} | {span('close_ms')} | {span('ctl_ms')} | {'; '.join(more)} |")

    def stall(self, row, held, work, patience="2.5", end="kill", tries="1"):
        self.tries(row, held, "good", patience, work, end, tries, probed=True)

    def waits(self, begin, closing, closed):
        """{who: [longest before the death, longest between death and close, longest at the close]} in milliseconds."""
        found = {}
        for what, each in self.world.probes.items():
            marks = [json.loads(line) for line in list(each.lines) if '"at"' in line]
            within = lambda first, last: sorted(round(m["ms"]) for m in marks if first - 0.3 <= m["at"] <= last)
            usual = within(begin - 2, begin - 0.3)
            found[what] = [max(usual, default=None), max(within(begin, closing), default=None), max(within(closing, closed + 1), default=None)]
        return found

    def files(self, row):
        self.need("deep")
        begin = time.monotonic()
        one = Program(os.path.abspath(__file__), "--victim", "deep", "0", env=self.world.client)
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

    def early(self, row, tries, held="none", looks="5", window="0.5"):
        tried = []
        for _ in range(int(tries)):
            if time.monotonic() > self.deadline:
                break
            self.need("early")
            one = self.world.next_victim()
            one.say("go")
            while one.process.poll() is None and not files_of(one.process.pid):
                time.sleep(0.002)
            began, kept = time.monotonic(), Held(one.process.pid, held)
            due = [float(ms) / 1000 for ms in looks.split(",")] if "," in looks else None
            end = None if window == "work" else began + random.uniform(0, float(window))
            while one.process.poll() is None and (end is None or time.monotonic() < end):
                if end is None and any("working" in line for line in list(one.lines)):
                    end = time.monotonic() + random.uniform(0, 0.1)
                if due is None or due and time.monotonic() - began >= due[0]:
                    kept.look()
                    due = due and due[1:]
                time.sleep(0.005 if due is None else 0.001)
            killed, had = time.monotonic(), files_of(one.process.pid)
            one.kill()
            time.sleep(0.3)
            closes = sum(ms for _, ms in kept.close("good"))
            end = time.monotonic() + 1.5
            while time.monotonic() < end and not self.world.dead():
                time.sleep(0.02)
            working = next((float(line.split()[1]) for line in list(one.lines) if line.startswith("working")), None)
            uvm = lambda numbers: sum(device.endswith("nvidia-uvm") for _, device, *_ in numbers)
            tried.append({"dead": self.world.dead(), "killed_ms": round((killed - began) * 1000), "first_work_ms": working and round((working - began) * 1000),
                          "had": [len(had), uvm(had)], "held": [len(kept.files), uvm(kept.files)], "close_ms": round(closes)})
            self.note(row, **tried[-1])
            if self.world.dead():
                self.drop()
        count = lambda *tests: f"{sum(t['dead'] > 0 and all(test(t) for test in tests) for t in tried)} of {sum(all(test(t) for test in tests) for t in tried)}"
        work, lacks = lambda t: t["first_work_ms"] is not None, lambda t: t["held"][0] < t["had"][0]
        first = [t["first_work_ms"] for t in tried if work(t)]
        self.table.append(f"| early: {held} held, looked at {looks} ms, window {window} | harm {count()}; with work in flight {count(work)}; not all held at the kill {count(lacks)}, uvm lacked {count(lambda t: t['held'][1] < t['had'][1])}, "
                          f"both work and lack {count(work, lacks)} | killed {min((t['killed_ms'] for t in tried), default=0)}–{max((t['killed_ms'] for t in tried), default=0)} ms, first product at {min(first, default=0)}–{max(first, default=0)} ms |")

    def host(self, row, held="all"):
        self.need("deep", 8192, 1)
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
        return victim(sys.argv[2], int(sys.argv[3]))
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
                try:
                    if kind in ("files", "stall", "host", "early"):
                        getattr(session, kind)(row, *rest)
                    else:
                        session.tries(row, kind, *rest)
                except (SystemExit, Exception) as why:
                    session.table.append(f"| {row} | ended: {why!r} |")
                    traceback.print_exc()
                    session.drop()
        finally:
            session.drop()
    print("\n| held, order, patience | work: end | tries with harm | neighbours dead | gone after (ms) | close (ms) | nvidiactl (ms) | more |\n| --- | --- | --- | --- | --- | --- | --- | --- |")
    print("\n".join(session.table))


if __name__ == "__main__":
    main()
