#!/usr/bin/env python3
"""When a client of MPS may be stopped, and what cannot be saved: real programs on a plain MPS control daemon, without Tranche.

  moments   SIGSTOP at a random moment of a program that allocates, makes contexts, loads modules, captures graphs, multiplies or
            starts: neighbours' slowest step before and while it is stopped, and how long a newcomer takes to attach meanwhile
  long      one kernel that outlasts any patience, with and without tensor cores, ended in several ways: neighbours dead
  signs     what NVML shows of a stopped client's queue when its neighbours are idle
  probe     `tranche probe --tensor-cores`, killed with and without a stop: whether it stands for a framework's products
  nccl      all-reduces and products over two GPUs, one process a GPU, killed with and without a stop of both

Needs a GPU with MPS and PyTorch; changes no setting of the GPU. Prints tables; raw results go to $OUT/stop_moments.json."""

import argparse, ctypes, json, os, queue, random, signal, statistics, subprocess, sys, tempfile, threading, time

from gpu_bed import CLIENT, PlainDaemon, wait_for

HERE = os.path.dirname(os.path.abspath(__file__))
TENANTS = os.path.join(HERE, "tenants.py")
NEIGHBOURS = (("serve",), ("train",), ("elementwise", "fresh=1"))


class Bare:
    """What PlainDaemon needs of a machine, without a build of ours."""

    def __init__(self):
        self.env = {k: v for k, v in os.environ.items() if not k.startswith("CUDA_MPS_")}
        self.scratch, self.simulated, self.total_mib = tempfile.mkdtemp(prefix="stop.", dir="/tmp"), False, 80 << 10
        os.chmod(self.scratch, 0o755)

    def run(self, *argv, env=None, **more):
        more.setdefault("timeout", 60)
        try:
            return subprocess.run(argv, capture_output=True, text=True, env={**self.env, **(env or {})}, **more)
        except subprocess.TimeoutExpired:
            return subprocess.CompletedProcess(argv, 124, "", "timed out")

    def start(self, log, *argv, env=None, stdin=subprocess.DEVNULL):
        return subprocess.Popen(argv, stdin=stdin, stdout=open(log, "a"), stderr=subprocess.STDOUT, env={**self.env, **(env or {})})


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
                self.first = event
                return True
        return False

    def go(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def well(self):
        return self.process.poll() is None and not self.errors

    def slowest(self, begin, end):
        """The slowest step that overlaps a span of time, in milliseconds; None: no step ended in it."""
        worst = [w["worst"] for w in list(self.windows) if w["at"] > begin and w["since"] < end]
        return max(worst) if worst else None

    def signal(self, number):
        try:
            os.kill(self.pid, number)
        except ProcessLookupError:
            pass

    def kill(self):
        self.signal(signal.SIGKILL)
        self.process.wait()


def plain(machine):
    daemon = PlainDaemon(machine, limited=False)
    daemon.command("set_default_active_thread_percentage 25")
    return daemon


def start(machine, daemon, kinds, wait=False):
    programs = [Program(machine, {"CUDA_MPS_PIPE_DIRECTORY": daemon.pipe}, *words, *(["wait=1"] if wait else [])) for words in kinds]
    for program in programs:
        if not program.ready():
            raise RuntimeError(f"{program.words} does not start: {program.errors} {''.join(program.stderr)[-300:]}")
    return programs


def calls_of(pid):
    """In which system calls the threads of a stopped process are: {"number file": threads}."""
    found = {}
    for task in os.listdir(f"/proc/{pid}/task"):
        try:
            words = open(f"/proc/{pid}/task/{task}/syscall").read().split()
            name = words[0]
            if name in ("0", "1", "16", "45", "46", "47", "7", "232"):
                try:
                    name += " " + os.path.basename(os.readlink(f"/proc/{pid}/fd/{int(words[1], 16)}")).split(":")[0]
                except OSError:
                    pass
            found[name] = found.get(name, 0) + 1
        except OSError:
            pass
    return found


def attach(machine, daemon):
    """How long a new CUDA process takes until it has a context, in milliseconds; None: not in 20 s."""
    begin = time.monotonic()
    code = ("import ctypes; c=ctypes.CDLL('libcuda.so.1'); x=ctypes.c_void_p(); "
            "r=c.cuInit(0) or c.cuDevicePrimaryCtxRetain(ctypes.byref(x),0); raise SystemExit(r)")
    done = machine.run(sys.executable, "-S", "-c", code, env={"CUDA_MPS_PIPE_DIRECTORY": daemon.pipe}, timeout=20)
    return round((time.monotonic() - begin) * 1000) if done.returncode == 0 else None


def stop_once(machine, daemon, victim, neighbours, hold):
    newcomer = {}
    begin = time.monotonic()
    victim.signal(signal.SIGSTOP)
    thread = threading.Thread(target=lambda: newcomer.update(ms=attach(machine, daemon)))
    thread.start()
    time.sleep(0.02)
    calls = calls_of(victim.pid)
    time.sleep(max(0, begin + hold - time.monotonic()))
    end = time.monotonic()
    return begin, end, calls, newcomer, thread


def summary(name, stops, before):
    during = {k: max((s["steps"][k] or 9999) for s in stops) for k in before}
    attaches = [s["attach"] for s in stops]
    return {"kind": name, "stops": len(stops), "before": before, "during": during,
            "attach_median": statistics.median([a or 20000 for a in attaches]), "attach_worst": max(a or 20000 for a in attaches)}


def moments(machine, args, out):
    daemon = plain(machine)
    neighbours = start(machine, daemon, NEIGHBOURS)
    kinds = [("churn", f"of={of}") for of in ("memory", "contexts", "modules", "graphs")] + [("products", "queue=4"), ("products", "queue=256")]
    begin = time.monotonic()
    base = [attach(machine, daemon) for _ in range(5)]
    time.sleep(1)
    alone = {n.words[0]: n.slowest(begin + 0.3, time.monotonic()) for n in neighbours}
    out["moments"] = {"attach_alone": base, "alone": alone, "kinds": []}
    for words in kinds:
        victim, = start(machine, daemon, [words])
        begin = time.monotonic()
        time.sleep(1.5)
        base = [attach(machine, daemon) for _ in range(3)]
        before = {n.words[0]: n.slowest(begin + 0.2, time.monotonic()) for n in neighbours}
        stops = []
        for _ in range(args.repeats):
            time.sleep(random.uniform(0.15, 0.3))
            if not victim.well() or not all(n.well() for n in neighbours):
                break
            begin, end, calls, newcomer, thread = stop_once(machine, daemon, victim, neighbours, args.hold)
            victim.signal(signal.SIGCONT)
            thread.join()
            time.sleep(0.12)
            stops.append({"calls": calls, "attach": newcomer.get("ms"), "steps": {n.words[0]: n.slowest(begin, end) for n in neighbours}})
        victim.signal(signal.SIGSTOP)
        time.sleep(2.5 if "256" in words[-1] else 0.5)
        victim.kill()
        time.sleep(0.8)
        dead = [n.words[0] for n in neighbours if not n.well()]
        row = summary(" ".join(words), stops, before) if stops else {"kind": " ".join(words), "stops": 0}
        row.update(attach_running=base, dead=dead, raw=stops)
        out["moments"]["kinds"].append(row)
        print({k: v for k, v in row.items() if k != "raw"}, file=sys.stderr, flush=True)
        if dead:
            for n in neighbours:
                n.kill()
            daemon.stop()
            daemon = plain(machine)
            neighbours = start(machine, daemon, NEIGHBOURS)
    # Programs that are starting: stopped at some moment, then killed.
    stops, first = [], time.monotonic() + 6
    plan = [(first + i * (args.hold + 0.7), random.uniform(0.6, 5.5)) for i in range(args.repeats)]
    started = {}

    def spawn(i):
        started[i] = Program(machine, {"CUDA_MPS_PIPE_DIRECTORY": daemon.pipe}, "products")

    for i, (at, age) in enumerate(plan):
        threading.Timer(max(0, at - age - time.monotonic()), spawn, (i,)).start()
    for i, (at, age) in enumerate(plan):
        time.sleep(max(0, at - time.monotonic()))
        victim = started[i]
        begin, end, calls, newcomer, thread = stop_once(machine, daemon, victim, neighbours, args.hold)
        was_ready = not victim.events.empty()
        victim.kill()
        thread.join()
        stops.append({"age": age, "ready": was_ready, "calls": calls, "attach": newcomer.get("ms"),
                      "steps": {n.words[0]: n.slowest(begin, end) for n in neighbours}, "dead": [n.words[0] for n in neighbours if not n.well()]})
        if stops[-1]["dead"]:
            break
    row = summary("starting", stops, alone)
    row.update(dead=[d for s in stops for d in s["dead"]], raw=stops)
    out["moments"]["kinds"].append(row)
    print({k: v for k, v in row.items() if k != "raw"}, file=sys.stderr, flush=True)
    time.sleep(0.1)
    for program in [*neighbours, *started.values()]:
        program.kill()
    daemon.stop()


def long(machine, args, out):
    """Each try has a daemon of its own: after a fault its clients are gone anyway."""
    out["long"] = []
    ways = ("stop 2 s, kill", "terminate, kill", "stop, terminate, kill", "stop until it has run out, kill")
    for kernel in ("dot", "plain"):
        for way in ways:
            dead = tried = 0
            took = []
            daemon, neighbours = None, []
            for _ in range(args.long_repeats):
                if daemon is None:
                    daemon = plain(machine)
                    neighbours = start(machine, daemon, [("elementwise",), ("serve",)])
                victim, = start(machine, daemon, [("triton", f"ms={args.long_ms}", "queue=1", *(["plain=1"] if kernel == "plain" else []))])
                time.sleep(1.2)
                if way.startswith("stop"):
                    victim.signal(signal.SIGSTOP)
                begin = time.monotonic()
                if way == "stop 2 s, kill":
                    time.sleep(2)
                elif "terminate" in way:
                    server = daemon.command("get_server_list").split()[0]
                    daemon.command(f"terminate_client {server} {victim.pid}", 15)
                else:
                    time.sleep(args.long_ms / 1000 + 1)
                took.append(round(time.monotonic() - begin, 2))
                victim.kill()
                tried += 1
                time.sleep(1.5)
                if not all(n.well() for n in neighbours):
                    dead += 1
                    for n in neighbours:
                        n.kill()
                    daemon.stop()
                    daemon = None
            if daemon:
                for n in neighbours:
                    n.kill()
                daemon.stop()
            out["long"].append({"kernel": kernel, "way": way, "tried": tried, "hurt": dead, "took": took})
            print(out["long"][-1], file=sys.stderr, flush=True)


def signs(machine, args, out):
    import pynvml as n
    n.nvmlInit()
    gpu = n.nvmlDeviceGetHandleByIndex(0)

    def cost(call):
        call()
        begin = time.perf_counter()
        for _ in range(200):
            call()
        return round((time.perf_counter() - begin) / 200 * 1e6, 1)

    out["signs"] = {"cost_us": {
        "ComputeRunningProcesses": cost(lambda: n.nvmlDeviceGetComputeRunningProcesses(gpu)),
        "MemoryInfo": cost(lambda: n.nvmlDeviceGetMemoryInfo(gpu)),
        "UtilizationRates": cost(lambda: n.nvmlDeviceGetUtilizationRates(gpu))}, "runs": []}
    daemon = plain(machine)
    for words in (("products", "queue=4"), ("products", "queue=256"), ("triton", "ms=1500", "queue=1")):
        victim, = start(machine, daemon, [words])
        time.sleep(1)
        begin, samples = time.monotonic(), []
        victim.signal(signal.SIGSTOP)
        try:
            last = n.nvmlGpmSampleAlloc()
            n.nvmlGpmSampleGet(gpu, last)
        except Exception as error:
            last = None
            out["signs"]["gpm"] = str(error)
        stamp = 0
        while time.monotonic() - begin < 3:
            time.sleep(0.1)
            sample = {"at": round(time.monotonic() - begin, 3), "util": n.nvmlDeviceGetUtilizationRates(gpu).gpu}
            if last is not None:
                now = n.nvmlGpmSampleAlloc()
                n.nvmlGpmSampleGet(gpu, now)
                get = n.c_nvmlGpmMetricsGet_t()
                get.version, get.numMetrics, get.sample1, get.sample2 = n.NVML_GPM_METRICS_GET_VERSION, 2, last, now
                get.metrics[0].metricId, get.metrics[1].metricId = n.NVML_GPM_METRIC_GRAPHICS_UTIL, n.NVML_GPM_METRIC_SM_UTIL
                try:
                    n.nvmlGpmMetricsGet(get)
                    sample["gpm"] = [round(get.metrics[0].value, 3), round(get.metrics[1].value, 3)]
                except Exception as error:
                    sample["gpm"] = str(error)
                n.nvmlGpmSampleFree(last)
                last = now
            samples.append(sample)
        victim.kill()
        out["signs"]["runs"].append({"kind": " ".join(words), "samples": samples})
    daemon.stop()
    print(json.dumps(out["signs"]), file=sys.stderr, flush=True)


def gpm_busy(nvml, gpu, seconds):
    """Percent of the time in which the GPU computed, by GPM."""
    samples = [nvml.nvmlGpmSampleAlloc() for _ in range(2)]
    nvml.nvmlGpmSampleGet(gpu, samples[0])
    time.sleep(seconds)
    nvml.nvmlGpmSampleGet(gpu, samples[1])
    get = nvml.c_nvmlGpmMetricsGet_t()
    get.version, get.numMetrics, get.sample1, get.sample2 = nvml.NVML_GPM_METRICS_GET_VERSION, 1, *samples
    get.metrics[0].metricId = nvml.NVML_GPM_METRIC_GRAPHICS_UTIL
    nvml.nvmlGpmMetricsGet(get)
    for sample in samples:
        nvml.nvmlGpmSampleFree(sample)
    return round(get.metrics[0].value, 1)


class Neighbour(Program):
    def hurt(self):
        """None, or what became of it: dead, or alive without a step in the last second."""
        if not self.well():
            return "dead"
        return "stalled" if not self.windows or time.monotonic() - self.windows[-1]["at"] > 1 else None


def ends(machine, args, out, part, ways, neighbours_of, victim_of):
    """Victims that are ended at a random moment in one of several ways, (name, function of pids, repeats): how many neighbours
    each end cost."""
    out[part], daemon, neighbours = [], plain(machine), []
    for way, end, repeats in ways:
        row = {"way": way, "tried": 0, "could die": 0, "dead": 0, "stalled": 0, "void": 0}
        out[part].append(row)
        for _ in range(repeats):
            if time.monotonic() > args.until:
                break
            if daemon is None:
                daemon = plain(machine)
            if not neighbours:
                neighbours = neighbours_of(daemon)
            pids, clear = victim_of(daemon)
            hurt = []
            if pids:
                time.sleep(random.uniform(0.2, 0.6))
                end(pids)
                time.sleep(2)
                hurt = [n.hurt() for n in neighbours]
                row["tried"] += 1
                row["could die"] += len(neighbours)
                row["dead"] += hurt.count("dead")
                row["stalled"] += hurt.count("stalled")
            else:
                row["void"] += 1
            clear()
            if not pids or any(hurt):
                for n in neighbours:
                    n.kill()
                daemon.stop()
                daemon, neighbours = None, []
        print(part, row, file=sys.stderr, flush=True)
    for n in neighbours:
        n.kill()
    if daemon:
        daemon.stop()


def signal_all(pids, number):
    for pid in pids:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            pass


def kill_at_once(pids):
    signal_all(pids, signal.SIGKILL)


def stop_then_kill(pids):
    signal_all(pids, signal.SIGSTOP)
    time.sleep(2)
    signal_all(pids, signal.SIGKILL)


def stop_apart_then_kill(pids):
    """The last rank first: what the others have in flight then waits for it on the GPU."""
    signal_all(pids[-1:], signal.SIGSTOP)
    time.sleep(0.05)
    stop_then_kill(pids)


def probe(machine, args, out):
    def victim(daemon):
        process = subprocess.Popen([args.tranche, "probe", "--tensor-cores", "--seconds", "600", "--json"], stdout=subprocess.DEVNULL,
                                   stderr=subprocess.PIPE, text=True, env={**machine.env, "CUDA_MPS_PIPE_DIRECTORY": daemon.pipe})
        time.sleep(1.2)  # it checks its answers first, in 0.3 s

        def clear():
            process.kill()
            said = process.stderr.read()
            if said:
                print(said, file=sys.stderr)
            process.wait()
        return ([process.pid] if process.poll() is None else []), clear

    ends(machine, args, out, "probe", (("kill", kill_at_once, args.control), ("stop 2 s, kill", stop_then_kill, args.repeats)),
         lambda daemon: neighbours_on(machine, daemon, [{}]), victim)


def neighbours_on(machine, daemon, places):
    found = [Neighbour(machine, {"CUDA_MPS_PIPE_DIRECTORY": daemon.pipe, **place}, words) for place in places
             for words in ("serve", "elementwise")]
    if not all(n.ready() for n in found):
        raise RuntimeError("a neighbour does not start")
    return found


def ranks_in(machine, program, seconds):
    """(processes of an nccl program over two GPUs by their ranks, both or some of them; what clears it away)."""
    ranks, end = {}, time.monotonic() + seconds
    while len(ranks) < 2 and time.monotonic() < end and program.process.poll() is None:
        try:
            event = program.events.get(timeout=0.5)
        except queue.Empty:
            continue
        if event["event"] == "ready":
            ranks[event["rank"]] = event["pid"]

    def clear():
        children = machine.run("pgrep", "-P", str(program.pid)).stdout.split()
        signal_all([*ranks.values(), *map(int, children)], signal.SIGKILL)
        program.kill()
    return ranks, clear


def ranks_of(machine, daemon, port, env):
    """(processes of an nccl tenant over two GPUs in the order of their ranks, or none; what clears it away)."""
    program = Program(machine, {"CUDA_MPS_PIPE_DIRECTORY": daemon.pipe, **env}, "nccl", f"port={port}")
    ranks, clear = ranks_in(machine, program, 25)
    if len(ranks) < 2:
        print("nccl does not start:", "".join(program.stderr)[-600:], file=sys.stderr)
    return ([ranks[i] for i in sorted(ranks)] if len(ranks) == 2 else []), clear


def nccl(machine, args, out):
    import pynvml
    pynvml.nvmlInit()
    gpus = [pynvml.nvmlDeviceGetHandleByIndex(i) for i in range(2)]
    port = iter(range(29600, 29900))
    out["nccl in flight"] = []
    for name, env in (("default", {}), ("NCCL_P2P_DISABLE=1", {"NCCL_P2P_DISABLE": "1"})):
        daemon = plain(machine)
        pids, clear = ranks_of(machine, daemon, next(port), env)
        row = {"transport": name, "stops": 0, "in flight after 1 s": 0, "after resuming and stopping again": 0}
        for _ in range(args.repeats if pids else 0):
            time.sleep(random.uniform(0.2, 0.5))
            signal_all(pids, signal.SIGSTOP)
            time.sleep(1)
            row["stops"] += 1
            if max(gpm_busy(pynvml, gpu, 0.15) for gpu in gpus) > 1:
                row["in flight after 1 s"] += 1
                signal_all(pids, signal.SIGCONT)
                time.sleep(0.02)
                signal_all(pids, signal.SIGSTOP)
                time.sleep(0.5)
                row["after resuming and stopping again"] += max(gpm_busy(pynvml, gpu, 0.15) for gpu in gpus) > 1
            signal_all(pids, signal.SIGCONT)
        clear()
        daemon.stop()
        out["nccl in flight"].append(row)
        print(row, file=sys.stderr, flush=True)
    ends(machine, args, out, "nccl",
         (("stop the ranks 50 ms apart, 2 s, kill", stop_apart_then_kill, args.control), ("kill", kill_at_once, args.control),
          ("stop 2 s, kill", stop_then_kill, args.repeats)),
         lambda daemon: neighbours_on(machine, daemon, [{"CUDA_VISIBLE_DEVICES": "0"}, {"CUDA_VISIBLE_DEVICES": "1"}]),
         lambda daemon: ranks_of(machine, daemon, next(port), {}))


def table(out):
    lines = []
    if "moments" in out:
        m = out["moments"]
        lines += [f"attach alone {m['attach_alone']} ms; neighbours alone {m['alone']}", "| victim | stops | slowest step before (ms) | while stopped | attach median, worst (ms) | dead |", "| --- | --- | --- | --- | --- | --- |"]
        for r in m["kinds"]:
            lines.append(f"| {r['kind']} | {r['stops']} | {r.get('before')} | {r.get('during')} | {r.get('attach_median')}, {r.get('attach_worst')} | {r.get('dead')} |")
    if "long" in out:
        lines += ["| kernel | way | neighbours hurt | seconds to the kill |", "| --- | --- | --- | --- |"]
        lines += [f"| {r['kernel']} | {r['way']} | {r['hurt']} of {r['tried']} | {r['took']} |" for r in out["long"]]
    for part in ("probe", "nccl"):
        if part in out:
            lines += [f"| {part}: way | ends | neighbours dead |", "| --- | --- | --- |"]
            lines += [f"| {r['way']} | {r['tried']} | {r['dead']} of {r['could die']}, and {r['stalled']} stalled |" for r in out[part]]
    if "nccl in flight" in out:
        lines += ["| transport | stops of both ranks | work in flight 1 s later | resumed for 20 ms, stopped again |", "| --- | --- | --- | --- |"]
        lines += ["| " + " | ".join(map(str, row.values())) + " |" for row in out["nccl in flight"]]
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", choices=("moments", "long", "signs", "probe", "nccl"))
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--hold", type=float, default=0.5, help="seconds that a victim is stopped")
    parser.add_argument("--long-repeats", type=int, default=3)
    parser.add_argument("--long-ms", type=int, default=5000)
    parser.add_argument("--control", type=int, default=4, help="ends without a stop, of probe and nccl")
    parser.add_argument("--tranche", default="build/bin/tranche", help="for probe")
    parser.add_argument("--budget", type=float, default=540, help="seconds: probe and nccl begin no end after them")
    parser.add_argument("--out", default=os.environ.get("OUT", ""))
    args = parser.parse_args()
    machine, out, begin = Bare(), {}, time.monotonic()
    gpu = machine.run("nvidia-smi", "--query-gpu=name,driver_version,compute_mode", "--format=csv,noheader").stdout.strip()
    args.until = begin + args.budget
    for part in (moments, long, signs, probe, nccl):
        if args.only and part.__name__ not in args.only:
            continue
        try:
            part(machine, args, out)
        except Exception as error:
            out[f"{part.__name__} failed"] = f"{type(error).__name__}: {error}"
            print(out[f"{part.__name__} failed"], file=sys.stderr, flush=True)
        if args.out:
            with open(f"{args.out}/stop_moments.json", "w") as file:
                json.dump(out, file)
    print(f"{gpu}   {time.strftime('%Y-%m-%d', time.gmtime())}   {time.monotonic() - begin:.0f} s")
    print(table(out))
    return 1 if any("failed" in key for key in out) else 0


if __name__ == "__main__":
    sys.exit(main())
