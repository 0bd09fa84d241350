#!/usr/bin/env python3
"""How containers on a shared GPU end, with real programs: `tranche mps` and `tranche node` (compute mode left alone) with kubelet's
double and an API that reports pods, twelve slots, neighbours that serve, train and compute all the while. What counts is the
neighbours' lives. Prints a table last and exits 1 when a row does not hold.

  delete      an ordinary deletion with a grace, by shape of the container and kind of program
  checkpoint  a program that saves on SIGTERM
  force       a forced deletion
  own         exceptions, ends of scripts, signals of its own and the OOM killer, with a deep queue in flight (kinds: deep)
  killed      SIGKILL of a program and, at that moment, of `tranche mps` or `tranche node`
  over        a program that lifts its own memory limit
  again       a program is killed, and started again in its container while its memory is still held
  frameworks  what PyTorch, JAX, CuPy and ONNX Runtime see in a share, and whether they complain
  noise       the neighbours' slowest steps before and during all that

Needs root, an idle GPU with MPS, PyTorch (JAX, CuPy, ONNX Runtime for their parts) and a build; --simulated runs the same rows on the
stand-ins, with programs that use the driver's interface. It changes no setting of the GPU. Raw results go to $OUT/endings.json."""

import os, sys, time

import ending_rows
from endings_bed import CONFIG, EndingsNode, Neighbours
from gpu_bed import Machine, leftovers
from rows import clean, parsed, parser, parts, save, title

ROWS = {  # in this order; with its part of the time
    "delete": ("a deletion with a grace", 10), "checkpoint": ("a program that saves on SIGTERM", 2), "force": ("a forced deletion", 3),
    "own": ("a program's own end", 6), "killed": ("with tranche mps, with tranche node", 3), "over": ("a program lifts its own memory limit", 2),
    "again": ("its memory is held meanwhile", 1), "frameworks": ("frameworks in a share", 1), "noise": ("the neighbours' p99 step", 1)}
SKIPPED = 77  # as ctest has it here


def arguments():
    made = parser(__doc__)
    made.add_argument("--only", action="append", choices=ROWS, help="this row; may be repeated")
    made.add_argument("--kinds", default="", help=f"of victims, with commas between: {', '.join(ending_rows.KINDS)}; all by default")
    made.add_argument("--shapes", default="first,shell,init,shared", help="of containers: first, shell, init, shared (contained.py says what they are)")
    made.add_argument("--repeats", type=int, default=20, help="tries of each kind")
    made.add_argument("--budget", type=float, default=560, help="seconds: no new try begins after them")
    made.add_argument("--grace", type=int, default=3, help="seconds, of ordinary deletions")
    made.add_argument("--at-once", type=int, default=2, help="victims that work, and end, side by side")
    made.add_argument("--victims", type=int, default=6, help="that are prepared at once")
    made.add_argument("--slots", default="12,2,1", help="of the GPU, of a neighbour, of a victim")
    made.add_argument("--endpoint", choices=("relay", "link"), default="relay", help="of the containers; no link refuses a program at its start")
    made.add_argument("--silent", action="store_true", help="send the node no deletion")
    args = parsed(made)
    args.kinds = [k for k in args.kinds.split(",") if k] or list(ending_rows.KINDS)
    args.shapes = args.shapes.split(",")
    args.gpu_slots, args.neighbour_slots, args.victim_slots = (int(n) for n in args.slots.split(","))
    EndingsNode.SLOTS, EndingsNode.CONFIG = args.gpu_slots, CONFIG.format(endpoint=args.endpoint, slots=args.gpu_slots)
    for kind in args.kinds:
        if kind not in ending_rows.KINDS:
            made.error(f"--kinds: {kind} is not a kind; write some of {', '.join(ending_rows.KINDS)}")
    return args


def run_rows(args, machine, node, began):
    kinds = ending_rows.NEIGHBOURS if not machine.simulated else {name: ("steps",) for name in ending_rows.NEIGHBOURS}
    neighbours = Neighbours(node, kinds, args.neighbour_slots)
    try:
        bed = ending_rows.Bed(machine, args, node, neighbours, began + args.budget)
        names, rows = [name for name in ROWS if not args.only or name in args.only], {}
        for i, name in enumerate(names):
            left = began + args.budget - time.monotonic()
            bed.until = time.monotonic() + left * ROWS[name][1] / sum(ROWS[n][1] for n in names[i:])
            begin = time.monotonic()
            try:
                rows[name] = getattr(ending_rows, name)(bed)
            except Exception as error:  # a row must not take the others along
                rows[name] = {"holds": False, "lines": [(ROWS[name][0], f"{type(error).__name__}: {error}"[:300])]}
            rows[name]["seconds"] = round(time.monotonic() - begin, 1)
            for line in rows[name]["lines"]:
                print(f"{name}: {line[0]}: {line[1]}", file=sys.stderr, flush=True)
            save(args.out, "endings", {"gpu": machine.gpu, "title": title(machine), "rows": rows, "harms": neighbours.harms})
        if any(row["holds"] is False for row in rows.values()):
            node.show_logs()
        return rows
    finally:
        neighbours.end()


def main():
    args = arguments()
    if os.geteuid() != 0:
        print("endings.py needs root: containers get namespaces of their own")
        return SKIPPED
    began = time.monotonic()
    machine = Machine(args)
    machine.shows_uvm()
    already, node = leftovers(machine), EndingsNode(machine)
    try:
        rows = run_rows(args, machine, node, began)
    finally:
        killed = node.stop()
    left = clean(machine, killed, already)
    print(title(machine, began), *parts({name: (row["holds"], row["lines"]) for name, row in rows.items()}), sep="\n")
    return 1 if left or killed or any(row["holds"] is False for row in rows.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
