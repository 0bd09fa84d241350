"""What the hardware scripts stand on: the machine (a GPU, or the stand-ins of a build), a plain MPS control daemon as NVIDIA's
container runs it, the real programs as a node with kubelet's double, and CUDA clients inside the pods of either."""

import ctypes, json, os, queue, re, select, shutil, signal, socket, subprocess, sys, tempfile, threading, time

HERE = os.path.dirname(os.path.abspath(__file__))
CLIENT, TENANTS = os.path.join(HERE, "cuda_client.py"), os.path.join(HERE, "tenants.py")
RESOURCE = "nvidia.com/gpu"
CONTROL = "nvidia-cuda-mps-control"
NEW_MOUNTS, BIND, RECURSIVE, PRIVATE = 0x00020000, 0x1000, 0x4000, 0x40000
PATIENCE = 60  # seconds for what an idle machine has within three: a test may have a small part of a CPU


def last_json(text):
    for line in reversed(text.splitlines()):
        if line.startswith("{"):
            try:
                return json.loads(line)
            except ValueError:
                pass
    return {}


def wait_for(probe, seconds=PATIENCE, every=0.02):
    """The first true answer of `probe`, or None when there is none in time."""
    end = time.monotonic() + seconds
    while True:
        value = probe()
        if value:
            return value
        if time.monotonic() >= end:
            return None
        time.sleep(every)


def signal_to(pid, number):
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass


def find(tree, wanted):
    """Every mapping in a document for which wanted(mapping) holds."""
    if isinstance(tree, dict):
        if wanted(tree):
            yield tree
        for value in tree.values():
            yield from find(value, wanted)
    elif isinstance(tree, list):
        for value in tree:
            yield from find(value, wanted)


class Machine:
    """Where programs are found, and the environment they run in."""

    def __init__(self, args):
        self.bin, self.standins = os.path.abspath(args.bin), os.path.abspath(args.standins)
        self.simulated, self.cublas = bool(args.simulated), args.cublas
        self.env = {k: v for k, v in os.environ.items() if not k.startswith("CUDA_MPS_")}
        self.containers = "namespaces" if os.geteuid() == 0 else "process"
        self.scratch = tempfile.mkdtemp(prefix="hold.", dir="/tmp")
        os.chmod(self.scratch, 0o755)
        if self.simulated:
            os.mkdir(f"{self.scratch}/sim")
            os.chmod(f"{self.scratch}/sim", 0o777)
            with open(f"{self.scratch}/sim/node.yaml", "w") as file:
                file.write(f"gpus: {{profile: H200, count: {getattr(args, 'gpus', 1)}}}\n")
            self.env.update(TRANCHE_SIM_NODE=f"{self.scratch}/sim", LD_LIBRARY_PATH=self.standins,
                            PATH=f"{self.standins}:/usr/sbin:/usr/bin:/sbin:/bin")
            self.cublas = self.cublas or f"{self.standins}/cublas"
        report = last_json(self.run(f"{self.bin}/tranche", "probe", "--json", "--seconds", "0").stdout)
        if not report:
            sys.exit("no GPU program runs here: `tranche probe` says nothing")
        self.gpu, self.total_mib = report["device"], report["memory"]["total"] >> 20
        self.sms = report["sms"]["attribute"]

    def driver(self):
        """Its version."""
        if self.simulated:
            return "simulated"
        return self.run("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader").stdout.split("\n")[0] or "unknown"

    def run(self, *argv, env=None, **more):
        more.setdefault("timeout", 60)
        try:
            return subprocess.run(argv, capture_output=True, text=True, env={**self.env, **(env or {})}, **more)
        except subprocess.TimeoutExpired as late:
            return subprocess.CompletedProcess(argv, 124, (late.stdout or b"").decode() if late.stdout else "", "timed out")

    def start(self, log, *argv, env=None, stdin=subprocess.DEVNULL):
        return subprocess.Popen(argv, stdin=stdin, stdout=open(log, "a"), stderr=subprocess.STDOUT, env={**self.env, **(env or {})})

    def shows_uvm(self):
        """To the stand-ins' clients a terminal is the nvidia-uvm device (standins/README-mps.md), and tranche-keeper knows the device by its
        number in /proc/devices: this script and all that it starts, in a mount namespace of their own, see it there. Needs root."""
        if not self.simulated or os.geteuid() != 0:
            return
        with open("/proc/devices") as real, open(f"{self.scratch}/devices", "w") as file:
            file.write(real.read().replace("Character devices:\n", "Character devices:\n136 nvidia-uvm\n"))
        libc = ctypes.CDLL(None)
        if libc.unshare(NEW_MOUNTS) or libc.mount(b"none", b"/", None, RECURSIVE | PRIVATE, None) or \
                libc.mount(f"{self.scratch}/devices".encode(), b"/proc/devices", None, BIND, None):
            sys.exit("cannot mount /proc/devices")

    def clean(self):
        shutil.rmtree(self.scratch, ignore_errors=True)


