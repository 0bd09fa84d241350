#!/usr/bin/env python3
"""What keeps a tenant's death from its neighbours, measured on a GPU with a plain MPS control daemon; nothing of Tranche takes part.

  deaths.py [--out FOLDER] [--seconds N] ROW...

A row is `held:order:patience:work:end:tries`. held: which of the client's NVIDIA descriptors this program duplicates
(all, none, uvm, others = all but uvm, mm and va = uvm by their UVM_MM_INITIALIZE and UVM_INITIALIZE, ctl, dev). order: closed `good`
(nvidia0, caps, nvidiactl, uvm last) or `bad` (uvm first). patience: seconds from the death to the close. work: deep (256 bf16 products
of 8192, 1.7 s at a quarter of the GPU), deeper (1,024, 7 s), burn (4), big (4, and 8 GiB of GPU memory), `sleep,MS,COUNT` (kernels of
MS milliseconds on one thread), or a kind of tenants.py with its options (`triton,ms=10000`). end: kill; for products also exception,
exit, os_exit, segv, abort, each with the whole queue in flight; done (the script ends after it synchronized); oom (the kernel's OOM killer, at the limit of a control group);
`fork,SECONDS` (kill; a forked child lives SECONDS longer, 0 = both are killed at once). A try has three neighbours; harm = one of them
dies, and then everything is started anew. Other rows: `stall:held:work:patience:end:tries` (as well the longest wait of other clients, of
newcomers and of NVML), `files` (which descriptors, and when), `host:held` (host memory that stays pinned), `early:tries:held:looks:window`
(killed within `window` seconds of its first descriptor, or, `work`, within 0.1 s of its first product; what is held is looked for every
5 ms, or looks = `0,10,30,…` ms after the first descriptor)."""

import collections, ctypes, json, os, random, subprocess, tempfile, time, traceback

from gpu_bed import Machine, PlainDaemon, Program, signal_to, started, wait_for
from rows import parsed, parser, table, title

libc = ctypes.CDLL(None, use_errno=True)
WORKS = {"burn": ("products", "queue=4"), "deep": ("products", "queue=256"), "deeper": ("products", "queue=1024"),
         "big": ("products", "queue=4", "mib=8192"), "early": ("early",)}
NEIGHBOURS = (("train",), ("elementwise",), ("serve",))


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


def words_of(work):
    """For tenants.py."""
    if work.startswith("sleep,"):
        _, ms, count = work.split(",")
        return "products", f"sleep={ms}", f"queue={count}"
    return WORKS.get(work) or work.split(",")


class World:
    """A control daemon, three neighbours and some victims that wait."""

    def __init__(self, machine, work, heap=0, waiting=3):
        self.machine, self.words, self.probes = machine, (*words_of(work), f"heap={heap}", "wait=1", "ends=asked"), {}
        self.daemon = PlainDaemon(machine, limited=False)
        self.client = {**self.daemon.env, "XLA_PYTHON_CLIENT_PREALLOCATE": "false", "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "25",
                       "LD_PRELOAD": "/tmp/uvm_shim.so"}
        self.neighbours = [Program(machine, self.client, *words) for words in NEIGHBOURS]
        self.victims = collections.deque(self.new_victim() for _ in range(waiting))
        started(self.neighbours, 120)

    def new_victim(self):
        return Program(self.machine, self.client, *self.words)

    def next_victim(self):
        one = self.victims.popleft()
        self.victims.append(self.new_victim())
        started([one], 120)
        return one

    def start_probes(self):
        import pynvml
        if self.probes:
            return
        places = {"alloc": self.client, "newcomer": self.client, "nvml": {}}
        if pynvml.nvmlDeviceGetCount() > 1:
            places["alloc on GPU 1, outside of MPS"] = {"CUDA_VISIBLE_DEVICES": "1", "CUDA_MPS_PIPE_DIRECTORY": "/nonexistent"}
        self.probes = {name: Program(self.machine, env, "calls", f"of={name.split()[0]}") for name, env in places.items()}
        started(self.probes.values())
        time.sleep(2)

    def dead(self):
        return sum(not each.well() for each in self.neighbours)

    def end(self):
        for each in [*self.neighbours, *self.victims, *self.probes.values()]:
            each.kill()
        self.daemon.stop()


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


def uvm_calls(pid):
    """The lines that the shim wrote of the process."""
    try:
        with open(f"/tmp/uvm.{pid}") as file:
            return file.read().splitlines()
    except FileNotFoundError:
        return []


