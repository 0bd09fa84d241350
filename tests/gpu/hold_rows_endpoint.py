"""Rows of mps_that_holds.py about the way to the daemon: what a tenant may say to it, who can hold it up, what is known of a fault, and
what happens when it goes away, and of a node that others served before. Same shape as hold_rows.py."""

import json, os, re, signal, socket, subprocess, sys, threading, time

from gpu_bed import CONTROL, PATIENCE, Client, PlainDaemon, find, last_json, leftovers, running_client, wait_for

# Connects to $1/control and stops at a point of the handshake (docs/internals/evidence/mps-handshake.md): 0 says nothing at all, 1 reads the
# daemon's greeting, 2 sends its credentials, 3 asks to become a client, 4 takes what it gets and goes on saying nothing, 5 closes the socket
# to its server and confirms, 6 shuts the socket down, 7 does 5 again and again.
MUTE = """
import array, os, socket, struct, sys, time
s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
s.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
s.settimeout(60)
s.connect(sys.argv[1] + "/control")
step = int(sys.argv[2])
try:
    if step >= 1: s.recvmsg(64, 256)
    if step >= 2: s.sendmsg([b"OUTBCRED\\0"], [(socket.SOL_SOCKET, socket.SCM_CREDENTIALS, struct.pack("iII", os.getpid(), os.getuid(), os.getgid()))])
    if step >= 3: s.send(struct.pack("<I", 2))
    if step >= 4:
        _, ancillary, _, _ = s.recvmsg(64, 256)
        server = socket.socket(fileno=array.array("i", next(data for _, kind, data in ancillary if kind == socket.SCM_RIGHTS)[:4])[0])
    if step == 5: server.close(); s.send(bytes(4))
    if step == 6: server.shutdown(socket.SHUT_RDWR)
except OSError:
    pass
print("mute", flush=True)
if step != 7: time.sleep(60)
import subprocess
while True: subprocess.run([sys.executable, "-c", sys.argv[3], sys.argv[1], "5"], stdout=subprocess.DEVNULL, timeout=1)
"""


class World:
    """What a tenant must not be able to change, as the host sees it."""

    def __init__(self, command, daemon_alive, neighbour):
        self.command, self.daemon_alive, self.neighbour = command, daemon_alive, neighbour

    def look(self):
        servers = self.command("get_server_list").split()
        server = servers[0] if servers else "0"
        return {"daemon": self.daemon_alive(), "neighbour": self.neighbour.well(), "servers": servers,
                "threads": self.command("get_default_active_thread_percentage"), "memory": self.command("get_default_device_pinned_mem_limit 0"),
                "serverThreads": self.command(f"get_active_thread_percentage {server}")}


def commands_for(server, neighbour):
    """From the harmless to the deadly; each must leave the world as it was."""
    return ["get_server_list", f"get_client_list {server}", "ps", "get_default_active_thread_percentage",
            "set_default_active_thread_percentage 100", "set_default_device_pinned_mem_limit 0 100G", f"set_active_thread_percentage {server} 100",
            f"set_device_pinned_mem_limit {server} 0 100G", "start_server -uid 0", f"terminate_client {server} {neighbour}",
            f"shutdown_server {server} -f", "quit -t 1", "quit"]


def ways_in(enter, root):
    """How a container's root may stand before the endpoint: as it is given, mounted read-write again, as root of a user namespace."""
    ways = {"as given": tuple(enter)}
    if root:
        ways["read-only"] = (*enter, "unshare", "-m", "sh", "-c", 'mount -o remount,bind,ro "$CUDA_MPS_PIPE_DIRECTORY" 2>/dev/null; exec "$@"', "-")
        ways["read-write"] = (*enter, "unshare", "-m", "sh", "-c", 'mount -o remount,bind,rw "$CUDA_MPS_PIPE_DIRECTORY" 2>/dev/null; exec "$@"', "-")
        ways["user namespace"] = (*enter, "unshare", "-U", "-r")
        ways["uid 1001"] = (*enter, "setpriv", "--reuid", "1001", "--regid", "1001", "--clear-groups")
    return ways


def command_results(machine, env, enter, world_of, restore):
    """Every command by every way in: which changed the world, and how."""
    succeeded, tried = {}, 0
    for way, prefix in ways_in(enter, os.geteuid() == 0).items():
        world = world_of()
        for index in range(13):
            was = world.look()
            if not was["daemon"] or not was["neighbour"]:
                world = restore()
                was = world.look()
            command = commands_for(was["servers"][0] if was["servers"] else "0", world.neighbour.pid)[index]
            done = machine.run(*prefix, CONTROL, env=env(), input=command + "\n", timeout=3)
            tried += 1
            world.neighbour.error(0.25 if index >= 8 else 0)  # the deadly ones take a moment to be felt
            now = world.look()
            changed = {k: [was[k], now[k]] for k in was if was[k] != now[k]}
            if changed:
                succeeded[f"{way}: {command}"] = {"changed": changed, "reply": (done.stdout + done.stderr)[-200:]}
                world = restore()
    return succeeded, tried


