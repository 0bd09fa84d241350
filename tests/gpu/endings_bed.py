"""What endings.py stands on: a node that watches its pods, containers with a pid namespace of their own, neighbours whose lives are
counted, and the end of a container as kubelet and a container runtime bring it about."""

import json, os, signal, socket, statistics, sys, threading, time

from gpu_bed import HERE, PATIENCE, TENANTS, Node, Program, runs, signal_to, wait_for
from pods_api import NODE, PodsApi

CONTAINED = os.path.join(HERE, "contained.py")
DYING = 0.8  # seconds in which a neighbour of a client that died badly was seen to die itself (docs/internals/evidence)


CONFIG = ("version: v1\nsharing:\n  mps:\n    computeMode: leave\n    endpoint: {endpoint}\n    failRequestsGreaterThanOne: false\n"
          "    resources:\n    - {{name: nvidia.com/gpu, replicas: {slots}}}\n")


class EndingsNode(Node):
    """Twelve slots a GPU, so that SM counts stay trusted and several victims can be prepared at once; pods_api reports its pods."""

    SLOTS, LOG_FORMAT = 12, "json"  # endings.py sets SLOTS, and CONFIG

    def __init__(self, machine):
        self.api, self.wires = PodsApi(), {}
        super().__init__(machine)
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(self.path("io.sock"))
        self.listener.listen(64)
        threading.Thread(target=self._accept, daemon=True).start()
        if not wait_for(lambda: self.status().get("kubernetes", {}).get("state") == "watching"):
            self.show_logs()
            sys.exit(f"the node does not watch its pods: {self.status().get('kubernetes')}. It needs libcurl.so.4 (7.87 or newer)")

    def node_options(self):
        with open(self.path("kubeconfig"), "w") as file:
            file.write(self.api.kubeconfig())
        return ["--kubeconfig", self.path("kubeconfig"), "--node-name", NODE]

    def _accept(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            head = b""
            while not head.endswith(b"\n"):
                piece = connection.recv(1)
                if not piece:
                    break
                head += piece
            kind, _, name = head.decode().strip().partition(" ")
            if name in self.wires:
                self.wires[name].attach(kind, connection)

    def contained(self, name, words, shape="first", slots=1, env=None):
        """A pod whose container runs tenants.py with these words."""
        box = self.wires[name] = Contained(self, name, words, shape)
        box.tenant = self.tenant(name, slots, env=env, command=[sys.executable, CONTAINED, self.path("io.sock"), name, shape,
                                                                sys.executable, TENANTS, *words])
        self.api.add(name, self.kubelet_pods()[name]["uid"])
        return box

    def lines(self, since=None):
        """Log lines of both programs, as values; `since`: what marks() answered."""
        found = []
        for name in ("node", "mps"):
            with open(self.path(f"logs/{name}"), errors="replace") as file:
                file.seek((since or {}).get(name, 0))
                for line in file:
                    try:
                        found.append({"program": name, **json.loads(line)})
                    except ValueError:
                        pass
        return found

    def marks(self):
        return {name: os.path.getsize(self.path(f"logs/{name}")) for name in ("node", "mps")}

    def stop(self):
        self.listener.close()
        killed = super().stop()
        self.api.stop()
        return killed


def state_of(pid):
    """The letter of a process's state; "" when there is no such process."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rsplit(")", 1)[1].split()[0]
    except (OSError, IndexError):
        return ""


def gone(pid):
    return state_of(pid) in ("", "Z", "X")


def mounts_namespace(pid):
    try:
        return os.readlink(f"/proc/{pid}/ns/mnt")
    except OSError:
        return ""


class Contained:
    """A container of contained.py with one tenants.py in it; what that says is kept."""

    def __init__(self, node, name, words, shape):
        self.node, self.name, self.words, self.shape = node, name, words, shape
        self.changed, self.events, self.errors, self.windows, self.stderr = threading.Condition(), [], [], [], []
        self.pid = self.first = 0  # of tenants.py and of the container's first process, as the host numbers them
        self.io, self.closed, self.begun, self.space = None, False, False, ""

    def attach(self, kind, connection):
        if kind == "io":
            self.io = connection
        threading.Thread(target=self._read, args=(kind, connection.makefile(errors="replace")), daemon=True).start()

    def _read(self, kind, lines):
        try:
            for line in lines:
                self._take(kind, line)
        except OSError:
            pass
        if kind == "io":
            with self.changed:
                self.closed = True
                self.changed.notify_all()

    def _take(self, kind, line):
        if kind == "err":
            self.stderr.append(line)
            return
        try:
            event = json.loads(line)
        except ValueError:
            return
        if event["event"] == "window":
            self.windows.append(event)
            return
        with self.changed:
            (self.errors if event["event"] == "error" else self.events).append(event)
            self.changed.notify_all()

    def all_said(self, what):
        return [event for event in list(self.events) if event["event"] == what]

    def said(self, what, seconds=0.0):
        """The first event of that name; None when it does not come before the time or the program is over."""
        find = lambda: next((e for e in self.events if e["event"] == what), None)
        with self.changed:
            self.changed.wait_for(lambda: find() or self.closed, seconds)
            return find()

    def ready(self, seconds=90):
        started = self.said("container", PATIENCE)
        if not started or not self.said("ready", seconds):
            return False
        self.first = started["pid"]
        self.space = mounts_namespace(self.first)
        self.pid = next((pid for pid in self.members() if runs(pid, [sys.executable, TENANTS])), 0)
        return self.pid != 0

    def members(self):
        return sorted(int(pid) for pid in os.listdir("/proc") if pid.isdigit() and self.space and mounts_namespace(pid) == self.space)

    def go(self):
        self.begun = True
        try:
            self.io.sendall(b"\n")
        except OSError:
            return False
        return self.said("begun", PATIENCE) is not None

    def well(self):
        return not self.errors and not gone(self.pid)

    def kill(self):
        for pid in self.members():
            signal_to(pid, signal.SIGKILL)

    def clear(self):
        """Away with it, so that its slots are free. One that works is stopped first: its queued work runs out."""
        if self.begun and self.pid and not gone(self.pid):
            signal_to(self.pid, signal.SIGSTOP)
            time.sleep(2.2)
        self.kill()
        self.node.api.remove(self.name)
        self.node.kubelet_command("delete", self.name)
        wait_for(lambda: self.name not in self.node.kubelet_pods())
        self.node.wires.pop(self.name, None)


class Sight:
    """When a container's program and its first process were first seen stopped, and gone."""

    def __init__(self, box):
        self.box, self.stopped, self.gone, self.over = box, {}, {}, threading.Event()
        self.thread = threading.Thread(target=self._look, daemon=True)
        self.thread.start()

    def _look(self):
        pids, begin = {self.box.pid, self.box.first}, time.monotonic()
        while not self.over.is_set() and len(self.gone) < len(pids):
            now = time.monotonic()
            for pid in pids - self.gone.keys():
                state = state_of(pid)
                if state in ("", "Z", "X"):
                    self.gone[pid] = now
                elif state in "Tt":
                    self.stopped.setdefault(pid, now)
            time.sleep(0.0003 if now - begin < 0.3 else 0.002)

    def end(self):
        self.over.set()
        self.thread.join()

    def wait_gone(self, pid, until):
        return wait_for(lambda: pid in self.gone, until - time.monotonic(), every=0.005) is not None


def since(moment, begin):
    """Milliseconds; None when it has not come."""
    return None if moment is None else round((moment - begin) * 1000, 1)


def delete_pod(node, box, grace, force=False, silent=False):
    """Ends the container as kubelet does (facts measured on Kubernetes 1.36: the runtime's SIGKILL comes max(2 s, grace) after SIGTERM; a
    forced deletion removes the object at once and gives the runtime its least, 2 s). `silent`: the node gets no event. Times are in
    milliseconds since SIGTERM."""
    sight = Sight(box)
    if not silent and node.api.when_sent(node.api.remove(box.name) if force else node.api.mark(box.name, grace)) is None:
        sight.end()
        raise RuntimeError("the node's watch of pods is away")
    asked = time.monotonic()
    signal_to(box.first, signal.SIGTERM)
    in_time = sight.wait_gone(box.first, asked + max(2.0, 0 if force else grace))
    killed = time.monotonic()
    program_was_there = box.pid not in sight.gone and not gone(box.pid)
    box.kill()
    sight.wait_gone(box.pid, time.monotonic() + PATIENCE)
    sight.wait_gone(box.first, time.monotonic() + PATIENCE)
    sight.end()
    stopped, ended = sight.stopped.get(box.pid), sight.gone.get(box.pid)
    by = ("itself" if box.said("saved") else "the node" if stopped is not None else "SIGKILL of the runtime" if program_was_there else "SIGTERM")
    return {"stopped_ms": since(stopped, asked), "gone_ms": since(ended, asked), "container_ms": since(sight.gone.get(box.first), asked),
            "runtime_killed_ms": None if in_time else since(killed, asked), "by": by}


class Witness:
    """What the kernel log and the keeper say, each line with the moment at which it was read: what a neighbour's death is explained by."""

    def __init__(self, keeper_socket):
        self.seen, self.socket = [], keeper_socket
        for read in (self._kernel, self._keeper):
            threading.Thread(target=read, daemon=True).start()

    def _kernel(self):
        try:
            with open("/dev/kmsg", "rb", buffering=0) as log:
                os.lseek(log.fileno(), 0, os.SEEK_END)
                while True:
                    line = log.read(8192).decode(errors="replace")
                    if "NVRM" in line:
                        self.seen.append((time.monotonic(), "kernel", line.split(";", 1)[-1].strip()[:300]))
        except OSError:  # not to be read here, or lines were overwritten
            pass

    def _keeper(self):
        while True:
            try:
                with socket.socket(socket.AF_UNIX) as connection:
                    connection.connect(self.socket)
                    connection.sendall(b"watch\n")
                    for line in filter(str.strip, connection.makefile()):
                        self.seen += [(time.monotonic(), "keeper", client) for client in json.loads(line)["clients"]]
            except (OSError, ValueError):
                pass
            time.sleep(0.2)

    def last(self, seconds):
        end = time.monotonic()
        return [(round(at - end, 3), who, what) for at, who, what in list(self.seen) if at > end - seconds]


class Neighbours:
    """Programs of other tenants, whose deaths are the result. The dead are counted once and started again."""

    def __init__(self, node, kinds, slots):
        self.node, self.kinds, self.died, self.counted = node, kinds, 0, set()
        self.witness, self.harms = Witness(node.path("mps/keeper.sock")), []
        self.tenants = {name: node.tenant(f"neighbour-{name}", slots) for name in kinds}
        self.all = {name: [] for name in kinds}
        self.start(kinds)

    def start(self, names):
        for _ in range(6):  # a server that is just recovering refuses clients
            new = {name: Program(self.node.machine, self.tenants[name].envs, *self.kinds[name], prefix=self.tenants[name].enter) for name in names}
            well = {name for name, program in new.items() if program.ready(90)}
            for name, program in new.items():
                if name in well:
                    self.all[name].append(program)
                else:
                    program.kill()
            names = [name for name in names if name not in well]
            if not names:
                return
            time.sleep(1)
        raise RuntimeError(f"neighbours do not start: {names}: {new[names[0]].errors} {''.join(new[names[0]].stderr)[-300:]}")

    def new_dead(self):
        """Names of those that have died since this was asked last."""
        dead = [name for name, programs in self.all.items() if not programs[-1].well() and programs[-1] not in self.counted]
        self.counted.update(self.all[name][-1] for name in dead)
        self.died += len(dead)
        if dead:
            now = time.monotonic()
            errors = {name: [(round(e["at"] - now, 3), e.get("why", "")[:160]) for e in self.all[name][-1].errors] for name in dead}
            self.harms.append({"dead": errors, "seen": self.witness.last(15)})
        return dead

    def renew(self):
        """Starts those again that were counted; one that dies just now is counted first."""
        dead = [name for name, programs in self.all.items() if programs[-1] in self.counted]
        for name in dead:
            self.all[name][-1].kill()
        if dead:
            self.start(dead)

    def steps(self, spans):
        """Milliseconds of every step by neighbour, of the windows that overlap one of the spans."""
        return {name: [ms for program in programs for w in list(program.windows) if any(w["at"] > b and w["since"] < e for b, e in spans)
                       for ms in w["ms"]] for name, programs in self.all.items()}

    def end(self):
        for programs in self.all.values():
            programs[-1].kill()


def p99(values):
    return round(sorted(values)[min(len(values) - 1, int(len(values) * 0.99))], 2) if values else None


def median_worst(values):
    values = [v for v in values if v is not None]
    return f"{statistics.median(values):.0f}, {max(values):.0f}" if values else "-"
