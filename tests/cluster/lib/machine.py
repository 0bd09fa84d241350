"""The machine that a node of the cluster runs on: this one, in namespaces of its own (mounts, processes, network, host name), so
that kubelet, containerd and Tranche use their usual paths and nothing of it is left when the test ends."""

import os
import shutil
import socket
import stat
import subprocess
from dataclasses import dataclass

from .programs import run, write


@dataclass(frozen=True)
class Identity:
    """What two nodes may not have in common."""
    name: str
    address: str
    pods: str  # the first half of the addresses of its pods
    cgroup: str  # the root of kubelet's cgroups: no namespace separates these


FIRST = Identity("tranche-node", "10.66.0.2", "10.68", "")
SECOND = Identity("tranche-second", "10.66.0.3", "10.69", "tranche-second")
NODE, ADDRESS = FIRST.name, FIRST.address
SERVICE = "10.67.0.1"  # the first of the control plane's range: the service "kubernetes"
# Usual paths that are empty folders of the test's own while it runs.
OWN = ["/var/lib/kubelet", "/var/lib/containerd", "/var/log/pods", "/var/log/containers", "/etc/kubernetes",
       "/etc/containerd", "/etc/cdi", "/etc/tranche", "/run"]


def enter(argv):
    """Starts argv as the first process of new namespaces."""
    return subprocess.Popen(["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "--net", "--uts",
                             "--ipc", "--propagation", "private", *argv])