class Client:
    """One cuda_client.py. Answers are taken in order; what it says unasked (errors) is kept apart."""

    def __init__(self, machine, env, prefix=(), uid=None):
        words = [*prefix, sys.executable, CLIENT] + (["--uid", str(uid)] if uid is not None else [])
        self.process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                        text=True, env={**machine.env, **env})
        self.pid, self.answers, self.errors = self.process.pid, queue.Queue(), queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        for line in self.process.stdout:
            answer = last_json(line)
            (self.errors if answer.get("event") in ("error", "wrong") else self.answers).put(answer)
        self.answers.put({})

    def take(self, seconds=PATIENCE):
        """Its next answer; {} when it has ended or says nothing in time."""
        try:
            return self.answers.get(timeout=seconds)
        except queue.Empty:
            return {}

    def ready(self, seconds=PATIENCE):
        self.first = self.take(seconds)
        return self.first.get("event") == "ready"

    def refused(self):
        """Whether CUDA tells it that it does not start."""
        return self.take().get("event") == "failed"

    def ask(self, line, seconds=PATIENCE):
        try:
            self.process.stdin.write(line + "\n")
            self.process.stdin.flush()
        except (OSError, ValueError):
            return {}
        return self.take(seconds)

    def error(self, seconds=0.0):
        """What went wrong without being asked, as soon as it is reported."""
        try:
            return self.errors.get(timeout=seconds) if seconds > 0 else self.errors.get_nowait()
        except queue.Empty:
            return None

    def well(self):
        return self.process.poll() is None and self.errors.empty() and self.ask("info").get("code") == 0

    def kill(self):
        self.process.kill()
        self.process.wait()

    def leave(self):
        try:
            self.process.stdin.write("exit\n")
            self.process.stdin.flush()
            self.process.wait(PATIENCE)
        except (OSError, ValueError, subprocess.TimeoutExpired):
            self.kill()


def running_client(start, tries=8):
    """A client that came to run checked kernels, or None. A server that is just recovering is asked again."""
    for _ in range(tries):
        client = start()
        if client.ready() and client.ask("run").get("code") == 0:
            return client
        client.kill()
        time.sleep(0.4)
    return None