def commands_before(machine, daemon, args):
    held = {"daemon": daemon, "neighbour": running_client(daemon.client)}

    def world_of():
        return World(held["daemon"].command, held["daemon"].alive, held["neighbour"])

    def restore():
        held["neighbour"].kill()
        if held["daemon"] is not daemon:
            held["daemon"].stop()
        elif daemon.alive():
            daemon.stop()
        held["daemon"] = PlainDaemon(machine)
        held["neighbour"] = running_client(held["daemon"].client)
        return world_of()

    succeeded, tried = command_results(machine, lambda: held["daemon"].env, (), world_of, restore)
    held["neighbour"].kill()
    if held["daemon"] is not daemon:
        held["daemon"].stop()
    kinds = sorted({c.split(": ")[1].split()[0] for c in succeeded})
    return {"measured": f"{len(succeeded)} of {tried} change something ({', '.join(kinds) or 'none'})", "succeeded": succeeded}


def commands_after(machine, node, args):
    neighbour, attacker = node.tenant("commands-neighbour"), node.tenant("commands-attacker")
    held = {"client": running_client(neighbour.client)}
    daemon_pid = lambda: node.pool().get("daemonPid") if node.pool().get("state") == "serving" else None
    first = daemon_pid()

    def world_of():
        return World(node.privileged, lambda: daemon_pid() == first, held["client"])

    def restore():
        nonlocal first
        held["client"].kill()
        wait_for(daemon_pid)
        first = daemon_pid()
        held["client"] = running_client(neighbour.client)
        return world_of()

    names = sorted(os.listdir(attacker.endpoint))
    succeeded, tried = command_results(machine, lambda: {"CUDA_MPS_PIPE_DIRECTORY": attacker.inside}, attacker.enter, world_of, restore)
    held["client"].leave()
    for tenant in (neighbour, attacker):
        tenant.delete()
    kinds = sorted({c.split(": ")[1].split()[0] for c in succeeded})
    return {"measured": f"{len(succeeded)} of {tried} change something" + (f" ({', '.join(kinds)})" if kinds else "") + f"; the endpoint holds {', '.join(names)}",
            "holds": not succeeded, "succeeded": succeeded}


def served_beside_mute(machine, pipe, enter, env, start, steps, seconds=PATIENCE):
    """For each point of the handshake: how long a new client of somebody else takes beside one that stops there; None = not in time."""
    times = {}
    for step in steps:
        mute = subprocess.Popen([*enter, sys.executable, "-c", MUTE, pipe, str(step), MUTE], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                env={**machine.env, **env})
        mute.stdout.readline()
        begin = time.monotonic()
        client = start()
        times[step] = round((time.monotonic() - begin) * 1000) if client.ready(seconds) else None
        mute.kill()
        mute.wait()
        if times[step] is None:
            client.kill()
        else:
            client.leave()
    return times


def mute_text(times):
    stuck = [step for step, ms in times.items() if ms is None]
    slowest = max((ms for ms in times.values() if ms is not None), default=0)
    if stuck:
        return f"nobody is served beside one that stops at step {', '.join(map(str, stuck))} of the handshake"
    return f"a new client takes {slowest} ms at most"


def mute_before(machine, daemon, args):
    times = served_beside_mute(machine, daemon.pipe, (), {}, daemon.client, (0, 3), 6)
    return {"measured": mute_text(times), "times": times}


def mute_after(machine, node, args):
    """A client that says nothing or breaks off delays others for 0.1 s, after which the relay completes its exchange; the running one runs on, and
    its server serves on. Each step is a tenant of its own."""
    other = node.tenant("mute-other")
    resident, times, completed = running_client(other.client), {}, {}
    servers = [s["pid"] for s in node.pool().get("servers", [])]
    for step in range(8):
        attacker = node.tenant(f"mute-{step}")
        times.update(served_beside_mute(machine, attacker.inside, attacker.enter, {}, other.client, (step,)))
        if step >= 3:
            grant = os.path.basename(attacker.endpoint)
            completed[step] = bool(wait_for(lambda: any(e["grant"] == grant and e["completed"] for e in node.pool().get("endpoints", []))))
        attacker.delete()
    same = [s["pid"] for s in node.pool().get("servers", [])] == servers
    lives = bool(resident) and resident.error() is None and resident.well()
    if resident:
        resident.kill()
    other.delete()
    quick = all(ms is not None and (machine.simulated or ms < 1500) for ms in times.values())
    words = mute_text(times) + f"; broken off in five ways: the server {'serves on' if same else 'was replaced'}, the neighbour " + \
        f"{'runs on' if lives else 'is dead'}, the relay {'completed them' if all(completed.values()) else 'DID NOT COMPLETE ALL'}"
    return {"measured": words, "holds": quick and same and lives and all(completed.values()), "times": times, "completed": completed}


