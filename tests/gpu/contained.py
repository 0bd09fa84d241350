#!/usr/bin/env python3
"""The first moments of a container with a pid namespace of its own, for endings.py: `contained.py SOCKET NAME SHAPE COMMAND…` is what
kubelet's double starts. It stays outside as a container runtime's shim does, and ends with the container, with its exit status.

  first    COMMAND is the container's first process (PID 1 of its namespace)
  shell    a shell is, with COMMAND as its child
  init     a small init is, which waits in sigwait, passes signals on to COMMAND and ends with it (as tini and dumb-init do)
  shared   COMMAND is, but PID 1 of its namespace is a pause process, as with shareProcessNamespace

Standard input, output and error of COMMAND are connections to SOCKET, which begin with the line "io NAME" or "err NAME". The first
line of output is {"event": "container", "pid": the first process, as the host numbers it}."""

import ctypes, json, os, signal, socket, sys

NEW_MOUNTS, NEW_PIDS, RECURSIVE, PRIVATE, DEATH_SIGNAL = 0x00020000, 0x20000000, 0x4000, 0x40000, 1
libc = ctypes.CDLL(None, use_errno=True)


def must(code, what):
    if code != 0:
        error = ctypes.get_errno()
        print(f"contained.py: cannot {what}: {os.strerror(error)}", file=sys.stderr, flush=True)
        os._exit(125)


def end_with_parent():
    libc.prctl(DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)


def connect(path, line):
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(path)
    connection.sendall(line.encode() + b"\n")
    return connection


def code_of(status):
    return 128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)


def init(command):
    """PID 1 as tini is it: signals are waited for, never caught, so that no mask in /proc shows the one that it takes."""
    waited = {signal.SIGTERM, signal.SIGINT, signal.SIGCHLD}
    signal.pthread_sigmask(signal.SIG_BLOCK, waited)
    child = os.fork()
    if child == 0:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, waited)
        os.execvp(command[0], command)
    while True:
        number = signal.sigwaitinfo(waited).si_signo
        if number != signal.SIGCHLD:
            os.kill(child, number)
            continue
        pid, status = os.waitpid(child, os.WNOHANG)  # 0 when it was stopped or continued
        if pid == child:
            os._exit(code_of(status))


def become(shape, command, io, err):
    end_with_parent()
    must(libc.unshare(NEW_MOUNTS), "make a mount namespace")
    must(libc.mount(b"none", b"/", None, RECURSIVE | PRIVATE, None), "keep its mounts to itself")
    if "TRANCHE_SIM_NODE" not in os.environ:  # the stand-ins look up in /proc, as the host numbers them, who is still there
        must(libc.mount(b"proc", b"/proc", b"proc", 0, None), "mount /proc")
    for fd, of in ((0, io), (1, io), (2, err)):
        os.dup2(of.fileno(), fd)
    io.close()
    err.close()
    if shape == "init":
        init(command)
    words = ["/bin/sh", "-c", '"$@"; exit $?', "sh", *command] if shape == "shell" else command
    os.execvp(words[0], words)


def main():
    path, name, shape, *command = sys.argv[1:]
    io, err = connect(path, f"io {name}"), connect(path, f"err {name}")
    must(libc.unshare(NEW_PIDS), "make a pid namespace")
    if shape == "shared" and os.fork() == 0:
        end_with_parent()
        io.close()
        err.close()
        while True:
            signal.pause()
    first = os.fork()
    if first == 0:
        become(shape, command, io, err)
    io.sendall(json.dumps({"event": "container", "pid": first}).encode() + b"\n")
    io.close()
    err.close()
    _, status = os.waitpid(first, 0)
    os._exit(code_of(status))


if __name__ == "__main__":
    main()
