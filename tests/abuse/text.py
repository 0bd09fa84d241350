"""A configuration that quotes badly (text that would be cut inside a character, bytes that are not UTF-8, one megabyte of unknown keys)
ends no program: the last good one stays in force, status documents stay small, and both programs go on answering."""

import sys, time

from bed import cpu_seconds, line_of, main, resident_kib, wait_for

ACCENTS = "é" * 70
SHARING = "sharing:\n  mps:\n    computeMode: leave\n    resources:\n    - {name: nvidia.com/gpu, replicas: 4}\n"
TEXTS = {
    "a count of accents": "version: v1\nsharing:\n  mps:\n    resources:\n    - {name: nvidia.com/gpu, replicas: aéé%s}\n" % ACCENTS,
    "a word of accents": "version: v1\nflags:\n  migStrategy: a%s\n" % ACCENTS + SHARING,
    "a version in Chinese": "version: v%s\n" % ("版本" * 40) + SHARING,
    "half a surrogate": b"version: v1\nflags:\n  migStrategy: \xed\xa0\x80\n" + SHARING.encode(),
    "a byte of Latin-1": b"version: v1\nflags:\n  migStrategy: caf\xe9\n" + SHARING.encode(),
}
UNKNOWN_KEYS = "version: v1\n" + SHARING + "a: 1\n" * (((1 << 20) - 300) // 5)


def problems(bed):
    return bed.status().get("config", {}).get("problems", [])


def run(bed, checks):
    for what, text in TEXTS.items():
        before = problems(bed)
        bed.configure(text)
        checks.check(f"{what}: `tranche node` reports the problem", wait_for(lambda: problems(bed) not in ([], before), 10))
        checks.check(f"{what}: both programs answer", bed.alive("node") and bed.alive("mps") and bed.mps().get("pools") is not None)
    checks.check("all slots are healthy", bed.all_healthy(5))

    lines = {name: bed.log(name).count("\n") for name in ("node", "mps")}
    cpu = {name: cpu_seconds(bed.pid(name)) for name in ("node", "mps")}
    bed.configure(UNKNOWN_KEYS)
    slowest, end, seen = 0.0, time.monotonic() + 2, False
    while time.monotonic() < end:
        begin = time.monotonic()
        seen = seen or len(problems(bed)) > 50
        slowest = max(slowest, time.monotonic() - begin)
        time.sleep(0.02)
    checks.check("one megabyte of unknown keys: it is in force, with its first problems", seen, problems(bed)[-1:])
    checks.check("the node agent answers within 5 s meanwhile", slowest < 5, f"{slowest:.2f} s")
    for name, ask in (("node", lambda: line_of(bed.path("run/node.sock"), "status")), ("mps", lambda: line_of(bed.path("mps/mps.sock"), "status"))):
        size, added = len(ask()), bed.log(name).count("\n") - lines[name]
        checks.check(f"the status document of {name} stays below 64 KiB", size < 65536, size)
        checks.check(f"{name} writes at most 300 lines", added <= 300, added)
        memory, spent = resident_kib(bed.pid(name)), cpu_seconds(bed.pid(name)) - cpu[name]
        checks.check(f"{name} stays below 128 MiB and spends less than 5 s of CPU", memory < 128 << 10 and spent < 5, f"{memory >> 10} MiB, {spent:.2f} s")
    checks.check("all slots are healthy", bed.all_healthy(5))


if __name__ == "__main__":
    sys.exit(main(run, __doc__))
