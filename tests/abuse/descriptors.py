"""A tenant, as a user without rights, leaves the descriptor of a TCP connection whose release takes a minute (SO_LINGER) in its
socket of the relay: in a message, and behind one that ends the connection. `tranche mps` replies as before."""

import signal, subprocess, sys

from bed import line_of, main

TENANT = r"""
import os, socket, struct, sys
endpoint, where = sys.argv[1:3]
listening = socket.create_server(("127.0.0.1", 0))
slow = socket.create_connection(listening.getsockname())
peer, _ = listening.accept()
slow.setblocking(False)
try:
    while True:
        slow.send(b"x" * 65536)
except BlockingIOError:
    pass
slow.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 60))
rights = (socket.SOL_SOCKET, socket.SCM_RIGHTS, struct.pack("i", slow.fileno()))
s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
s.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
s.connect(endpoint + "/control")
if where == "behind":
    s.send(b"no such message")
s.sendmsg([b"OUTBCRED\0"], [rights])
slow.close()
print("sent", flush=True)
sys.stdin.read()
"""
NOBODY = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")


def run(bed, checks):
    hostile, neighbour = bed.tenant("hostile"), bed.tenant("neighbour")
    script = bed.path("descriptors_tenant.py")
    with open(script, "w") as file:
        file.write(TENANT)
    held = []
    for where in ("control", "behind"):
        bed.parts["mps"].send_signal(signal.SIGSTOP)  # the tenant's own descriptor is to be closed before the one that it sent
        held.append(subprocess.Popen([*hostile.enter, *NOBODY, sys.executable, script, hostile.inside, where],
                                     stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True))
        checks.check(f"{where}: it is sent", held[-1].stdout.readline() == "sent\n")
        bed.parts["mps"].send_signal(signal.SIGCONT)
        client = neighbour.client()
        checks.check(f"{where}: before the release is over, tranche mps replies and a neighbour's client starts",
                     line_of(bed.path("mps/mps.sock"), "status", 20) and client.ready(20))
        client.kill()
    checks.check("all slots are healthy", bed.all_healthy(), bed.healthy())
    for tenant in held:
        tenant.kill()
        tenant.wait()


if __name__ == "__main__":
    sys.exit(main(run, __doc__))
