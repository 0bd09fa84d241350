"""A node of the cluster: a machine with containerd, kubelet and the images that pods are made of. The first one is the scenario's
own process and what it starts; a second one is another process in namespaces of its own, and the scenario calls it over a socket."""

import os
import socket
import threading
from multiprocessing.connection import Client, Listener

from .image import Image
from .kubelet import Kubelet
from .machine import FIRST, SECOND, Machine
from .pods import TOOLS
from .report import Failed, until
from .runtime import PAUSE, Runtime
from .tranche import Tranche


class Node:
    def __init__(self, scratch, binaries, build, identity=FIRST):
        self.binaries, self.build, self.identity = binaries, build, identity
        self.machine = Machine(scratch, identity)

    def open(self):
        self.machine.prepare()
        self.runtime = Runtime(self.machine, self.binaries)
        self.kubelet = Kubelet(self.machine, self.binaries)
        self.tranche = Tranche(self.machine, self.build)
        self.runtime.start()
        pause = Image(PAUSE, ["/bin/sleep", "1000000"])
        pause.busybox()
        self.runtime.load(pause)
        tools = Image(TOOLS, ["/bin/sh"])
        tools.busybox()
        standins = f"{self.build}/standins"
        tools.program("/usr/bin/sim-cuda", f"{standins}/sim-cuda")
        tools.program("/usr/lib/x86_64-linux-gnu/libcuda.so.1", f"{standins}/libcuda.so.1")
        tools.program("/usr/bin/tranche", f"{self.build}/bin/tranche")
        self.runtime.load(tools)

    def simulate(self, profile, gpus, seed):
        from . import mission
        mission.simulate(self, profile, gpus, seed)


def path_of(scratch):
    return os.path.join(scratch, "second.sock")


def serve(scratch, binaries, build):
    """The second node's process: does what one caller asks for, and ends with it, or when none comes."""
    node = Node(os.path.join(scratch, "second"), binaries, build, SECOND)
    os.makedirs(node.machine.scratch)
    unasked = threading.Timer(600, os._exit, [1])
    unasked.start()
    with Listener(path_of(scratch), "AF_UNIX") as listener, listener.accept() as caller:
        unasked.cancel()
        with open("/proc/self/ns/net") as network, socket.socket(fileno=os.dup(caller.fileno())) as channel:
            socket.send_fds(channel, [b"n"], [network.fileno()])
        while True:
            try:
                names, words, more = caller.recv()
            except EOFError:
                return
            try:
                called = node
                for name in names:
                    called = getattr(called, name)
                caller.send((called(*words, **more), None))
            except Exception as failure:  # pylint: disable=broad-except
                caller.send((None, f"{type(failure).__name__}: {failure}"))


class Far:
    """A part of a node in another process; what is called on it is done there."""

    def __init__(self, caller, *names):
        self._caller, self._names = caller, names

    def __getattr__(self, name):
        return Far(self._caller, *self._names, name)

    def __call__(self, *words, **more):
        self._caller.send((self._names, words, more))
        answer, failure = self._caller.recv()
        if failure:
            raise Failed(f"{'.'.join(self._names)} on the second node: {failure}")
        return answer


class SecondNode(Far):
    """The second node as a scenario of the first sees it."""

    def __init__(self, first):
        scratch = first.machine.scratch
        until("the second node's process", lambda: os.path.exists(path_of(scratch)))
        super().__init__(Client(path_of(scratch), "AF_UNIX"))
        self.identity = SECOND
        with socket.socket(fileno=os.dup(self._caller.fileno())) as channel:
            _, (network,), _, _ = socket.recv_fds(channel, 1, 1)
        self.open()
        first.machine.give_cable(network)
        os.close(network)
        self.machine.connect(first.identity)
        first.machine.connect(SECOND)

    def leave(self):
        """Its process ends, and all that runs there with it."""
        self._caller.close()