class Program:
    """One tenants.py; what it says is kept."""

    def __init__(self, machine, env, *words, prefix=()):
        self.words, self.events, self.windows, self.errors = words, queue.Queue(), [], []
        self.process = subprocess.Popen([*prefix, sys.executable, TENANTS, *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True, env={**machine.env, **env})
        self.pid, self.stderr = self.process.pid, []
        threading.Thread(target=self._read, daemon=True).start()
        threading.Thread(target=lambda: self.stderr.extend(self.process.stderr), daemon=True).start()

    def _read(self):
        for line in self.process.stdout:
            try:
                event = json.loads(line)
            except ValueError:
                continue
            if event["event"] == "window":
                self.windows.append(event)
            elif event["event"] == "error":
                self.errors.append(event)
            else:
                self.events.put(event)

    def ready(self, seconds=60):
        end = time.monotonic() + seconds
        while time.monotonic() < end and self.process.poll() is None:
            try:
                event = self.events.get(timeout=0.1)
            except queue.Empty:
                continue
            if event["event"] == "ready":
                return True
        return False

    def said(self, what):
        """Its first event of that name since it was ready, or None."""
        return next((event for event in list(self.events.queue) if event["event"] == what), None)

    def go(self, line=""):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def well(self):
        return self.process.poll() is None and not self.errors

    def slowest(self, begin, end):
        """The slowest step that overlaps a span of time, in milliseconds; None: no step ended in it."""
        return max((w["worst"] for w in list(self.windows) if w["at"] > begin and w["since"] < end), default=None)

    def kill(self):
        self.process.kill()
        self.process.wait()


def started(programs, seconds=90):
    """The programs, each of which has done its first step."""
    for program in programs:
        if not program.ready(seconds):
            for each in programs:
                each.kill()
            raise RuntimeError(f"{program.words} does not start: {program.errors} {''.join(program.stderr)[-300:]}")
    return programs


class PlainDaemon:
    """A control daemon as NVIDIA's container runs it for ten replicas: one directory for all, limits by ordinal."""

    def __init__(self, machine, limited=True):
        self.machine, self.dir = machine, tempfile.mkdtemp(prefix="plain.", dir=machine.scratch)
        os.chmod(self.dir, 0o755)
        for name in ("pipe", "log"):
            os.mkdir(f"{self.dir}/{name}")
            os.chmod(f"{self.dir}/{name}", 0o755)
        self.pipe, self.limit_mib = f"{self.dir}/pipe", machine.total_mib // 10
        self.env = {"CUDA_MPS_PIPE_DIRECTORY": self.pipe, "CUDA_MPS_LOG_DIRECTORY": f"{self.dir}/log"}
        self.process = machine.start(f"{self.dir}/log/control.log", CONTROL, "-f", env=self.env, stdin=subprocess.PIPE)
        wait_for(lambda: os.path.exists(f"{self.pipe}/control"))
        if limited:
            self.command("set_default_active_thread_percentage 10")
            self.command(f"set_default_device_pinned_mem_limit 0 {self.limit_mib}M")

    def command(self, line, seconds=PATIENCE):
        return self.machine.run(CONTROL, env=self.env, input=line + "\n", timeout=seconds).stdout.strip()

    def alive(self):
        return self.process.poll() is None

    def client(self, env=None, **more):
        return Client(self.machine, {"CUDA_MPS_PIPE_DIRECTORY": self.pipe, **(env or {})}, **more)

    def log(self):
        with open(f"{self.dir}/log/control.log", errors="replace") as file:
            return file.read()

    def stop(self):
        self.command("quit -t 1", 5)
        try:
            self.process.wait(5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        for pid, environ in ((pid, environ_of(pid)) for pid in leftovers(self.machine)):  # its server may be stuck
            if f"CUDA_MPS_PIPE_DIRECTORY={self.pipe}\0" in environ:
                os.kill(pid, signal.SIGKILL)


def environ_of(pid):
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return file.read().decode(errors="replace")
    except OSError:
        return ""


def line_of(path, request, seconds=PATIENCE):
    """One line asked of a local socket, one line answered; "" when nobody answers in time."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(seconds)
        try:
            connection.connect(path)
            connection.sendall(request.encode() + b"\n")
            answer = b""
            while not answer.endswith(b"\n"):
                piece = connection.recv(65536)
                if not piece:
                    break
                answer += piece
            return answer.decode(errors="replace").strip()
        except OSError:
            return ""


class Tenant:
    """A pod of the node with one container that only waits; clients are started inside it, as `kubectl exec` would."""

    def __init__(self, node, name, container):
        self.node, self.name, self.container, self.envs = node, name, container, dict(container["envs"])
        inside = self.envs.get("CUDA_MPS_PIPE_DIRECTORY", "")
        self.endpoint = next((m["host_path"] for m in container["mounts"] if m["container_path"] == inside), inside)
        self.inside = inside if node.machine.containers == "namespaces" else self.endpoint
        self.envs["CUDA_MPS_PIPE_DIRECTORY"] = self.inside
        self.enter = ("nsenter", "-t", str(container["pid"]), "-m", "--") if node.machine.containers == "namespaces" else ()

    def client(self, env=None, **more):
        return Client(self.node.machine, {**self.envs, **(env or {})}, prefix=self.enter, **more)

    def delete(self):
        self.node.kubelet_command("delete", self.name)


def runs(pid, command):
    """Whether the process has become this command."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return file.read().split(b"\0")[:len(command)] == [word.encode() for word in command]
    except OSError:
        return False


def mounts_of(pid, place):
    """Whether the process has something mounted there."""
    try:
        with open(f"/proc/{pid}/mountinfo") as file:
            return any(line.split()[4] == place for line in file)
    except OSError:
        return False


class Node:
    """`tranche mps`, `tranche node` and kubelet's double in a scratch directory; ten slots a GPU, compute mode left alone."""

    SLOTS, LOG_FORMAT = 10, "text"
    CONFIG = "version: v1\nsharing:\n  mps:\n    computeMode: leave\n    resources:\n    - {name: nvidia.com/gpu, replicas: 10}\n"

    def __init__(self, machine):
        self.machine, self.dir = machine, tempfile.mkdtemp(prefix="t.", dir="/tmp")
        os.chmod(self.dir, 0o755)
        for name in ("plugins", "run", "mps", "logs", "pods"):
            os.mkdir(self.path(name))
        with open(self.path("config.yaml"), "w") as file:
            file.write(self.CONFIG)
        common = ["--config-file", self.path("config.yaml"), "--mps-root", self.path("mps"), "--log-format", self.LOG_FORMAT]
        if machine.simulated:
            os.mkdir(self.path("driver"))
            common += ["--driver-root-ctr-path", self.path("driver")]
        self.parts = {}
        self.start("kubelet", f"{machine.standins}/sim-kubelet", "--plugin-dir", self.path("plugins"), "--pod-resources-socket",
                   self.path("run/pr.sock"), "--state-file", self.path("run/kubelet.json"), "--control", self.path("run/ctl"),
                   "--containers", machine.containers, "--grace", "1")
        self.start("mps", f"{machine.bin}/tranche", "mps", *common, *self.mps_options())
        self.start("node", f"{machine.bin}/tranche", "node", *common, "--plugin-dir", self.path("plugins"), "--pod-resources-socket",
                   self.path("run/pr.sock"), "--run-dir", self.path("run"), *self.node_options())
        if not wait_for(lambda: self.healthy() == self.SLOTS):
            self.show_logs()
            sys.exit("the node's slots did not become healthy within 60 s")

    def node_options(self):
        """More flags for `tranche node`."""
        return []

    def mps_options(self):
        """More flags for `tranche mps`."""
        return []

    def path(self, name):
        return f"{self.dir}/{name}"

    def start(self, name, *argv):
        self.parts[name] = self.machine.start(self.path(f"logs/{name}"), *argv)

    def status(self):
        return last_json(line_of(self.path("run/node.sock"), "status"))

    def mps(self):
        return last_json(line_of(self.path("mps/mps.sock"), "status"))

    def pool(self):
        return (self.mps().get("pools") or [{}])[0]

    def healthy(self):
        return sum(r.get("healthy", 0) for r in self.status().get("resources", []))

    def kubelet_command(self, *words):
        return self.machine.run(f"{self.machine.standins}/sim-kubelet", "send", self.path("run/ctl"), *words)

    def kubelet_pods(self):
        try:
            with open(self.path("run/kubelet.json")) as file:
                return {p["name"]: p for p in json.load(file)["pods"]}
        except (OSError, ValueError):
            return {}

    def tenant(self, name, slots=1, limits=None, command=("sleep", "86400"), env=None):
        """A running pod that holds `slots` of the node's resource, or what `limits` says by resource."""
        more = {"env": [{"name": k, "value": v} for k, v in env.items()]} if env else {}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {"restartPolicy": "Never", "containers": [
            {"name": "main", "command": list(command), "resources": {"limits": limits or {RESOURCE: slots}}, **more}]}}
        with open(self.path(f"pods/{name}.yaml"), "w") as file:
            file.write(json.dumps(pod))
        self.kubelet_command("apply", self.path(f"pods/{name}.yaml"))

        def container():
            state = self.kubelet_pods().get(name, {"containers": []})
            return next((c for c in state["containers"] if c["state"] == "Running" and c["pid"]), None)

        running = wait_for(container)
        if running is None:
            raise RuntimeError(f"pod {name} does not run: {self.kubelet_pods().get(name)}")
        tenant = Tenant(self, name, running)
        # Its process is there before its mounts are, and becomes the command when all of them are. Who enters too early is
        # outside of the container, or finds half of its mounts.
        if tenant.enter and not wait_for(lambda: runs(running["pid"], command)):
            raise RuntimeError(f"pod {name} does not get its mounts")
        if tenant.enter and tenant.inside and not mounts_of(running["pid"], tenant.inside):
            raise RuntimeError(f"pod {name} does not get its endpoint")
        return tenant

    def privileged(self, line, seconds=PATIENCE):
        """A command to the daemon from the host; it serves one session at a time, so it is asked again."""
        pipe = self.pool().get("pipe", "")

        def served():
            answer = self.machine.run(CONTROL, env={"CUDA_MPS_PIPE_DIRECTORY": pipe}, input=line + "\n")
            return None if "Cannot" in answer.stdout + answer.stderr else answer

        answer = wait_for(served, seconds)
        return answer.stdout.strip() if answer else "(no answer)"

    def log(self, name):
        with open(self.path(f"logs/{name}"), errors="replace") as file:
            return file.read()

    def show_logs(self):
        for name in self.parts:
            print(f"---- {name}\n{self.log(name)[-30000:]}", file=sys.stderr)

    def stop(self):
        """Which programs had to be killed."""
        killed = []
        for name in ("kubelet", "node", "mps"):
            self.parts[name].send_signal(signal.SIGTERM)
            try:
                self.parts[name].wait(PATIENCE)  # kubelet's double ends 768 containers in 7 s on an idle machine of 2 cores
            except subprocess.TimeoutExpired:
                self.parts[name].kill()
                killed.append(name)
        shutil.rmtree(self.dir, ignore_errors=True)
        return killed


OURS = re.compile(r"(^|/)nvidia-cuda-mps-(control|server)( |$)|(^|/)sim-kubelet( |$)|(^|/)tranche (mps|node|probe)( |$)|(cuda_client|tenants|contained)\.py")


def leftovers(machine):
    """Processes of ours that are still there: {pid: command}. On a simulated node only those that live on it."""
    found = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                command = file.read().replace(b"\0", b" ").decode(errors="replace").strip()
        except OSError:
            continue
        if OURS.search(command) and (not machine.simulated or f"TRANCHE_SIM_NODE={machine.scratch}/" in environ_of(pid)):
            found[int(pid)] = command
    return found


def stay(machine, besides=()):
    """The leftovers besides these that have not ended in time. The kernel reports the end of each."""
    end = time.monotonic() + PATIENCE
    while (left := {pid: command for pid, command in leftovers(machine).items() if pid not in besides}) and (rest := end - time.monotonic()) > 0:
        try:
            ending = os.pidfd_open(next(iter(left)))
        except ProcessLookupError:
            continue
        select.select([ending], [], [], rest)
        os.close(ending)
    return left
