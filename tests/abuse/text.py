"""A configuration that quotes badly (text that would be cut inside a character, bytes that are not UTF-8) or is large (one megabyte of
unknown keys, thousands of resources, aliases) ends no program: the last good one stays in force, status documents stay small, and both
programs go on answering."""

import sys

from bed import line_of, main, wait_for

ACCENTS = "é" * 70
SHARING = "sharing:\n  mps:\n    computeMode: leave\n    resources:\n    - {name: nvidia.com/gpu, replicas: 4}\n"
TEXTS = {
    "a count of accents": "version: v1\nsharing:\n  mps:\n    resources:\n    - {name: nvidia.com/gpu, replicas: aéé%s}\n" % ACCENTS,
    "a word of accents": "version: v1\nflags:\n  migStrategy: a%s\n" % ACCENTS + SHARING,
    "a version in Chinese": "version: v%s\n" % ("版本" * 40) + SHARING,
    "half a surrogate": b"version: v1\nflags:\n  migStrategy: \xed\xa0\x80\n" + SHARING.encode(),
    "a byte of Latin-1": b"version: v1\nflags:\n  migStrategy: caf\xe9\n" + SHARING.encode(),
}
UNKNOWN_KEYS = "version: v1\n" + SHARING + "a: 1\n" * 24_000
ENTRY = "    - {name: nvidia.com/mig-%d, replicas: 4}\n"
TOO_LARGE = {
    "one megabyte of unknown keys": "version: v1\n" + SHARING + "a: 1\n" * (((1 << 20) - 300) // 5),
    "4,000 resources": "version: v1\n" + SHARING + "".join(ENTRY % i for i in range(4_000)),
    "aliases of a long list": "version: v1\na: &a [" + "1," * 8_000 + "]\n" + SHARING + "    - {<<: {devices: *a}, replicas: 4}\n" * 100,
    "more than one megabyte": "version: v1\n" + SHARING + "#" * (1 << 20),
}


def problems(bed):
    return bed.status().get("config", {}).get("problems", [])


def run(bed, checks):
    for what, text in [*TEXTS.items(), *TOO_LARGE.items()]:
        before = problems(bed)
        bed.configure(text)
        checks.check(f"{what}: `tranche node` reports the problem", wait_for(lambda: problems(bed) not in ([], before)))
        checks.check(f"{what}: both programs answer", bed.alive("node") and bed.alive("mps") and bed.mps().get("pools") is not None)
    checks.check("all slots are healthy", bed.all_healthy())

    lines = {name: bed.log(name).count("\n") for name in ("node", "mps")}
    bed.configure(UNKNOWN_KEYS)
    checks.check("24,000 unknown keys: it is in force, with its first problems", wait_for(lambda: len(problems(bed)) > 50), problems(bed)[-1:])
    for name, ask in (("node", lambda: line_of(bed.path("run/node.sock"), "status")), ("mps", lambda: line_of(bed.path("mps/mps.sock"), "status"))):
        size, added = len(ask()), bed.log(name).count("\n") - lines[name]
        checks.check(f"the status document of {name} stays below 64 KiB", size < 65536, size)
        checks.check(f"{name} writes at most 300 lines", added <= 300, added)
    checks.check("all slots are healthy", bed.all_healthy())


if __name__ == "__main__":
    sys.exit(main(run, __doc__))
