#!/usr/bin/env python3
"""What a real MPS server keeps of a client that exchanges some messages with it and makes no context: with one daemon of its own, without
Tranche. For each way: whether the server lists the client, and whether its ends of the client's four pipes are open while a fork has the
others. Prints a table last and exits 1 when a row differs from docs/internals/evidence/mps-handshake.md.

Needs root, an idle GPU with MPS, its driver library and control daemon; changes no setting of the GPU."""

import ctypes, os, select, signal, socket, struct, subprocess, sys, tempfile, time

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


def own_context():
    """Of this process, through the daemon; 0, or the error."""
    cuda = ctypes.CDLL("libcuda.so.1")
    device, context = ctypes.c_int(), ctypes.c_void_p()
    return cuda.cuInit(0) or cuda.cuDeviceGet(ctypes.byref(device), 0) or cuda.cuCtxCreate_v2(ctypes.byref(context), 0, device)


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


def own_daemon():
    """A daemon without Tranche, in a session of its own, whose directory this process and its children use."""
    folder = tempfile.mkdtemp(prefix="mps.")
    os.environ.update(CUDA_MPS_PIPE_DIRECTORY=folder, CUDA_MPS_LOG_DIRECTORY=folder)
    daemon = subprocess.Popen(["nvidia-cuda-mps-control", "-f"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.STDOUT, preexec_fn=os.setsid)
    while not os.path.exists(f"{folder}/control"):
        time.sleep(0.05)
    time.sleep(0.5)
    return folder, daemon


def ask(text):
    return subprocess.run(["nvidia-cuda-mps-control"], input=text + "\n", capture_output=True, text=True, timeout=20).stdout.split()


def title():
    gpu = subprocess.run(["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"], capture_output=True, text=True).stdout.strip()
    return f"{gpu}   {time.strftime('%Y-%m-%d')}"


def main():
    folder, daemon = own_daemon()
    print("a context of this process:", own_context(), flush=True)
    rows, wrong = [], 0
    for way in WAYS:
        reader, writer = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.setsid()
            half_client(folder, way, writer)
        os.close(writer)
        channels, closed = map(int, os.read(reader, 64).split())
        listed = str(pid) in [client for server in ask("get_server_list") for client in ask(f"get_client_list {server}")]
        rows.append((way, "yes" if listed else "no", f"{channels - closed} of {channels}"))
        wrong += listed or closed > 0 or channels != 4
        try:
            os.killpg(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        os.waitpid(pid, 0)
        os.close(reader)
    os.killpg(daemon.pid, signal.SIGKILL)
    print(f"{title()}\n| the client sends | in the server's list | pipes that the server has open |\n| --- | --- | --- |")
    print("\n".join(f"| {' | '.join(row)} |" for row in rows))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
