#!/usr/bin/env python3
"""What /metrics says of five PyTorch tenants of one GPU, against what PyTorch, CUDA and nvidia-smi say, and what it costs. Prints a table
last and exits 1 when a row does not hold.

  memory  tranche_tenant_memory_used_bytes of each tenant, against nvidia-smi's figure of its process, and what CUDA counts as used of the share
  gpm     the GPU's activity by tranche_gpu_*_ratio, against `nvidia-smi dmon --gpm-metrics`
  board   power, temperature, memory and clock, against `nvidia-smi --query-gpu`
  cost    CPU time of both programs: in the half minute after programs start, in which the guard looks more often, later, and later while
          /metrics is read once a second; the tenants' speed without and with that

Needs root, an idle GPU with MPS (Hopper or newer for `gpm`), PyTorch and a build; changes no setting of the GPU. Raw results, `tranche
top` and the page go to $OUT."""

import json, os, re, signal, statistics, sys, threading, time, urllib.request

from at_rest import cpu_ms
from gpu_bed import Machine, Node, Program, leftovers, started
from rows import clean, parsed, parser, parts, title

ADDRESS = "127.0.0.1:19400"
TENANTS = {"serve": ("serve",), "train": ("train",), "elementwise": ("elementwise", "fresh=0"), "convolutions": ("convolutions",),
           "filled": ("products", "mib=4096", "n=4096")}
# nvidia-smi's number of the GPM metric, and what it is called in its output and ours.
GPM = {"graphics": (1, "tranche_gpu_graphics_active_ratio"), "sm": (2, "tranche_gpu_sm_active_ratio"), "occupancy": (3, "tranche_gpu_sm_occupancy_ratio"),
       "tensor": (5, "tranche_gpu_tensor_active_ratio"), "dram": (10, "tranche_gpu_dram_active_ratio")}
SETTLES = 36  # seconds after which the guard counts memory that does not change as resting
SAMPLE = re.compile(r'^(\w+)(?:\{(.*)\})? (\S+)$')
LABEL = re.compile(r'(\w+)="([^"]*)"')


class FiguresNode(Node):
    CONFIG = Node.CONFIG.replace("computeMode: leave\n", "computeMode: leave\n    failRequestsGreaterThanOne: false\n")

    def node_options(self):
        return ["--listen", ADDRESS]


def page(path):
    with urllib.request.urlopen(f"http://{ADDRESS}{path}", timeout=10) as answer:
        return answer.read().decode()


def samples(text):
    """[(name, labels, value)…] of the exposition format."""
    found = []
    for line in text.splitlines():
        match = SAMPLE.match(line)
        if match:
            found.append((match[1], dict(LABEL.findall(match[2] or "")), float(match[3])))
    return found


def value(found, name, **labels):
    return next((v for n, l, v in found if n == name and all(l.get(k) == w for k, w in labels.items())), None)


def smi(machine, *words, timeout=60):
    return machine.run("nvidia-smi", *words, timeout=timeout).stdout


def off(ours, theirs):
    return abs(ours - theirs) / theirs * 100 if theirs else 0.0 if ours == 0 else 100.0


def memory(bed):
    lines, holds = [], True
    by_pid = dict(line.split(", ") for line in smi(bed.machine, "--query-compute-apps=pid,used_memory", "--format=csv,noheader,nounits").splitlines() if line)
    found = samples(page("/metrics"))
    for name, program in bed.programs.items():
        os.kill(program.pid, signal.SIGUSR1)
        said = program.events.get(timeout=20)
        ours = value(found, "tranche_tenant_memory_used_bytes", pod=name)
        theirs = float(by_pid.get(str(program.pid), 0)) * (1 << 20)
        limit = value(found, "tranche_tenant_memory_limit_bytes", pod=name)
        if ours is None:
            holds = False
            lines.append((name, "no figure"))
            continue
        context = ours - said["reserved"]
        bed.raw.setdefault("memory", {})[name] = {"metric": ours, "nvidia_smi": theirs, "limit": limit, **said}
        counted = limit - said["free"]  # CUDA's own count of what the share has lost: reserved memory and context
        right = theirs > 0 and off(ours, theirs) <= 2 and off(ours, counted) <= 2
        holds &= right
        lines.append((name, f"{ours / 2**20:.0f} MiB; nvidia-smi {theirs / 2**20:.0f} MiB ({off(ours, theirs):.2f} % off); PyTorch has reserved {said['reserved'] / 2**20:.0f} MiB, "
                      f"so context and modules are {context / 2**20:.0f} MiB; CUDA counts {counted / 2**20:.0f} MiB of the share's {limit / 2**20:.0f} as used ({off(ours, counted):.2f} % off)"))
    return holds, lines