class Machine:
    def __init__(self, scratch, identity=FIRST):
        self.scratch, self.identity = scratch, identity

    def path(self, *names):
        return os.path.join(self.scratch, *names)

    def prepare(self):
        socket.sethostname(self.identity.name)
        for path in OWN:
            if not os.path.isdir(path):
                os.makedirs(path)  # the only trace on this machine: an empty folder
            own = self.path("own", path.strip("/").replace("/", "_"))
            os.makedirs(own)
            run("mount", "--bind", own, path)
        os.makedirs("/run/lock")
        self._private_devices()
        run("mount", "--make-rshared", "/")  # kubelet wants its mounts seen by others; the others are ours alone
        self._network()
        write(self.path("hosts"), "127.0.0.1 localhost\n" + "".join(f"{node.address} {node.name}\n" for node in (FIRST, SECOND)))
        run("mount", "--bind", self.path("hosts"), "/etc/hosts")
        write(self.path("resolv.conf"), "nameserver 127.0.0.1\n")

    def _private_devices(self):
        """A /dev of our own with what is there now, so that device nodes of GPUs can be made in it."""
        dev = self.path("dev")
        os.makedirs(dev)
        run("mount", "-t", "tmpfs", "-o", "mode=755", "tmpfs", dev)
        for name in os.listdir("/dev"):
            source, target = f"/dev/{name}", f"{dev}/{name}"
            if os.path.islink(source):
                os.symlink(os.readlink(source), target)
            elif os.path.isdir(source):
                os.makedirs(target)
                run("mount", "--rbind", source, target)
            else:
                info = os.stat(source)
                os.mknod(target, stat.S_IFMT(info.st_mode) | (info.st_mode & 0o777), info.st_rdev)
        run("mount", "--rbind", dev, "/dev")

    @staticmethod
    def device_nodes(gpus):
        """What a driver makes. No driver stands behind the numbers; opening them fails, and nobody here does."""
        for name, major, minor in [("nvidiactl", 195, 255), ("nvidia-uvm", 511, 0), ("nvidia-uvm-tools", 511, 1),
                                   *[(f"nvidia{gpu}", 195, gpu) for gpu in range(gpus)]]:
            if not os.path.exists(f"/dev/{name}"):
                os.mknod(f"/dev/{name}", stat.S_IFCHR | 0o666, os.makedev(major, minor))
                os.chmod(f"/dev/{name}", 0o666)

    def _network(self):
        run("ip", "link", "set", "lo", "up")
        if self.identity == FIRST:  # the second node gets the other end of the cable: connect()
            run("ip", "link", "add", "eth0", "type", "veth", "peer", "name", "eth1")
            run("ip", "link", "set", "eth1", "up")
            self._address()

    def _address(self):
        """kubelet wants an address that is not the loopback's, and a default route."""
        run("ip", "addr", "add", f"{self.identity.address}/24", "dev", "eth0")
        run("ip", "link", "set", "eth0", "up")
        run("ip", "route", "add", "default", "via", "10.66.0.1")

    @staticmethod
    def give_cable(network):
        """Of the first node: the loose end of its cable becomes eth0 of another network namespace, given as an open file."""
        run("ip", "link", "set", "eth1", "netns", f"/proc/self/fd/{network}", "name", "eth0", pass_fds=[network])

    def connect(self, other):
        """The way to the pods of the other node, once the cable connects both."""
        if self.identity != FIRST:
            self._address()
        run("ip", "route", "add", f"{other.pods}.0.0/16", "via", other.address)
        with open("/proc/sys/net/ipv4/ip_forward", "w") as file:
            file.write("1")

    def cgroup_root(self):
        """The folder below which kubelet makes its cgroups, in every hierarchy; its path for kubelet."""
        for top in os.listdir("/sys/fs/cgroup") if self.identity.cgroup else []:
            parent = os.path.join("/sys/fs/cgroup", top)
            if os.path.exists(f"{parent}/cgroup.procs"):
                os.makedirs(f"{parent}/{self.identity.cgroup}", exist_ok=True)
                for name in ("cpuset.cpus", "cpuset.mems"):
                    if os.path.exists(f"{parent}/{name}"):
                        with open(f"{parent}/{name}") as here, open(f"{parent}/{self.identity.cgroup}/{name}", "w") as below:
                            below.write(here.read())
        return f"/{self.identity.cgroup}"

    @staticmethod
    def files():
        """Every file and folder where programs like to leave things, and below /run: type and size, by path."""
        seen = {}
        elsewhere = ("/var/lib/kubelet", "/var/lib/containerd", "/run/containerd", "/run/sim-node", "/run/point.last", "/opt/tranche-sim", "/run/netns", "/etc/kubernetes", "/etc/tranche", "/usr/local/go", "/var/lib/containers", "/var/lib/cni")  # other programs' own, and this test's
        for top in ("/etc", "/opt", "/run", "/usr/local", "/var/lib"):
            for folder, folders, files in os.walk(top):
                folders[:] = [name for name in folders if f"{folder}/{name}" not in elsewhere]
                for name in files + folders:
                    if f"{folder}/{name}" in elsewhere:
                        continue
                    try:
                        info = os.lstat(f"{folder}/{name}")
                    except OSError:
                        continue
                    regular = stat.S_ISREG(info.st_mode)
                    seen[f"{folder}/{name}"] = (stat.S_IFMT(info.st_mode), info.st_size if regular else 0)
        return seen


def remove_cgroups():
    """kubelet's, the runtime's and our daemons' cgroups, which no namespace removes."""
    for top in os.listdir("/sys/fs/cgroup") + [""]:
        for name in ("kubepods", "k8s.io", "tranche", SECOND.cgroup):
            path = os.path.join("/sys/fs/cgroup", top, name)
            for folder, _, _ in os.walk(path, topdown=False):
                try:
                    os.rmdir(folder)
                except OSError:
                    pass


def missing():
    """What this machine lacks for a cluster, as sentences."""
    lacks = []
    if os.geteuid() != 0:
        lacks.append("it needs root")
    for program in ("unshare", "ip", "mount", "runc", "etcd", "busybox", "ldd"):
        if not shutil.which(program):
            lacks.append(f"{program} is not installed")
    if not lacks:
        tried = subprocess.run(["unshare", "--mount", "--pid", "--fork", "--mount-proc", "--net", "--uts", "true"],
                               capture_output=True, text=True, check=False)
        if tried.returncode != 0:
            lacks.append(f"no namespaces here: {tried.stderr.strip()}")
    return lacks
