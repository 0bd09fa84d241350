#!/usr/bin/env python3
"""When a client of MPS may be stopped, and what cannot be saved: real programs on a plain MPS control daemon, without Tranche.

  moments   SIGSTOP at a random moment of a program that allocates, makes contexts, loads modules, captures graphs, multiplies or
            starts: neighbours' slowest step before and while it is stopped, and how long a newcomer takes to attach meanwhile
  long      one kernel that outlasts any patience, with and without tensor cores, ended in several ways: neighbours dead
  signs     what NVML shows of a stopped client's queue when its neighbours are idle
  probe     `tranche probe --tensor-cores`, killed with and without a stop: whether it stands for a framework's products
  nccl      all-reduces and products over two GPUs, one process a GPU, killed with and without a stop of both

Needs a GPU with MPS, PyTorch and a build; changes no setting of the GPU. Prints a table last; raw results go to $OUT/stop_moments.json."""

import queue, random, signal, statistics, subprocess, sys, threading, time

from gpu_bed import Machine, PlainDaemon, Program, signal_to, started
from rows import parsed, parser, parts, save, title

NEIGHBOURS = (("serve",), ("train",), ("elementwise", "fresh=1"))


def plain(machine):
    daemon = PlainDaemon(machine, limited=False)
    daemon.command("set_default_active_thread_percentage 25")
    return daemon


def start(machine, daemon, kinds):
    return started([Program(machine, {"CUDA_MPS_PIPE_DIRECTORY": daemon.pipe}, *words) for words in kinds])


def attach(machine, daemon):
    """How long a new CUDA process takes until it has a context, in milliseconds; None: not in 20 s."""
    begin = time.monotonic()
    code = ("import ctypes; c=ctypes.CDLL('libcuda.so.1'); x=ctypes.c_void_p(); "
            "r=c.cuInit(0) or c.cuDevicePrimaryCtxRetain(ctypes.byref(x),0); raise SystemExit(r)")
    done = machine.run(sys.executable, "-S", "-c", code, env={"CUDA_MPS_PIPE_DIRECTORY": daemon.pipe}, timeout=20)
    return round((time.monotonic() - begin) * 1000) if done.returncode == 0 else None


def stop_once(machine, daemon, victim, neighbours, hold, end):
    """How long a newcomer takes beside the stopped victim, and the neighbours' slowest steps; `end` is the signal that ends the stop."""
    newcomer, begin = [], time.monotonic()
    signal_to(victim.pid, signal.SIGSTOP)
    thread = threading.Thread(target=lambda: newcomer.append(attach(machine, daemon)))
    thread.start()
    time.sleep(hold)
    ready, stopped = not victim.events.empty(), time.monotonic()
    signal_to(victim.pid, end)
    thread.join()
    time.sleep(0.12)
    return {"ready": ready, "attach": newcomer[0], "steps": slowest(neighbours, begin, stopped), "dead": dead_of(neighbours)}


def slowest(neighbours, begin, end):
    return {n.words[0]: n.slowest(begin, end) for n in neighbours}


def dead_of(neighbours):
    return [n.words[0] for n in neighbours if not n.well()]


def line_of(name, stops, before, dead):
    during = {k: max((s["steps"][k] or 9999) for s in stops) for k in before} if stops else {}
    attaches = [s["attach"] or 20000 for s in stops] or [0]
    return (name, f"{len(stops)} stops; slowest step before {before}, while stopped {during} ms; attach {statistics.median(attaches)} ms "
                  f"median, {max(attaches)} worst; dead {dead}")


