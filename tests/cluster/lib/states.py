"""When processes are seen stopped and when they end: their states in /proc, looked at every few milliseconds."""

import threading
import time

from .containers import read

PAUSE = 0.003


def state_of(pid):
    """The letter of the process's state, "" where it has ended; a zombie has ended."""
    letter = read(f"/proc/{pid}/stat").rpartition(") ")[2][:1]
    return "" if letter in ("Z", "X") else letter


class States:
    """Looks at these processes from now on, until all of them have ended or close()."""

    def __init__(self, pids):
        self.stopped, self.ended = {}, {}  # pid -> time.time() when first seen so
        self.left = set(pids)
        self.closed = threading.Event()
        self.thread = threading.Thread(target=self._look, daemon=True)
        self.thread.start()

    def _look(self):
        while self.left and not self.closed.wait(PAUSE):
            for pid in sorted(self.left):
                letter = state_of(pid)
                if letter in ("T", "t"):
                    self.stopped.setdefault(pid, time.time())
                elif not letter:
                    self.ended[pid] = time.time()
                    self.left.discard(pid)

    def close(self):
        self.closed.set()
        self.thread.join()
