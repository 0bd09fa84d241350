"""A tenant sends its endpoint's relay whatever no CUDA program sends: random, partial, split and out-of-order messages, other
processes' credentials, 0 to 253 descriptors, in 500 connections. The relay stays as it was, and so does the neighbour."""

import os, random, socket, struct, sys

from bed import CREDENTIALS, HELLO, credentials, main, open_files, packets, resident_kib, wait_for

SEED, CONNECTIONS = 20261124, 500


def types(rng):
    return struct.pack("<I", rng.choice([0, 1, 3, 4, 5, 255, 1 << 31, rng.getrandbits(32) | 8]))  # never 2: a client's


def rights(count):
    null = os.open("/dev/null", os.O_RDONLY)
    return null, [(socket.SOL_SOCKET, socket.SCM_RIGHTS, struct.pack(f"{count}i", *[null] * count))] if count else []


def send(connection, rng):
    """One thing that a program may send."""
    kind = rng.randrange(9)
    if kind == 0:
        connection.send(rng.randbytes(rng.choice([0, 1, 3, 9, 64, 4095, 4096, 4097, 60000])))
    elif kind == 1:
        connection.send(CREDENTIALS[:rng.randrange(len(CREDENTIALS))])
    elif kind == 2:
        connection.sendmsg([CREDENTIALS], credentials(pid=rng.choice([1, 2, os.getpid(), os.getppid()]), uid=rng.choice([0, 1000, 65534])))
    elif kind == 3:
        connection.sendmsg([rng.choice([CREDENTIALS, HELLO, b"OUTBCUFD\0", b"OUTBXXXX\0", b"\0" * 4])], credentials())
    elif kind == 4:
        connection.send(types(rng)[:rng.choice([1, 2, 4, 4, 4])])
    elif kind == 5:
        connection.send(types(rng) + rng.randbytes(rng.randrange(20)))
    elif kind == 6:
        command = rng.choice([b"quit", b"get_server_list", b"terminate_client 1 2", b"set_default_active_thread_percentage 100"]) + b"\n"
        connection.send(struct.pack("<Q", rng.choice([len(command), 0, 1 << 62])))
        connection.send(command)
    elif kind == 7:
        null, with_them = rights(rng.choice([0, 1, 4, 5, 16, 100, 253]))
        try:
            connection.sendmsg([rng.choice([CREDENTIALS, types(rng), b"x"])], with_them)
        finally:
            os.close(null)
    else:
        connection.settimeout(0.002)
        connection.recv(4096)


def one(endpoint, rng):
    with packets(f"{endpoint}/control", 0.2) as connection:
        try:
            for _ in range(rng.randrange(7)):
                send(connection, rng)
            if rng.random() < 0.1:
                connection.shutdown(rng.choice([socket.SHUT_RD, socket.SHUT_WR, socket.SHUT_RDWR]))
        except OSError:  # cut off, as it should be
            pass


def run(bed, checks):
    rng = random.Random(SEED)
    hostile, neighbour = bed.tenant("hostile"), bed.tenant("neighbour")
    resident = neighbour.client()
    checks.check("the neighbour runs", resident.ready() and resident.ask("run").get("code") == 0 and bed.keeper_answers())
    own = hostile.client()  # after its end, all is open that stays open
    checks.check("the tenant's own client comes in", own.ready())
    own.leave()
    pid, before, lines = bed.pid("mps"), open_files(bed.pid("mps")), bed.log("mps").count("\n")
    daemon = bed.pool()["daemonPid"]
    memory = resident_kib(pid)
    for _ in range(CONNECTIONS):
        one(hostile.endpoint, rng)
    newcomer = neighbour.client()
    checks.check("a neighbour's new client comes in", newcomer.ready())
    newcomer.leave()
    own = hostile.client()
    checks.check("and so does the tenant's own, when it behaves", own.ready())
    own.leave()
    checks.check("no descriptor is kept", wait_for(lambda: len(open_files(pid)) <= len(before)), f"{before}, then {open_files(pid)}")
    checks.check("memory grows by less than 8 MiB", resident_kib(pid) - memory < 8192, f"{resident_kib(pid) - memory} KiB")
    new = bed.log("mps").count("\n") - lines
    checks.check("the log grows by less than 60 lines", new < 60, new)
    endpoint = next(d for d in bed.pool()["endpoints"] if hostile.endpoint.endswith(d["grant"]))
    checks.check("attempts are counted", endpoint["attempts"] > 50, endpoint["attempts"])
    with open(bed.path(f"mps/pools/{bed.pool()['id']}/log/control.log")) as log:
        heard = [line for line in log if "quit" in line or "terminate" in line]
    checks.check("the daemon is the same, serves, and heard no command", bed.pool()["daemonPid"] == daemon and bed.pool()["state"] == "serving" and not heard)
    checks.check("the neighbour has run on", resident.well())
    resident.leave()


if __name__ == "__main__":
    sys.exit(main(run, __doc__))