def moments(machine, args):
    daemon = plain(machine)
    neighbours = start(machine, daemon, NEIGHBOURS)
    kinds = [("churn", f"of={of}") for of in ("memory", "contexts", "modules", "graphs")] + [("products", "queue=4"), ("products", "queue=256")]
    begin = time.monotonic()
    alone_attach = [attach(machine, daemon) for _ in range(5)]
    time.sleep(1)
    alone = slowest(neighbours, begin + 0.3, time.monotonic())
    lines, raw = [("without a victim", f"attach {alone_attach} ms; slowest steps {alone} ms")], {}
    for words in kinds:
        name, stops = " ".join(words), []
        try:
            victim, = start(machine, daemon, [words])
        except RuntimeError as error:  # `modules` needs CuPy
            lines.append((name, str(error)))
            continue
        begin = time.monotonic()
        time.sleep(1.5)
        running = [attach(machine, daemon) for _ in range(3)]
        before = slowest(neighbours, begin + 0.2, time.monotonic())
        for _ in range(args.repeats):
            time.sleep(random.uniform(0.15, 0.3))
            if not victim.well() or dead_of(neighbours):
                break
            stops.append(stop_once(machine, daemon, victim, neighbours, args.hold, signal.SIGCONT))
        signal_to(victim.pid, signal.SIGSTOP)
        time.sleep(2.5 if "256" in words[-1] else 0.5)
        victim.kill()
        time.sleep(0.8)
        dead = dead_of(neighbours)
        raw[name] = {"attach_running": running, "stops": stops, "dead": dead}
        lines.append(line_of(name, stops, before, dead))
        print(lines[-1], file=sys.stderr, flush=True)
        if dead:
            clear(daemon, neighbours)
            daemon = plain(machine)
            neighbours = start(machine, daemon, NEIGHBOURS)
    stops = starting(machine, args, daemon, neighbours)
    raw["starting"] = stops
    lines.append(line_of("starting", stops, alone, [name for stop in stops for name in stop["dead"]]))
    clear(daemon, neighbours)
    return lines, raw


def starting(machine, args, daemon, neighbours):
    """Programs that are starting: stopped at some moment, then killed."""
    stops, programs, first = [], {}, time.monotonic() + 6
    plan = [(first + i * (args.hold + 0.7), random.uniform(0.6, 5.5)) for i in range(args.repeats)]

    def spawn(i):
        programs[i] = Program(machine, {"CUDA_MPS_PIPE_DIRECTORY": daemon.pipe}, "products")

    for i, (at, age) in enumerate(plan):
        threading.Timer(max(0, at - age - time.monotonic()), spawn, (i,)).start()
    for i, (at, age) in enumerate(plan):
        time.sleep(max(0, at - time.monotonic()))
        stops.append({"age": age, **stop_once(machine, daemon, programs[i], neighbours, args.hold, signal.SIGKILL)})
        if stops[-1]["dead"]:
            break
    time.sleep(0.1)
    for program in programs.values():
        program.kill()
    return stops


def clear(daemon, neighbours):
    for each in neighbours:
        each.kill()
    daemon.stop()


def gpm(nvml, gpu, seconds):
    """Percent of the time in which the GPU, and its SMs, computed."""
    samples = [nvml.nvmlGpmSampleAlloc() for _ in range(2)]
    nvml.nvmlGpmSampleGet(gpu, samples[0])
    time.sleep(seconds)
    nvml.nvmlGpmSampleGet(gpu, samples[1])
    get = nvml.c_nvmlGpmMetricsGet_t()
    get.version, get.numMetrics, get.sample1, get.sample2 = nvml.NVML_GPM_METRICS_GET_VERSION, 2, *samples
    get.metrics[0].metricId, get.metrics[1].metricId = nvml.NVML_GPM_METRIC_GRAPHICS_UTIL, nvml.NVML_GPM_METRIC_SM_UTIL
    nvml.nvmlGpmMetricsGet(get)
    for sample in samples:
        nvml.nvmlGpmSampleFree(sample)
    return [round(get.metrics[i].value, 3) for i in (0, 1)]


def gpus(count):
    """NVML, and its handles of the first GPUs."""
    import pynvml
    pynvml.nvmlInit()
    return pynvml, [pynvml.nvmlDeviceGetHandleByIndex(i) for i in range(count)]


def signs(machine, args):
    nvml, (gpu,) = gpus(1)

    def cost(call):
        call(gpu)
        begin = time.perf_counter()
        for _ in range(200):
            call(gpu)
        return round((time.perf_counter() - begin) / 200 * 1e6, 1)

    calls = (nvml.nvmlDeviceGetComputeRunningProcesses, nvml.nvmlDeviceGetMemoryInfo, nvml.nvmlDeviceGetUtilizationRates)
    lines, raw = [("one call", ", ".join(f"{call.__name__} {cost(call)} µs" for call in calls))], {}
    daemon = plain(machine)
    for words in (("products", "queue=4"), ("products", "queue=256"), ("triton", "ms=1500", "queue=1")):
        victim, = start(machine, daemon, [words])
        time.sleep(1)
        begin, samples = time.monotonic(), []
        signal_to(victim.pid, signal.SIGSTOP)
        while time.monotonic() - begin < 3:
            busy = gpm(nvml, gpu, 0.1)
            samples.append((round(time.monotonic() - begin, 3), *busy, nvml.nvmlDeviceGetUtilizationRates(gpu).gpu))
        victim.kill()
        raw[" ".join(words)] = samples
        lines.append((" ".join(words), f"s after the stop, percent by GPM of the GPU, of its SMs, by its utilization: {samples}"))
    daemon.stop()
    return lines, raw