def culprit_before(machine, daemon, args):
    victim, culprit = running_client(daemon.client), daemon.client()
    culprit.ready()
    culprit.ask("fault", 10)
    died = victim.error(3)
    known = [l for l in daemon.log().splitlines() if str(culprit.pid) in l and "fatal" in l.lower()]
    for client in (victim, culprit):
        client.kill()
    return {"measured": f"the neighbour {'dies' if died else 'lives'}; the log has {'the culprit as a process id' if known else 'nothing of it'}",
            "log": daemon.log()[-2000:]}


def culprit_after(machine, node, args):
    tenants = [node.tenant("culprit"), node.tenant("culprit-neighbour")]
    victim, culprit = running_client(tenants[1].client), tenants[0].client()
    culprit.ready()
    culprit.ask("fault", 10)
    died = victim.error(3)
    for client in (victim, culprit):
        client.kill()
    faults = wait_for(lambda: [m for m in find(node.mps(), lambda m: m.get("culprit") == culprit.pid)])
    # Whose it was is reported once kubelet has named the holders of grants this young.
    parties = wait_for(lambda: [m for m in find(node.status(), lambda m: "culprit" in m) if isinstance(m["culprit"], dict)
                                and culprit.pid in (m["culprit"].get("pid"), *(v.get("pid") for v in m.get("victims", [])))]) or []
    log = node.log("node") + node.log("mps")
    named = [str(m["culprit"].get("holder", "")) for m in parties if isinstance(m["culprit"], dict) and m.get("kind") == "fatal"]
    text = json.dumps(parties)
    lines = "\n".join(l for l in log.splitlines() if str(culprit.pid) in l)
    pod = "status" if re.search(r'"(default/)?culprit(/main)?"(?!\s*:)', text) else \
        "log" if re.search(r"\bdefault/culprit(/main)?(?![-\w])", lines) else ""
    status = json.dumps(node.status())
    for tenant in tenants:
        tenant.delete()
    late = node.tenant("culprit-later")
    newcomer = running_client(late.client)
    recovered = newcomer is not None
    if newcomer:
        newcomer.leave()
    late.delete()
    words = f"the neighbour {'dies' if died else 'lives'}; "
    if not faults and "faults" not in status + json.dumps(node.mps()):
        return {"measured": words + "faults are not reported here", "holds": None}
    # MPS may name a neighbour that computes at the same moment (measured), and then nothing says who it was.
    who = "its pod" if "default/culprit/main" in named else "its neighbour's pod, as MPS does," if any(named) else ""
    named = f"{who} is named as the cause, both pods get an event" if who and pod else f"process {culprit.pid} in mps.sock" if faults else "no process is named"
    return {"measured": words + named + ("" if recovered else "; no new client afterwards"), "holds": bool(who and pod) and recovered, "faults": faults}


def quiet_with_destroyed_context(start):
    """A client that has ended a context of its own and computes nothing."""
    client = start()
    client.ready()
    return client if client.ask("context").get("code") == 0 else None


def destroyed_before(machine, daemon, args):
    quiet = quiet_with_destroyed_context(daemon.client)
    assumed = wait_for(lambda: [l for l in daemon.log().splitlines() if str(quiet.pid) in l and "assuming client" in l])
    quiet.kill()
    return {"measured": "the log assumes the exit of the one that runs on" if assumed else "the log has nothing of it", "log": daemon.log()[-2000:]}


def destroyed_after(machine, node, args):
    """The client whose context ended is not the cause of its neighbour's fault, whatever the server's log assumes."""
    tenants, named = [node.tenant("destroyed-quiet"), node.tenant("destroyed-culprit")], []
    for _ in range(3):
        quiet, culprit = quiet_with_destroyed_context(tenants[0].client), tenants[1].client()
        culprit.ready()
        known = {json.dumps(m) for m in find(node.mps(), lambda m: "culprit" in m)}
        culprit.ask("fault", 10)
        fault = wait_for(lambda: [m for m in find(node.mps(), lambda m: "culprit" in m) if json.dumps(m) not in known]) or [{}]
        named.append({quiet.pid: "the quiet one", culprit.pid: "the faulty one"}.get(fault[0].get("culprit"), "nobody"))
        for client in (quiet, culprit):
            client.kill()
    for tenant in tenants:
        tenant.delete()
    return {"measured": "named: " + ", ".join(named), "holds": named == 3 * ["the faulty one"]}


