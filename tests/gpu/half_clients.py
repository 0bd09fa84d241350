#!/usr/bin/env python3
"""What a real MPS server keeps of a client that exchanges some messages with it and makes no context: with one daemon of its own, without
Tranche. For each way: whether the server lists the client, and whether its ends of the client's four pipes are open while a fork has the
others. Prints a table last and exits 1 when a row differs from docs/internals/evidence/mps-handshake.md.

Needs root, an idle GPU with MPS, and a build; changes no setting of the GPU."""

import os, select, signal, socket, struct, sys, time

from gpu_bed import Machine, PlainDaemon
from rows import parsed, parser, table, title

RIGHTS, CREDENTIALS = socket.SCM_RIGHTS, socket.SCM_CREDENTIALS
NUMBER_0, FLAGS_0, NUMBER_1, FLAGS_1 = (struct.pack("<i", value) for value in (0, 255, 1, 0))
# What the client sends before its fork takes over, whether it exits, and what the fork sends.
WAYS = {
    "message 6": ([None], False, []),
    "6, 7": ([None, NUMBER_0], False, []),
    "6, 7, 8": ([None, NUMBER_0, FLAGS_0], False, []),
    "6, 7 (context 1)": ([None, NUMBER_1], False, []),
    "6, 7, 8 (context 1)": ([None, NUMBER_1, FLAGS_1], False, []),
    "6, then exits": ([None], True, []),
    "6, 7 (context 1), then exits": ([None, NUMBER_1], True, []),
    "6, 7 (context 1), exits; the fork sends 8": ([None, NUMBER_1], True, [FLAGS_1]),
    "6, 7, 8 (context 1), then exits": ([None, NUMBER_1, FLAGS_1], True, []),
}


def passed(ancillary):
    return [number for _, kind, data in ancillary if kind == RIGHTS for number in struct.unpack(f"{len(data) // 4}i", data)]


def introduce(to):
    to.sendmsg([b"OUTBCRED\0"], [(socket.SOL_SOCKET, CREDENTIALS, struct.pack("3i", os.getpid(), os.getuid(), os.getgid()))])


def half_client(pipe, way, report):
    """In a process of its own: begins as `way` says, and reports the pipes' ends that are closed on the server's side."""
    says, exits, fork_says = WAYS[way]
    control = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    control.connect(f"{pipe}/control")
    control.recv(64)
    introduce(control)
    control.send(struct.pack("<i", 2))
    server = socket.socket(fileno=passed(control.recvmsg(64, 256)[1])[0])
    control.send(bytes(4))
    channels = [number for _ in range(5) for number in passed(server.recvmsg(64, 256)[1])]
    for message in says:
        introduce(server) if message is None else server.send(message)
    time.sleep(0.2)
    if exits and os.fork() != 0:
        os._exit(0)
    time.sleep(0.3)
    for message in fork_says:
        server.send(message)
    server.close(), control.close()
    time.sleep(2)
    poll = select.poll()
    for channel in channels:
        poll.register(channel, 0)
    os.write(report, f"{len(channels)} {len(poll.poll(0))}\n".encode())
    time.sleep(30)
    os._exit(0)


def main():
    machine = Machine(parsed(parser(__doc__)))
    daemon, rows, wrong = PlainDaemon(machine, limited=False), [], 0
    holder = daemon.client()  # keeps the server
    print("a client with a context:", holder.ready(), flush=True)
    for way in WAYS:
        reader, writer = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.setsid()
            half_client(daemon.pipe, way, writer)
        os.close(writer)
        channels, closed = map(int, os.read(reader, 64).split())
        servers = daemon.command("get_server_list").split()
        listed = any(str(pid) in daemon.command(f"get_client_list {server}").split() for server in servers)
        rows.append((way, "yes" if listed else "no", f"{channels - closed} of {channels}"))
        wrong += listed or closed > 0 or channels != 4
        try:
            os.killpg(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        os.waitpid(pid, 0)
        os.close(reader)
    holder.leave()
    daemon.stop()
    print(title(machine), *table("the client sends", "in the server's list", "pipes that the server has open", rows=rows), sep="\n")
    machine.clean()
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