def by_thread(pid):
    """{name: milliseconds of CPU since it began}; threads of one name together."""
    found = {}
    for task in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{task}/comm") as comm, open(f"/proc/{pid}/task/{task}/schedstat") as stat:
            name = comm.read().strip()
            found[name] = found.get(name, 0) + int(stat.read().split()[0]) / 1e6
    return found


def watched(bed, seconds, read):
    """Steps a second of each tenant, and milliseconds of CPU a second of both programs, while `read` is called once a second."""
    pids = {name: bed.node.parts[name].pid for name in ("node", "mps")}
    before, begin, threads = {name: cpu_ms(pid) for name, pid in pids.items()}, time.monotonic(), by_thread(pids["node"])
    while time.monotonic() - begin < seconds:
        next_at = time.monotonic() + 1
        read()
        time.sleep(max(0, next_at - time.monotonic()))
    end = time.monotonic()
    cost = {name: (cpu_ms(pid) - before[name]) / (end - begin) for name, pid in pids.items()}
    bed.raw.setdefault("threads", []).append({k: round((v - threads.get(k, 0)) / (end - begin), 2) for k, v in by_thread(pids["node"]).items()})
    rates = {name: sum(w["steps"] for w in list(p.windows) if w["since"] >= begin and w["at"] <= end) / (end - begin) for name, p in bed.programs.items() if p.windows}
    return cost, rates


def dmon_columns(text):
    """{metric: [values…]} of `nvidia-smi dmon --gpm-metrics`, whose columns are in the order that was asked for, after the GPU's number."""
    columns = {name: [] for name in GPM}
    for line in text.splitlines():
        words = line.split()
        if not words or line.startswith("#"):
            continue
        for name, word in zip(GPM, words[len(words) - len(GPM):]):
            try:
                columns[name].append(float(word))
            except ValueError:
                pass
    return columns