def uvm_kinds(pid):
    """{number: mm | va}: the file of UVM_MM_INITIALIZE pins the address space; told apart by what the shim wrote, if it did."""
    calls = (line.split() for line in uvm_calls(pid))
    return {int(number): {"75": "mm", "805306369": "va"}.get(request, "?") for number, request, *_ in calls}


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
    one, group, memory = world.next_victim(), None, used_mib()
    if end == "oom":
        group = ControlGroup(1024)
        group.add(one.pid)
    one.go(end if end == "fork" else "")
    time.sleep(0.9)
    before, took = world.dead(), time.monotonic()
    kept = Held(one.pid, held)
    took = (time.monotonic() - took) * 1000
    if before or one.process.poll() is not None:
        one.kill()
        return {"void": True}
    steps, child = [(patience, "close")], one.said("child")
    if end == "fork":
        steps = sorted(steps + [(float(longer), "child")])
    begin = time.monotonic()
    if end in ("kill", "fork"):
        signal_to(one.pid, 9)
        if child and not float(longer):
            signal_to(child["pid"], 9)
            steps.remove((0.0, "child"))
    else:
        one.go(end)
    one.process.wait(120)
    gone = time.monotonic()
    if end not in ("kill", "fork"):
        begin = gone
    what = {"held": len(kept.files), "dup_ms": round(took, 2), "gone_ms": round((gone - begin) * 1000), "status": one.process.returncode}
    if group:
        time.sleep(0.1)
        what["group_mib"] = [group.used_mib()]
    for after, step in steps:
        time.sleep(max(0, gone + after - time.monotonic()))
        what[f"dead_before_{step}"] = world.dead()
        if step == "child":
            signal_to(child["pid"], 9)
            continue
        if group:
            what["group_mib"].append(group.used_mib())
        closing = time.monotonic()
        closes = list(kept.close(order))
        closed = time.monotonic()
        if not child:
            what["used_mib"] = [memory, used_mib()]
    if wait_for(world.dead, 2):
        time.sleep(0.5)
    if group:
        what.update(group_mib=[*what["group_mib"], group.used_mib()], oom=group.oom(), removal=group.end())
    if world.probes:  # the longest before the death, between death and close, and at the close
        spans = ((begin - 2, begin - 0.3), (begin, closing), (closing, closed + 1))
        what["waits"] = {name: [each.slowest(*span) for span in spans] for name, each in world.probes.items()}
    what["ctl_ms"] = round(sum(ms for device, ms in closes if device.endswith("ctl")))
    return {"dead": world.dead(), **what, "close_ms": round((closed - closing) * 1000),
            "closes": [(os.path.basename(device), round(ms)) for device, ms in closes if ms > 5]}


def span(values):
    values = [value for value in values if value is not None]
    return f"{min(values)}–{max(values)}" if values else "–"


