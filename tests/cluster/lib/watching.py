"""What a cluster looks like meanwhile: a look ten times a second beside whatever a scenario does."""

import threading
import time


class Meanwhile:
    """For how long, at a stretch, `holds` was false while this was entered."""

    def __init__(self, holds):
        self.holds, self.longest, self.done = holds, 0.0, threading.Event()
        self.thread = threading.Thread(target=self.look)

    def look(self):
        since = None
        while not self.done.wait(0.1):
            if self.holds():
                since = None
                continue
            since = since or time.monotonic()
            self.longest = max(self.longest, time.monotonic() - since)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.done.set()
        self.thread.join()
