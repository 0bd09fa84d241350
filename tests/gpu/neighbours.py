"""Programs that compute beside what a hardware script tries, each in a pod of its own: PyTorch on a GPU, the driver's interface on the
stand-ins."""

import time

from gpu_bed import Program, started


class Neighbours:
    """Programs that compute all the time, each in a pod of its own, and what has become of them."""

    def __init__(self, machine, node):
        kinds = (("steps",), ("steps",)) if machine.simulated else (("serve",), ("train",), ("products", "queue=256"))
        self.tenants = [node.tenant(f"neighbour-{i}") for i in range(len(kinds))]
        self.programs = started([Program(machine, t.envs, *words, prefix=t.enter) for t, words in zip(self.tenants, kinds)], 120)
        self.starter = node.tenant("starter")

    def dead(self):
        return sum(not program.well() for program in self.programs)

    def start(self):
        """How long a further program takes to start, in milliseconds; None: it does not."""
        begin = time.monotonic()
        client = self.starter.client()
        ready = client.ready()
        took = round((time.monotonic() - begin) * 1000)
        (client.leave if ready else client.kill)()
        return took if ready else None

    def end(self):
        for program in self.programs:
            program.kill()
        for tenant in (*self.tenants, self.starter):
            tenant.delete()
