#!/usr/bin/env python3
"""MPS that holds, before and after, on one GPU: each row shows a failure of a plain MPS daemon (limits as NVIDIA's device plugin sets
them for ten replicas) and what becomes of it under `tranche mps` and `tranche node`. Prints a table last and exits 1 when an `after`
does not hold. Needs root, an idle GPU with MPS, and a build; --simulated runs the same rows on the stand-ins.

It changes no setting of the GPU. Raw results go to $OUT/mps_that_holds.json (or --out)."""

import sys, time

import hold_rows, hold_rows_endpoint
from gpu_bed import Machine, Node, PlainDaemon, leftovers
from rows import clean, parsed, parser, save, table, title, verdict

ROWS = {  # in this order; what each promises
    "busy": ("a busy client is deleted", "no peer dies"),
    "variables": ("malformed CUDA_MPS_PINNED_DEVICE_MEM_LIMIT", "bounded, or ended within 250 ms"),
    "container": ("four processes in one container", "together within one share"),
    "commands": ("commands from a tenant's container", "none changes anything"),
    "users": ("two user ids at once", "both run"),
    "mute": ("somebody connects and says nothing, or breaks off", "others are served, and the server serves on"),
    "culprit": ("a client uses an illegal address, a neighbour computes", "whom MPS names, and who was hit, by pod"),
    "destroyed": ("a client uses an illegal address, a quiet neighbour has destroyed a context", "the faulty one is named"),
    "daemon": ("the daemon is killed, or stopped", "unhealthy within 1 s, and healthy again"),
    "outside": ("a client keeps out of MPS (compute mode left alone)", "it is named"),
    "held": ("a container holds the GPU without MPS when we begin", "its GPU is left to it, then shared"),
    "products": ("half-precision products, 2 to 48 slots", "none wrong"),
}


def guarded(function, *args):
    """A row's answer (measured, holds); what goes wrong in it is its answer too."""
    begin = time.monotonic()
    try:
        result = function(*args)
    except Exception as error:  # a row must not take the others along
        result = {"measured": f"{type(error).__name__}: {error}"[:200], "holds": False}
    result["seconds"] = round(time.monotonic() - begin, 1)
    return result


def function_of(row):
    return next(getattr(module, row) for module in (hold_rows, hold_rows_endpoint) if hasattr(module, row))


def main():
    made = parser(__doc__)
    made.add_argument("--only", action="append", choices=ROWS, help="this row; may be repeated")
    made.add_argument("--skip-before", action="store_true")
    made.add_argument("--repeats", type=int, default=25, help="busy clients that are deleted")
    made.add_argument("--values", type=int, default=20, help="malformed values that are tried")
    made.add_argument("--gemm-shapes", default="", help="for gemm-check --shapes")
    args = parsed(made)
    machine = Machine(args)
    machine.shows_uvm()
    already, results, began = leftovers(machine), {}, time.monotonic()
    names = [n for n in ROWS if not args.only or n in args.only]
    if not args.skip_before:
        for name in names:
            daemon = PlainDaemon(machine)
            results.setdefault(name, {})["before"] = guarded(function_of(f"{name}_before"), machine, daemon, args)
            daemon.stop()
            print(f"before {name}: {results[name]['before']['measured']}", file=sys.stderr, flush=True)
    node = Node(machine)
    for name in names:
        results.setdefault(name, {})["after"] = guarded(function_of(f"{name}_after"), machine, node, args)
        print(f"after {name}: {results[name]['after']['measured']}", file=sys.stderr, flush=True)
    failed = [n for n in names if results[n]["after"].get("holds") is False]
    if failed:
        node.show_logs()
    killed = node.stop()
    rows = [(*ROWS[name], each.get("before", {}).get("measured", "-"), each["after"]["measured"],
             "not available" if each["after"].get("holds") is None else verdict(each["after"]["holds"])) for name, each in results.items()]
    print(title(machine), *table("what", "promised", "before", "after", "", rows=rows), sep="\n")
    left = clean(machine, killed, already)
    save(args.out, "mps_that_holds", {"gpu": machine.gpu, "seconds": time.monotonic() - began, "rows": results, "left": left})
    return 1 if failed or left or killed else 0


if __name__ == "__main__":
    sys.exit(main())