def gpm_board_cost(bed):
    seconds = bed.args.seconds
    moving, _ = watched(bed, seconds, lambda: None)
    time.sleep(max(0, bed.began + SETTLES - time.monotonic()))
    alone, alone_rates = watched(bed, seconds, lambda: None)
    theirs, board, ours = {}, [], []

    def run_dmon():
        numbers = ",".join(str(number) for number, _ in GPM.values())
        theirs["dmon"] = smi(bed.machine, "dmon", "-s", "u", "--gpm-metrics", numbers, "-d", "1", "-c", str(int(seconds)), timeout=seconds + 30)

    def run_query():
        for _ in range(int(seconds)):
            begin = time.monotonic()
            board.append(smi(bed.machine, "--query-gpu=power.draw.instant,temperature.gpu,memory.used,memory.reserved,clocks.sm", "--format=csv,noheader,nounits").split(", "))
            time.sleep(max(0, 1 - (time.monotonic() - begin)))

    cost, rates = watched(bed, seconds, lambda: ours.append(samples(page("/metrics"))))
    # The readings of nvidia-smi come in a window of their own, so that they are no part of the cost.
    ours.clear()
    threads = [threading.Thread(target=run_dmon), threading.Thread(target=run_query)]
    for thread in threads:
        thread.start()
    watched(bed, seconds, lambda: ours.append(samples(page("/metrics"))))
    for thread in threads:
        thread.join()
    def mean(name, **labels):
        values = [v for v in (value(each, name, **labels) for each in ours[1:]) if v is not None]
        return statistics.mean(values) if values else float("nan")

    bed.raw.update(dmon=theirs["dmon"], board=board, cost=cost, cost_alone=alone, rates=rates, rates_alone=alone_rates)
    columns = dmon_columns(theirs["dmon"])
    gpm, gpm_holds = [], True
    for name, (_, metric) in GPM.items():
        their = statistics.mean(columns[name][1:]) if len(columns[name]) > 1 else None
        our = mean(metric) * 100
        right = their is not None and abs(our - their) <= max(1.0, their * 0.05)
        gpm_holds &= right
        gpm.append((name, f"{our:.1f} %; nvidia-smi {their if their is None else round(their, 1)} %"))
    watts, celsius, used, reserved, mhz = (statistics.mean(float(row[i]) for row in board if len(row) == 5) for i in range(5))
    pairs = {"power": (mean("tranche_gpu_power_watts"), watts, "W"), "temperature": (mean("tranche_gpu_temperature_celsius"), celsius, "°C"),
             "memory used, with the driver's own": (mean("tranche_gpu_memory_used_bytes") / 2**20, used + reserved, "MiB"), "SM clock": (mean("tranche_gpu_clock_hertz", clock="sm") / 1e6, mhz, "MHz")}
    bed.rows["gpm"] = gpm_holds, gpm
    bed.rows["board"] = all(off(a, b) <= 5 for a, b, _ in pairs.values()), [(what, f"{a:.1f} {unit}; nvidia-smi {b:.1f} {unit}") for what, (a, b, unit) in pairs.items()]
    change = {name: (rates[name] / alone_rates[name] - 1) * 100 for name in rates if alone_rates.get(name)}
    own = sum(cost.values()) - sum(alone.values())
    of = lambda each: f"{each['node']:.2f} + {each['mps']:.2f}"
    bed.rows["cost"] = own < 10 and all(abs(each) < 3 for each in change.values()), [
        ("tranche node + tranche mps, ms/s", f"{of(cost)} while /metrics is read once a second, {of(alone)} while it is not, so {own:.2f} for the figures (1 % of a core is "
         f"10); {of(moving)} in the half minute after programs start, in which the guard looks most often"),
        ("speed of the tenants", "; ".join(f"{name} {rates[name]:.1f} steps/s ({each:+.1f} %)" for name, each in change.items()))]


def main():
    made = parser(__doc__)
    made.add_argument("--seconds", type=float, default=15, help="of each window")
    args = parsed(made)
    began = time.monotonic()
    machine = Machine(args)
    already, node = leftovers(machine), FiguresNode(machine)
    bed = type("Bed", (), {"machine": machine, "args": args, "node": node, "raw": {}, "rows": {}})()
    try:
        tenants = {name: node.tenant(name, slots=2) for name in TENANTS}
        bed.programs = {name: Program(machine, tenants[name].envs, *words, prefix=tenants[name].enter) for name, words in TENANTS.items()}
        started(bed.programs.values(), 120)
        bed.began = time.monotonic()
        time.sleep(4)  # modules are loaded at their first use
        bed.rows["memory"] = memory(bed)
        gpm_board_cost(bed)
        pictures = {"top.txt": machine.run(f"{machine.bin}/tranche", "top", "--once", "--socket", node.path("run/node.sock")).stdout, "page.html": page("/"),
                    "metrics.txt": page("/metrics")}
        with open(node.path("logs/node")) as file:
            bed.raw["node_log"] = file.read()[-4000:]
        lost = [name for name, program in bed.programs.items() if not program.well()]
        bed.rows["alive"] = not lost, [("tenants that ended meanwhile", str(lost or "none"))]
        for program in bed.programs.values():
            program.kill()
    except Exception as error:  # the figures so far are a result
        bed.rows["error"] = False, [("error", f"{type(error).__name__}: {error}"[:400])]
        node.show_logs()
        pictures = {}
    finally:
        killed = node.stop()
    if args.out:
        for name, text in {**pictures, "tenant_figures.json": json.dumps({"gpu": machine.gpu, "raw": bed.raw, "rows": bed.rows}, indent=1)}.items():
            with open(f"{args.out}/{name}", "w") as file:
                file.write(text)
    print(pictures.get("top.txt", ""))
    left = clean(machine, killed, already)
    print(title(machine, began), *parts(bed.rows), sep="\n")
    return 1 if left or killed or not all(holds for holds, _ in bed.rows.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
