"""What the abuse tests stand on: `tranche mps`, `tranche node` and kubelet's double of a build on real sockets and files, with the
stand-in driver and daemon, and a list of checks. A test is a script with `run(bed, checks)`; see main(). Both programs have 64 MB of
memory and 256 descriptors (LIMITS): the memory by a control group where one can be made, which then holds what a program starts as
well, and by a look at the most that each has had (VmHWM) everywhere.

    python3 tests/abuse/SUBJECT.py build        # the table of checks; exit status 1 when one fails
"""

import argparse, os, resource, signal, socket, struct, subprocess, sys, time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "gpu"))
from gpu_bed import PATIENCE, Client, Machine, Node, Tenant, find, last_json, line_of, stay, wait_for  # noqa: E402,F401

HELLO, CREDENTIALS = b"OUTBHELL\0", b"OUTBCRED\0"


LIMITS = (64, 256)  # megabytes, descriptors


def memory_group(name, megabytes):
    """A control group with this limit; None where none can be made here."""
    for root, limit in (("/sys/fs/cgroup/memory", "memory.limit_in_bytes"), ("/sys/fs/cgroup", "memory.max")):
        path = f"{root}/tranche-abuse-{os.getpid()}-{name}"
        try:
            os.makedirs(path, exist_ok=True)
            if os.path.exists(f"{path}/{limit}"):
                with open(f"{path}/{limit}", "w") as file:
                    file.write(str(megabytes << 20))
                return path
            os.rmdir(path)
        except OSError:
            continue
    return None


def kills_of(group):
    """How many processes of a control group were killed because it was full."""
    for name in ("memory.events", "memory.oom_control"):
        try:
            with open(f"{group}/{name}") as file:
                return sum(int(line.split()[1]) for line in file if line.startswith("oom_kill "))
        except OSError:
            continue
    return 0


