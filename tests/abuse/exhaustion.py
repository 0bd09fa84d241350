"""One tenant, as a user without rights, takes what it can of `tranche mps`, which has 256 descriptors: mute and half handshakes. The
others notice nothing."""

import os, subprocess, sys, time

from bed import PATIENCE, cpu_seconds, descriptors, main, resident_kib, wait_for

MEBIBYTES = 64
TENANT = r"""
import os, resource, select, socket, struct, sys
what, endpoint = sys.argv[1:]
def over(): return bool(select.select([0], [], [], 0)[0])
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 8192), hard))
held = []

def connections(stage):
    # 0: mute; 1: says who it is, and no more
    while not over():
        try:
            s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET); s.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
            s.settimeout(0.3); s.connect(endpoint + "/control"); held.append(s)
            if stage >= 1:
                s.recv(64)
                s.sendmsg([b"OUTBCRED\0"], [(socket.SOL_SOCKET, socket.SCM_CREDENTIALS, struct.pack("3i", os.getpid(), os.getuid(), os.getgid()))])
        except OSError:
            pass

connections({"mute": 0, "named": 1}[what])
"""
NOBODY = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
ATTACKS, SECONDS = ("mute", "named"), 6


def run(bed, checks):
    script = bed.path("tenant.py")
    with open(script, "w") as file:
        file.write(TENANT)
    os.chmod(script, 0o644)
    hostile, neighbour = bed.tenant("hostile"), bed.tenant("neighbour")
    resident = neighbour.client()
    checks.check("the neighbour runs", resident.ready() and resident.ask("run").get("code") == 0 and bed.keeper_answers())
    pid = bed.pid("mps")
    before, log, cpu = descriptors(pid), len(bed.log("mps")), cpu_seconds(pid)
    most, begin, newcomers = 0, time.monotonic(), []
    serving = lambda: (bed.pool()["daemonPid"], [s["pid"] for s in bed.pool()["servers"]], bed.pool()["proof"]["ended"])
    first = serving()
    attacks = [subprocess.Popen([*hostile.enter, *NOBODY, sys.executable, script, what, hostile.inside], stdin=subprocess.PIPE) for what in ATTACKS]
    while time.monotonic() < begin + SECONDS:
        newcomer = neighbour.client()
        newcomers.append(newcomer.ready())
        newcomer.leave()
        most = max(most, descriptors(pid))
    for attack in attacks:
        attack.communicate(timeout=PATIENCE)
    took, spent = time.monotonic() - begin, cpu_seconds(pid) - cpu
    checks.check("the same daemon and server serve, and all slots are healthy", serving() == first and bed.all_healthy(), serving())
    checks.check("a neighbour's new clients come in", all(newcomers), f"{newcomers.count(True)} of {len(newcomers)}")
    checks.check("descriptors stay below 160", most < 160, f"{before}, then {most}")
    checks.check(f"it has less than {MEBIBYTES} MiB", resident_kib(pid) < MEBIBYTES << 10, f"{resident_kib(pid)} KiB")
    grown = (len(bed.log("mps")) - log) / 1024
    checks.check("the log grows by less than 32 KiB and 2 KiB a second", grown < 32 + 2 * took, f"{grown:.1f} KiB")
    checks.check("its loop uses less than half a CPU", spent < took / 2, f"{spent:.2f} of {took:.2f} s")
    checks.check("all is as before when it has ended", wait_for(lambda: descriptors(pid) <= before + 1), f"{before}, then {descriptors(pid)}")
    checks.check("the neighbour has run on", resident.well())
    resident.leave()


if __name__ == "__main__":
    sys.exit(main(run, __doc__))
