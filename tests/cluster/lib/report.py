"""What was checked: one row each, printed as it happens and as a table at the end."""

import sys
import time


class Failed(Exception):
    """A check that does not hold, or something that did not happen in time."""


class Report:
    def __init__(self):
        self.rows = []
        self.began = time.monotonic()
        self.section = ""

    def start(self, section):
        self.section = section
        print(f"── {section} ({self.seconds():.0f} s)", flush=True)

    def seconds(self):
        return time.monotonic() - self.began

    def check(self, what, holds, seen=""):
        """One row. Goes on after a failure: the next row may say why."""
        self.rows.append((self.section, what, bool(holds), str(seen)))
        print(f"   {'ok  ' if holds else 'FAIL'} {what}{f'  [{seen}]' if seen != '' else ''}", flush=True)
        return bool(holds)

    def comes(self, what, probe, seen, seconds=120):
        """One row: whether probe() holds before the time is over, and seen() at the end of it."""
        try:
            self.check(what, until(what, probe, seconds), seen())
        except Failed:
            self.check(what, False, seen())

    def failed(self):
        return [row for row in self.rows if not row[2]]

    def summary(self):
        failed = self.failed()
        print(f"\n{len(self.rows)} checks, {len(failed)} failed, {self.seconds():.0f} s")
        for section, what, _, seen in failed:
            print(f"  FAIL {section}: {what}  [{seen}]", file=sys.stderr)
        return 1 if failed or not self.rows else 0


def until(what, probe, seconds=120.0, pause=0.1):
    """The first true answer of probe(); Failed when none comes. For facts of other programs that send no event; the time is that of a cluster
    with a small part of its CPUs."""
    end = time.monotonic() + seconds
    while True:
        value = probe()
        if value:
            return value
        if time.monotonic() > end:
            raise Failed(f"waited {seconds:.0f} s for {what}, in vain; last seen: {value!r}")
        time.sleep(pause)
