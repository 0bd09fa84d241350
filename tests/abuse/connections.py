"""What a tenant's connections to the MPS server count for: many that give the number of one context, those of contexts that have ended
while the client keeps copies of their channels, and those of a client that exits in the exchange and leaves its channels to a fork. Each
counts for the tenant, under no process of `tranche mps`, until the server has closed it, also when `tranche mps` is killed meanwhile;
neighbours' programs start."""

import os, signal, subprocess, sys

from bed import main, wait_for

# $1: repeat | restart | kept | across ENDPOINT | COUNT forks of clients that exit after the greeting, after message 7 or once they are let in.
# The stand-ins' own messages (tests/standins/mps/wire.h) make contexts; they pass through the last of the four descriptors.
TENANT = r"""
import os, socket, struct, sys, time
rights, credentials = socket.SCM_RIGHTS, socket.SCM_CREDENTIALS
def introduce(to): to.sendmsg([b"OUTBCRED\0"], [(socket.SOL_SOCKET, credentials, struct.pack("3i", os.getpid(), os.getuid(), os.getgid()))])
def passed(ancillary): return [n for _, kind, data in ancillary if kind == rights for n in struct.unpack("%di" % (len(data) // 4), data)]
def begin():
    control = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    control.settimeout(60)
    control.connect(os.environ["CUDA_MPS_PIPE_DIRECTORY"] + "/control")
    control.recv(64)
    introduce(control)
    control.send(struct.pack("<i", 2))
    found = passed(control.recvmsg(64, 256)[1])
    if not found: return control, None, []
    server = socket.socket(fileno=found[0])
    return control, server, [n for _ in range(5) for n in passed(server.recvmsg(64, 256)[1])]
def say(server, number, upto=8):
    introduce(server)
    server.send(struct.pack("<i", number))
    if upto == 8: server.send(struct.pack("<i", 255 if number == 0 else 0)), server.recv(10)
def connect(number):
    control, server, channels = begin()
    if server is None: return []
    say(server, number)
    control.send(bytes(4)), control.recv(10), control.close(), server.close()
    return channels
def ask(channel, text):
    with socket.socket(fileno=os.dup(channel)) as to:
        to.settimeout(60)
        to.send(text.encode())
        return to.recv(4096).decode()
way, most = sys.argv[1], {"repeat": 70, "restart": 12}.get(sys.argv[1])
if most:
    own = connect(0)
    gpu = next(line.split()[1] for line in ask(own[-1], "init\n").splitlines() if line.startswith("devices"))
    more, made = [connect(1)], 0
    while more[-1] and len(more) < most: more.append(connect(1))
    while made < most and ask(own[-1], "context\ngpu %s\nid 1\nlifted 0\n" % gpu).startswith("context"): made += 1
if way == "kept":
    own, most, made, more = connect(0), 70, 0, []
    gpu = next(line.split()[1] for line in ask(own[-1], "init\n").splitlines() if line.startswith("devices"))
    while made < most and (channels := connect(made + 1)):
        more.append(channels)
        if not ask(own[-1], "context\ngpu %s\nid %d\nlifted 0\n" % (gpu, made + 1)).startswith("context"): break
        made += 1
        with socket.socket(fileno=os.dup(own[-1])) as to: to.send(("release\ngpu %s\nid %d\n" % (gpu, made)).encode())
if way == "across":
    own = connect(0)
    os.environ["CUDA_MPS_PIPE_DIRECTORY"] = sys.argv[2]
    most, made = 1, len(connect(1))
for number in ([2] if way == "restart" else []) if most else range(int(way)):
    reader, writer = os.pipe()
    if os.fork() == 0:
        control, server, channels = begin()
        if channels and number % 3: say(server, 1, 7 if number % 3 == 1 else 8)
        if channels and os.fork() == 0:
            os.setsid()
            time.sleep(0.2)
            control.close(), server.close()
            os.close(writer)
            for own in (0, 1, 2): os.dup2(os.open("/dev/null", os.O_RDWR), own)
            time.sleep(3600)
        os._exit(0)
    os.wait()
    os.close(writer)
    os.read(reader, 1)
print(made if most else "done", flush=True)
time.sleep(3600)
"""


KEPT = ("clients", "remnants", "places")


def end_forks(mark):
    """A container of this bed has no pid namespace, so its end leaves processes in sessions of their own."""
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/environ", "rb") as file:
                if mark in file.read().split(b"\0"):
                    os.kill(int(pid), signal.SIGKILL)
        except OSError:
            continue


def run(bed, checks):
    for way, connections in (("repeat", 0), ("kept", 0), ("across", 0), ("restart", 0), ("6", 6)):
        hostile, neighbours = bed.tenant(f"hostile-{way}"), [bed.tenant(f"{way}-{i}") for i in range(3)]
        endpoint = lambda: next(e for e in bed.pool()["endpoints"] if e["grant"] in hostile.endpoint)
        process = subprocess.Popen([*hostile.enter, sys.executable, "-c", TENANT, way, neighbours[0].endpoint], stdout=subprocess.PIPE, text=True,
                                   env={**bed.machine.env, **hostile.envs, "TRANCHE_TEST_FORKS_OF": bed.path("")}, start_new_session=True)
        line = process.stdout.readline().strip()
        if way == "restart":
            before = endpoint()
            bed.end("mps", signal.SIGKILL)
            bed.start("mps")
            checks.check("all slots are healthy after the restart", bed.all_healthy())
            checks.check("after a crash of tranche mps a client counts for its contexts, and one that exited remains",
                         wait_for(lambda: [endpoint()[key] for key in KEPT] == [before[key] for key in KEPT]), (before, endpoint()))
            checks.check("it had contexts, and one had exited", before["places"] > 10 and len(before["remnants"]) == 1, before)
        elif way == "across":
            checks.check("a client of one share gets no connection through the endpoint of another", line == "0" and endpoint()["places"] == 1, line)
        elif way == "kept":
            checks.check("connections whose contexts have ended count while they are open", 1 < int(line or 0) < 48 and endpoint()["places"] >= int(line), line)
        elif way == "repeat":
            checks.check("connections that give the number of one context count each", 1 < int(line or 0) < 48 and endpoint()["places"] >= int(line), line)
        else:
            checks.check("clients that exit and leave their channels to a fork count for the tenant", wait_for(lambda: endpoint()["places"] == connections), endpoint()["places"])
            own = [pid for server in bed.pool()["servers"] for pid in server["clients"] if pid == bed.pid("mps")]
            checks.check("no client of the servers has the pid of tranche mps", not own, own)
        clients = [neighbour.client() for neighbour in neighbours]
        checks.check(f"{way}: the neighbours' programs start", all(client.ready() for client in clients), way)
        for client in clients:
            client.leave()
        end_forks(f"TRANCHE_TEST_FORKS_OF={bed.path('')}".encode())
        process.wait()
        checks.check(f"{way}: with the forks all of it is gone", wait_for(lambda: endpoint()["places"] == 0 and not endpoint()["remnants"]), endpoint()["places"])
        for each in (hostile, *neighbours):
            each.delete()
    checks.check("all slots are healthy", bed.all_healthy())


if __name__ == "__main__":
    sys.exit(main(run, __doc__))
