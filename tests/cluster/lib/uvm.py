"""What `tranche-keeper` sees of the stand-ins' clients: to them a terminal is the nvidia-uvm device (tests/standins/README-mps.md), and the
keeper knows the device by its number in /proc/devices. A file is mounted there for a pod that is running, since runc mounts nothing
of that kind."""

import ctypes
import os

from .programs import write
from .tranche import SIM_NODE

DEVICES = "/proc/devices"
NAMESPACE_OF_MOUNTS, BIND = 0x00020000, 0x1000


def _inside(pid, act):
    """Calls act(libc) in the mount namespace of the process; whether it answers 0."""
    child = os.fork()
    if child == 0:
        libc = ctypes.CDLL(None)
        with open(f"/proc/{pid}/ns/mnt") as namespace:
            os._exit(0 if libc.setns(namespace.fileno(), NAMESPACE_OF_MOUNTS) == 0 and act(libc) == 0 else 1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def show(pid):
    """From now on, programs with the mounts of this process, which have SIM_NODE, know the device."""
    with open(DEVICES) as file:
        write(f"{SIM_NODE}/devices", file.read().replace("Character devices:\n", "Character devices:\n136 nvidia-uvm\n"))
    return _inside(pid, lambda libc: libc.mount(f"{SIM_NODE}/devices".encode(), DEVICES.encode(), None, BIND, None))


def hide(pid):
    return _inside(pid, lambda libc: libc.umount(DEVICES.encode()))