class Session:
    def __init__(self, machine, out, seconds):
        self.machine, self.world, self.key, self.out, self.deadline, self.table = machine, None, None, out, time.monotonic() + seconds, []

    def need(self, *key):
        if self.key != key or self.world is None:
            self.drop()
            self.world, self.key = World(self.machine, *key), key

    def drop(self):
        if self.world:
            self.world.end()
        self.world = None

    def note(self, row, **what):
        self.out.write(json.dumps({"row": row, **what}) + "\n")
        self.out.flush()
        print(row, what, flush=True)

    def tries(self, row, held, order, patience, work, end, tries, probed=False):
        done, void = [], 0
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
            self.note(row, **came)
            if void or came["dead"]:
                self.drop()
        more, first = [], done[0] if done else {}
        if "dead_before_child" in first:
            more.append(f"harm before the child's death {sum(c['dead_before_child'] > 0 for c in done)}")
        if "oom" in first:
            more.append(f"group MiB {[c['group_mib'] for c in done]}, {first['oom']}")
        for name in first.get("waits", ()):
            most = [max((c["waits"][name][at] or 0 for c in done)) for at in range(3)]
            more.append(f"{name} ms: usual, before, at close {most}")
        self.table.append((f"{held}, {order}, {patience} s", f"{work}: {end}",
                           f"{sum(c['dead'] > 0 for c in done)} of {len(done)}{f' ({void} void)' if void else ''}",
                           f"{sum(c['dead'] for c in done)} of {3 * len(done)}",
                           *(span(c[name] for c in done) for name in ("gone_ms", "close_ms", "ctl_ms")), "; ".join(more)))

    def stall(self, row, held, work, patience="2.5", end="kill", tries="1"):
        self.tries(row, held, "good", patience, work, end, tries, probed=True)

    def files(self, row):
        self.need("deep")
        begin, one, seen = time.monotonic(), self.world.new_victim(), None
        while not one.said("ready") and one.process.poll() is None:
            now = dict(collections.Counter(os.path.basename(d) for _, d in files_of(one.pid)))
            if now != seen:
                self.note(row, ms=round((time.monotonic() - begin) * 1000), files=now)
                seen = now
            time.sleep(0.01)
        pid, server, mine = one.pid, int(self.world.daemon.command("get_server_list").split()[0]), files_of(one.pid)
        self.note(row, ready_ms=round((time.monotonic() - begin) * 1000), numbers=mine, shim=uvm_kinds(pid))
        theirs = files_of(server)
        self.note(row, shared_with_server=[(n, d) for n, d in mine if any(same_file(pid, n, server, m) for m, e in theirs if e == d)],
                  server=dict(collections.Counter(os.path.basename(d) for _, d in theirs)))
        uvm = [number for number, device in mine if device.endswith("uvm")]
        self.note(row, same_among_uvm=[(a, b) for a in uvm for b in uvm if a < b and same_file(pid, a, pid, b)], ioctls=uvm_calls(pid))
        one.kill()

    def early(self, row, tries, held="none", looks="5", window="0.5"):
        tried = []
        for _ in range(int(tries)):
            if time.monotonic() > self.deadline:
                break
            self.need("early")
            one = self.world.next_victim()
            one.go()
            while one.process.poll() is None and not files_of(one.pid):
                time.sleep(0.002)
            began, kept = time.monotonic(), Held(one.pid, held)
            due = [float(ms) / 1000 for ms in looks.split(",")] if "," in looks else None
            end = None if window == "work" else began + random.uniform(0, float(window))
            while one.process.poll() is None and (end is None or time.monotonic() < end):
                if end is None and one.said("working"):
                    end = time.monotonic() + random.uniform(0, 0.1)
                if due is None or due and time.monotonic() - began >= due[0]:
                    kept.look()
                    due = due and due[1:]
                time.sleep(0.005 if due is None else 0.001)
            killed, had = time.monotonic(), files_of(one.pid)
            one.kill()
            time.sleep(0.3)
            closes = sum(ms for _, ms in kept.close("good"))
            dead, working = wait_for(self.world.dead, 1.5) or 0, one.said("working")
            uvm = lambda numbers: sum(device.endswith("nvidia-uvm") for _, device, *_ in numbers)
            tried.append({"dead": dead, "killed_ms": round((killed - began) * 1000),
                          "first_work_ms": working and round((working["at"] - began) * 1000),
                          "had": [len(had), uvm(had)], "held": [len(kept.files), uvm(kept.files)], "close_ms": round(closes)})
            self.note(row, **tried[-1])
            if dead:
                self.drop()

        def count(test):
            found = [t for t in tried if test(t)]
            return f"{sum(t['dead'] > 0 for t in found)} of {len(found)}"

        work, lacks = lambda t: t["first_work_ms"] is not None, lambda t: t["held"][0] < t["had"][0]
        uvm_lacks = lambda t: t["held"][1] < t["had"][1]
        self.table.append((f"early: {held} held, looked at {looks} ms, window {window}",
                           f"harm {count(lambda t: True)}; with work in flight {count(work)}; not all held at the kill {count(lacks)}, "
                           f"uvm lacked {count(uvm_lacks)}, both work and lack {count(lambda t: work(t) and lacks(t))}",
                           f"killed {span(t['killed_ms'] for t in tried)} ms",
                           f"first product at {span(t['first_work_ms'] for t in tried)} ms"))

    def host(self, row, held="all"):
        self.need("deep", 8192, 1)
        one = self.world.next_victim()
        one.go()
        time.sleep(0.9)
        kept, available, memory = Held(one.pid, held), [], []

        def look():
            available.append(available_mib())
            memory.append(used_mib())

        look()
        one.kill()
        for _ in range(2):
            time.sleep(1.2)
            look()
        closes = list(kept.close("good"))
        time.sleep(1)
        look()
        slow = [(device, round(ms)) for device, ms in closes if ms > 5]
        self.note(row, available_mib=available, gpu_used_mib=memory, closes=slow, dead=self.world.dead())
        self.table.append((f"host: {held} held, 8 GiB heap", f"GPU used: {memory} MiB",
                           f"available before, 1.2 s and 2.4 s after the death, after the close: {available} MiB"))
        self.drop()


def main():
    made = parser(__doc__)
    made.add_argument("--seconds", type=float, default=540)
    made.add_argument("rows", nargs="+")
    args = parsed(made)
    import pynvml
    make_shim()
    pynvml.nvmlInit()
    machine = Machine(args)
    print(title(machine), os.uname().release, flush=True)
    with open(f"{args.out}/deaths.jsonl" if args.out else os.devnull, "w") as out:
        session = Session(machine, out, args.seconds)
        for row in args.rows:
            kind, *rest = row.split(":")
            try:
                if time.monotonic() > session.deadline:
                    session.table.append((row, "not run: no time"))
                elif kind in ("files", "stall", "host", "early"):
                    getattr(session, kind)(row, *rest)
                else:
                    session.tries(row, kind, *rest)
            except (SystemExit, Exception) as why:
                session.table.append((row, f"ended: {why!r}"))
                traceback.print_exc()
                session.drop()
        session.drop()
    machine.clean()
    heads = ("held, order, patience", "work: end", "tries with harm", "neighbours dead", "gone after (ms)", "close (ms)", "nvidiactl (ms)",
             "more")
    print("", *table(*heads, rows=session.table), sep="\n")


if __name__ == "__main__":
    main()
