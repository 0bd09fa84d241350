"""Tenants keep a CPU busy that `tranche mps` and `tranche node` run on, in control groups with the weight of the chart's CPU requests: a
client starts, the guard ends one that exceeds its share, and its neighbour runs on. A group with the weight of 10m is reported before.
Needs a control group with a CPU weight; skipped where none can be made."""

import os, re, subprocess, sys

from bed import find, last_json, main, removed, wait_for

CHART = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../deploy/helm/tranche/values.yaml")
PROGRAMS = ("node", "mps")  # in the chart's order
BUSY, HEAVY = 4, 2000  # loops; the millicores of their group
SKIPPED = 77


def requests():
    """The millicores that the chart requests for each program."""
    with open(CHART) as file:
        return dict(zip(PROGRAMS, map(int, re.findall(r"^ +requests: \{cpu: (\d+)m", file.read(), re.MULTILINE)), strict=True))


def set_weight(group, millicores):
    """As kubelet and a runtime do: shares, or by the formula of KEP-2254 a weight."""
    shares = millicores * 1024 // 1000
    for name, value in (("cpu.shares", shares), ("cpu.weight", 1 + (shares - 2) * 9999 // 262142)):
        if os.path.exists(f"{group}/{name}"):
            with open(f"{group}/{name}", "w") as file:
                file.write(str(value))
            return True
    return False


def group_of(name, millicores):
    """A control group with the weight of such a request; None where none can be made here."""
    for root in ("/sys/fs/cgroup/cpu", "/sys/fs/cgroup"):
        group = f"{root}/tranche-abuse-{os.getpid()}-{name}"
        try:
            os.mkdir(group)
            if set_weight(group, millicores):
                return group
            os.rmdir(group)
        except OSError:
            continue
    return None


def on_cpu(cpu, start, *arguments):
    """What start() starts is on this CPU only, with all that it starts itself."""
    mine = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {cpu})
    try:
        return start(*arguments)
    finally:
        os.sched_setaffinity(0, mine)


def busy(group):
    def enter():
        with open(f"{group}/cgroup.procs", "w") as file:
            file.write(str(os.getpid()))

    return subprocess.Popen([sys.executable, "-c", "while True: pass"], preexec_fn=enter)


def problems(bed):
    """What each program reports about its own control group."""
    return {name: document.get("loop", {}).get("cpuProblem") for name, document in (("node", bed.status()), ("mps", bed.mps()))}


def light_is_reported(bed, checks):
    reported = wait_for(lambda: all(problems(bed).values()))
    checks.check("both programs report a control group that is too light", reported, problems(bed))
    checks.check("the node agent reports that of tranche mps", wait_for(lambda: bed.status()["mps"]["cpuProblem"]))
    shown = bed.machine.run(f"{bed.machine.bin}/tranche", "status", "--socket", bed.path("run/node.sock")).stdout
    checks.check("tranche status shows them", all(f"! tranche {name}: its control group" in shown for name in PROGRAMS), shown if "control" not in shown else "")
    found = bed.machine.run(f"{bed.machine.bin}/tranche", "check", "--json", "--mps-root", bed.path("mps"), "--run-dir", bed.path("run")).stdout
    found = last_json(found.replace("\n", " "))
    about = [finding.get("about") for finding in find(found, lambda each: each.get("id") == "system.cpu" and each.get("verdict") == "WARN")]
    checks.check("tranche check warns of them", sorted(about) == ["tranche mps", "tranche node"], about)


def run(bed, checks):
    cpu, chart = min(os.sched_getaffinity(0)), requests()
    for name in reversed(PROGRAMS):
        bed.end(name)
        bed.groups[name] = group_of(name, 1000)
        on_cpu(cpu, bed.start, name)
    checks.check("all slots are healthy", bed.all_healthy())
    checks.check("neither program reports its control group", not any(problems(bed).values()), problems(bed))
    for name in PROGRAMS:
        set_weight(bed.groups[name], 10)
    light_is_reported(bed, checks)
    for name in PROGRAMS:
        set_weight(bed.groups[name], chart[name])
    checks.check("the weight of the chart's requests is enough", wait_for(lambda: not any(problems(bed).values())), chart)
    heavy = group_of("busy", HEAVY)
    loops = [on_cpu(cpu, busy, heavy) for _ in range(BUSY)]
    try:
        beside_busy_loops(bed, checks)
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()
        wait_for(lambda: removed(heavy))
    checks.check("all slots are healthy again", bed.all_healthy())


def beside_busy_loops(bed, checks):
    tenant, neighbour = bed.tenant("over"), bed.tenant("neighbour")
    clients = [neighbour.client(), tenant.client()]
    checks.check("clients start beside busy loops", all(client.ready() for client in clients))
    checks.check("and allocate what their share has", [client.ask("alloc 30000").get("code") for client in clients] == [0, 0])
    clients.append(tenant.client())
    checks.check("a second client of a tenant starts", clients[2].ready())
    clients[2].ask("alloc 30000")
    checks.check("the guard ends it, because both exceed the share", wait_for(lambda: clients[2].process.poll() is not None), bed.status()["guard"]["acts"])
    checks.check("the others run on", all(client.well() for client in clients[:2]))
    lateness = {name: document["loop"]["worstLatenessMs"] for name, document in (("node", bed.status()), ("mps", bed.mps()))}
    checks.check("both programs report the worst lateness of their loop", all(late >= 0 for late in lateness.values()), lateness)
    for client in clients:
        client.kill()
    for each in (tenant, neighbour):
        each.delete()


if __name__ == "__main__":
    probe = group_of("probe", HEAVY)
    if probe is None:
        print("SKIPPED: no control group with a CPU weight can be made here: it needs root and a writable /sys/fs/cgroup")
        sys.exit(SKIPPED)
    os.rmdir(probe)
    sys.exit(main(run, __doc__))