class Watch:
    """What node.sock says, with the moment of each change in the number of healthy slots."""

    def __init__(self, node):
        self.changes, self.socket = [], socket.socket(socket.AF_UNIX)
        self.socket.connect(node.path("run/node.sock"))
        self.socket.sendall(b"watch\n")
        threading.Thread(target=self._read, daemon=True).start()
        wait_for(lambda: self.changes)

    def _read(self):
        try:
            for line in self.socket.makefile():
                healthy = sum(r.get("healthy", 0) for r in last_json(line).get("resources", []))
                if not self.changes or self.changes[-1][1] != healthy:
                    self.changes.append((time.monotonic(), healthy))
        except OSError:
            pass

    def first_after(self, begin, healthy):
        """Milliseconds until that many were healthy; None when not in time."""
        hit = wait_for(lambda: [at for at, count in self.changes if at >= begin and count == healthy])
        return round((hit[0] - begin) * 1000) if hit else None

    def close(self):
        self.socket.close()


def daemon_before(machine, daemon, args):
    return {"measured": "the plugin does not look: slots stay healthy (documented, not measured here)"}


def daemon_after(machine, node, args):
    watch, times = Watch(node), {}
    for name, number in (("killed", signal.SIGKILL), ("stopped", signal.SIGSTOP)):
        wait_for(lambda: node.pool().get("state") == "serving" and node.healthy() == node.SLOTS)
        pid, begin = node.pool()["daemonPid"], time.monotonic()
        os.kill(pid, number)
        times[name] = watch.first_after(begin, 0)
        if number == signal.SIGSTOP:
            begin = time.monotonic()
            os.kill(pid, signal.SIGCONT)
        times[f"{name}, back"] = watch.first_after(begin, node.SLOTS)
    watch.close()
    words = "; ".join(f"{name} {'never' if ms is None else f'{ms} ms'}" for name, ms in times.items())
    holds = all(ms is not None for ms in times.values()) and (machine.simulated or max(times["killed"], times["stopped"]) <= 1000)
    return {"measured": f"unhealthy, healthy again: {words}", "holds": holds, "times": times}


# Containers hold the GPU without MPS when `tranche mps` begins.
def held_before(machine, daemon, args):
    client = Client(machine, {"CUDA_MPS_PIPE_DIRECTORY": "/nowhere"})
    client.ready()
    alive = daemon.alive()
    client.leave()
    return {"measured": "the daemon serves beside it" if alive else "the daemon has ended"}


def configure(node, text):
    with open(node.path("config.new"), "w") as file:
        file.write(text)
    os.rename(node.path("config.new"), node.path("config.yaml"))


def held_after(machine, node, args):
    configure(node, "version: v1\n")
    if not wait_for(lambda: node.healthy() == 1):
        return {"measured": "the whole GPU was not offered", "holds": False}
    tenant = node.tenant("held")
    client = tenant.client({"CUDA_MPS_PIPE_DIRECTORY": "/nowhere"})
    runs = client.ready() and client.ask("alloc 1024").get("code") == 0
    for name in ("node", "mps"):  # as on a node that we have never seen
        node.parts[name].send_signal(signal.SIGTERM)
        node.parts[name].wait(60)
    if os.path.exists(node.path("mps/other-holders")):
        os.remove(node.path("mps/other-holders"))
    configure(node, node.CONFIG)
    node.start("mps", *node.parts["mps"].args)
    began = bool(wait_for(lambda: node.pool().get("state") == "serving"))
    begin = time.monotonic()
    node.start("node", *node.parts["node"].args)
    daemon_left = lambda: any("nvidia-cuda-mps" in command for command in leftovers(machine).values())
    left = bool(wait_for(lambda: "without MPS" in str(node.pool().get("reason")) and not daemon_left()))
    gone_ms = round((time.monotonic() - begin) * 1000)
    well = runs and client.well()
    client.leave()
    begin = time.monotonic()
    tenant.delete()
    shared = bool(wait_for(lambda: node.status() and node.healthy() == node.SLOTS))
    shared_ms = round((time.monotonic() - begin) * 1000)
    words = f"its pool {'begins and' if began else 'does not begin and'} {f'has ended {gone_ms} ms after the agent was started' if left else 'stays'}; "
    words += f"the container {'computes on' if well else 'is hit'}; all slots {f'{shared_ms} ms after its end' if shared else 'never'}"
    return {"measured": words, "holds": left and well and shared, "began": began}