class Neighbour(Program):
    def hurt(self):
        """None, or what became of it: dead, or alive without a step in the last second."""
        if not self.well():
            return "dead"
        return "stalled" if not self.windows or time.monotonic() - self.windows[-1]["at"] > 1 else None


def neighbours_on(machine, daemon, places):
    return started([Neighbour(machine, {"CUDA_MPS_PIPE_DIRECTORY": daemon.pipe, **place}, words) for place in places
                    for words in ("serve", "elementwise")])


def ends(machine, args, ways, places, victim_of):
    """Victims that are ended in one of several ways, (name, function of daemon and pids, repeats), beside two neighbours in each of the
    places: what each end cost. victim_of(daemon): (its pids, what clears it away)."""
    rows, daemon, neighbours = [], None, []
    for way, end, repeats in ways:
        row = {"way": way, "tried": 0, "harm": 0, "could die": 0, "dead": 0, "stalled": 0, "void": 0, "seconds": []}
        rows.append(row)
        for _ in range(repeats):
            if time.monotonic() > args.until:
                break
            daemon = daemon or plain(machine)
            neighbours = neighbours or neighbours_on(machine, daemon, places)
            pids, clear_victim = victim_of(daemon)
            hurt = []
            if pids:
                time.sleep(random.uniform(0.2, 0.6))
                begin = time.monotonic()
                end(daemon, pids)
                row["seconds"].append(round(time.monotonic() - begin, 2))
                time.sleep(2)
                hurt = [n.hurt() for n in neighbours]
                row["tried"] += 1
                row["harm"] += any(hurt)
                row["could die"] += len(neighbours)
                row["dead"] += hurt.count("dead")
                row["stalled"] += hurt.count("stalled")
            else:
                row["void"] += 1
            clear_victim()
            if not pids or any(hurt):
                clear(daemon, neighbours)
                daemon, neighbours = None, []
        print(row, file=sys.stderr, flush=True)
    if daemon:
        clear(daemon, neighbours)
    return [(row["way"], f"neighbours dead {row['dead']} of {row['could die']}, and {row['stalled']} stalled; harm in {row['harm']} of "
                         f"{row['tried']} tries, {row['void']} void; seconds to the kill {row['seconds']}") for row in rows], rows


def signal_all(pids, number):
    for pid in pids:
        signal_to(pid, number)


def kill_at_once(daemon, pids):
    signal_all(pids, signal.SIGKILL)


def stop_then_kill(daemon, pids, seconds=2):
    signal_all(pids, signal.SIGSTOP)
    time.sleep(seconds)
    signal_all(pids, signal.SIGKILL)


def stop_apart_then_kill(daemon, pids):
    """The last rank first: what the others have in flight then waits for it on the GPU."""
    signal_all(pids[-1:], signal.SIGSTOP)
    time.sleep(0.05)
    stop_then_kill(daemon, pids)


def terminate_then_kill(daemon, pids):
    daemon.command(f"terminate_client {daemon.command('get_server_list').split()[0]} {pids[0]}", 15)
    signal_all(pids, signal.SIGKILL)


def stop_terminate_kill(daemon, pids):
    signal_all(pids, signal.SIGSTOP)
    terminate_then_kill(daemon, pids)


def long(machine, args):
    lines, raw = [], {}
    ways = [(way, end, args.long_repeats) for way, end in (
        ("stop 2 s, kill", stop_then_kill), ("terminate, kill", terminate_then_kill), ("stop, terminate, kill", stop_terminate_kill),
        ("stop until it has run out, kill", lambda daemon, pids: stop_then_kill(daemon, pids, args.long_ms / 1000 + 1)))]
    for kernel in ("dot", "plain"):
        def victim(daemon):
            program, = start(machine, daemon, [("triton", f"ms={args.long_ms}", "queue=1", f"plain={int(kernel == 'plain')}")])
            time.sleep(1)
            return [program.pid], program.kill

        found, raw[kernel] = ends(machine, args, ways, [{}], victim)
        lines += [(f"{kernel}: {way}", text) for way, text in found]
    return lines, raw