def state(pid):
    """The letter of a process in /proc; "" if there is none."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0]
    except OSError:
        return ""


class Checks:
    """What was looked at and what came of it."""

    def __init__(self):
        self.failures = []

    @property
    def failed(self):
        return len(self.failures)

    def check(self, what, well, detail=""):
        line = f"{'ok  ' if well else 'FAIL'} {what}" + (f"  [{detail}]" if detail != "" else "")
        if not well:
            self.failures.append(line)
        print(f"   {line}", flush=True)
        return well

    def report(self, seconds):
        """The last lines of a run: what failed once more, because logs come in between."""
        print("\n".join([*self.failures, f"{self.failed} failed, {seconds:.0f} s"]), flush=True)


class Bed(Node):
    """A node under attack. Keyword arguments: config (text), more_mps and more_node (flags), env ({program: {name: value}}),
    bounded (False: without LIMITS)."""

    def __init__(self, machine, slots=4, config=None, more_mps=(), more_node=(), env=None, bounded=True):
        self.SLOTS, self.more, self.extra = slots, {"mps": more_mps, "node": more_node}, env or {}
        self.groups = {name: memory_group(name, LIMITS[0]) for name in self.more} if bounded else {}
        self.CONFIG = config if config is not None else Node.CONFIG.replace("replicas: 10", f"replicas: {slots}")
        super().__init__(machine)

    def start(self, name, *argv):
        """Starts a program, or starts it again with the same arguments."""
        argv = [*argv, *self.more.get(name, ())] if argv else self.parts[name].args
        group = self.groups.get(name)

        def bound():
            if name not in self.groups:
                return
            resource.setrlimit(resource.RLIMIT_NOFILE, (LIMITS[1],) * 2)
            if group:
                with open(f"{group}/cgroup.procs", "w") as file:
                    file.write(str(os.getpid()))

        with open(self.path(f"logs/{name}"), "a") as log:
            self.parts[name] = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, preexec_fn=bound,
                                                env={**self.machine.env, **self.extra.get(name, {})})
        return self.parts[name]

    def end(self, name, how=signal.SIGTERM):
        """Ends a program; its exit status."""
        self.parts[name].send_signal(how)
        return self.parts[name].wait(PATIENCE)

    def pid(self, name):
        return self.parts[name].pid

    def alive(self, name):
        return self.parts[name].poll() is None

    def configure(self, text):
        """Puts a configuration in force as an editor does: a new file, renamed over the old one."""
        with open(self.path("config.new"), "wb") as file:
            file.write(text if isinstance(text, bytes) else text.encode())
        os.rename(self.path("config.new"), self.path("config.yaml"))

    def check_memory(self, checks):
        """Before the programs are ended: neither has needed more than its limit."""
        if not self.groups:
            return
        most = {name: most_kib(self.pid(name)) for name in self.groups if self.alive(name)}
        checks.check(f"both programs have had less than {LIMITS[0]} MB", all(kib < LIMITS[0] << 10 for kib in most.values()), most)
        killed = {name: kills_of(group) for name, group in self.groups.items() if group}
        checks.check("no process of theirs was killed for its memory", not any(killed.values()), killed or "no control groups here")

    def remove_groups(self):
        for group in filter(None, self.groups.values()):
            wait_for(lambda: removed(group))

    def keeper_answers(self):
        """Waits until the keeper has answered for a client. `tranche mps` starts it and connects to it for its first client, so only
        then are the descriptors of `tranche mps` worth a count."""
        def answered(client):
            return client["protected"] == "yes" or client["protected"] == "no" and "does not run" not in client["why"]
        return wait_for(lambda: any(answered(client) for endpoint in self.pool()["endpoints"] for client in endpoint["protection"]))

    def endpoint(self, grant):
        return self.path(f"mps/pools/{self.pool()['id']}/endpoints/{grant}")

    def all_healthy(self):
        return bool(wait_for(lambda: self.healthy() == self.SLOTS))


def removed(group):
    try:
        os.rmdir(group)
    except OSError:
        return not os.path.exists(group)
    return True


def open_files(pid):
    """What each descriptor of a process is open for; one that is closed meanwhile is left out."""
    files = []
    for fd in sorted(os.listdir(f"/proc/{pid}/fd"), key=int):
        try:
            files.append(os.readlink(f"/proc/{pid}/fd/{fd}"))
        except FileNotFoundError:
            pass
    return files


def descriptors(pid):
    return len(open_files(pid))


def resident_kib(pid):
    with open(f"/proc/{pid}/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmRSS"))


def most_kib(pid):
    """The most that was resident at once; 0 for a process that has ended."""
    with open(f"/proc/{pid}/status") as file:
        return next((int(line.split()[1]) for line in file if line.startswith("VmHWM")), 0)


def cpu_seconds(pid):
    with open(f"/proc/{pid}/schedstat") as file:
        return int(file.read().split()[0]) / 1e9


def packets(path, seconds=PATIENCE):
    """A connection to an MPS control socket, as a CUDA program makes it."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
    connection.connect(path)  # waits while the relay accepts no more; with a timeout it would fail
    connection.settimeout(seconds)
    return connection


def credentials(pid=None, uid=None, gid=None):
    """Ancillary data of sendmsg that says who sends."""
    who = (os.getpid() if pid is None else pid, os.getuid() if uid is None else uid, os.getgid() if gid is None else gid)
    return [(socket.SOL_SOCKET, socket.SCM_CREDENTIALS, struct.pack("3i", *who))]


def main(run, doc, **bed):
    """Runs run(bed, checks) on a bed made with these keywords; what a test script ends with."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", nargs="?", default="build", help="the build folder")
    build = parser.parse_args().build
    machine = Machine(argparse.Namespace(bin=f"{build}/bin", standins=f"{build}/standins", simulated=build, cublas="", gpus=bed.pop("gpus", 1)))
    if bed.pop("uvm", False):
        machine.shows_uvm()
    checks, begin = Checks(), time.monotonic()
    node = Bed(machine, **bed)
    try:
        run(node, checks)
    except Exception as error:  # the logs are worth having
        checks.check("the test runs to its end", False, f"{type(error).__name__}: {error}")
    node.check_memory(checks)
    if checks.failed:
        node.show_logs()
    for part in node.parts.values():
        if part.poll() is None:
            part.send_signal(signal.SIGCONT)
    killed = node.stop()
    left = stay(machine)
    checks.check("no process is left, none had to be killed", not left and not killed, left or ", ".join(killed) or "")
    machine.clean()
    node.remove_groups()
    checks.report(time.monotonic() - begin)
    return 1 if checks.failed else 0