def probe(machine, args):
    def victim(daemon):
        process = subprocess.Popen([f"{machine.bin}/tranche", "probe", "--tensor-cores", "--seconds", "600", "--json"], text=True,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env={**machine.env, **daemon.env})
        time.sleep(1.2)  # it checks its answers first, in 0.3 s

        def clear_victim():
            process.kill()
            print(process.communicate()[1], end="", file=sys.stderr)
        return ([process.pid] if process.poll() is None else []), clear_victim

    return ends(machine, args, (("kill", kill_at_once, args.control), ("stop 2 s, kill", stop_then_kill, args.repeats)), [{}], victim)


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

    def clear_ranks():
        children = machine.run("pgrep", "-P", str(program.pid)).stdout.split()
        signal_all([*ranks.values(), *map(int, children)], signal.SIGKILL)
        program.kill()
    return ranks, clear_ranks


def ranks_of(machine, daemon, port, env):
    """(processes of an nccl tenant over two GPUs in the order of their ranks, or none; what clears it away)."""
    program = Program(machine, {"CUDA_MPS_PIPE_DIRECTORY": daemon.pipe, **env}, "nccl", f"port={port}")
    ranks, clear_ranks = ranks_in(machine, program, 25)
    if len(ranks) < 2:
        print("nccl does not start:", "".join(program.stderr)[-600:], file=sys.stderr)
    return ([ranks[i] for i in sorted(ranks)] if len(ranks) == 2 else []), clear_ranks


def in_flight(machine, args, port, env):
    """Words on how often work of two ranks is in flight a second after a stop of both, and after a short run and another stop."""
    nvml, handles = gpus(2)
    busy = lambda: max(gpm(nvml, gpu, 0.15)[0] for gpu in handles) > 1
    daemon = plain(machine)
    pids, clear_ranks = ranks_of(machine, daemon, port, env)
    stops = flying = again = 0
    for _ in range(args.repeats if pids else 0):
        time.sleep(random.uniform(0.2, 0.5))
        signal_all(pids, signal.SIGSTOP)
        time.sleep(1)
        stops += 1
        if busy():
            flying += 1
            signal_all(pids, signal.SIGCONT)
            time.sleep(0.02)
            signal_all(pids, signal.SIGSTOP)
            time.sleep(0.5)
            again += busy()
        signal_all(pids, signal.SIGCONT)
    clear_ranks()
    daemon.stop()
    return f"{stops} stops of both ranks; work in flight 1 s later {flying}; resumed for 20 ms, stopped again: {again}"


def nccl(machine, args):
    port = iter(range(29600, 29900))
    lines = [(f"in flight: {name}", in_flight(machine, args, next(port), env))
             for name, env in (("default", {}), ("NCCL_P2P_DISABLE=1", {"NCCL_P2P_DISABLE": "1"}))]
    ways = (("stop the ranks 50 ms apart, 2 s, kill", stop_apart_then_kill, args.control), ("kill", kill_at_once, args.control),
            ("stop 2 s, kill", stop_then_kill, args.repeats))
    found, raw = ends(machine, args, ways, [{"CUDA_VISIBLE_DEVICES": "0"}, {"CUDA_VISIBLE_DEVICES": "1"}],
                      lambda daemon: ranks_of(machine, daemon, next(port), {}))
    return lines + found, raw


ROWS = {"moments": moments, "long": long, "signs": signs, "probe": probe, "nccl": nccl}


def main():
    made = parser(__doc__)
    made.add_argument("--only", action="append", choices=ROWS)
    made.add_argument("--repeats", type=int, default=20)
    made.add_argument("--hold", type=float, default=0.5, help="seconds that a victim is stopped")
    made.add_argument("--long-repeats", type=int, default=3)
    made.add_argument("--long-ms", type=int, default=5000)
    made.add_argument("--control", type=int, default=4, help="ends without a stop, of probe and nccl")
    made.add_argument("--budget", type=float, default=540, help="seconds: long, probe and nccl begin no end after them")
    args = parsed(made)
    machine, rows, raw, begin = Machine(args), {}, {}, time.monotonic()
    args.until = begin + args.budget
    for name in args.only or ROWS:
        try:
            lines, raw[name] = ROWS[name](machine, args)
            rows[name] = None, lines
        except Exception as error:  # a row must not take the others along
            rows[name] = False, [("ended", f"{type(error).__name__}: {error}"[:300])]
        save(args.out, "stop_moments", {"rows": rows, "raw": raw})
    print(title(machine, begin), *parts(rows), sep="\n")
    machine.clean()
    return 1 if any(holds is False for holds, _ in rows.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
