"""The frame of a hardware script: its arguments, and the table of its rows at the end. A row is {"measured", "holds", "failed"?: lines}."""

import argparse, json, os, time

from gpu_bed import stay


def parser(doc):
    made = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--bin", default="build/bin")
    made.add_argument("--standins", default="build/standins")
    made.add_argument("--simulated", metavar="BUILD", help="a build folder; its stand-ins take the place of driver and daemon")
    made.add_argument("--cublas", default="", help="a folder with cuBLAS, for gemm-check")
    made.add_argument("--out", default=os.environ.get("OUT", ""), help="a folder for the raw results")
    return made


def parsed(made):
    args = made.parse_args()
    if args.simulated:
        args.bin, args.standins = f"{args.simulated}/bin", f"{args.simulated}/standins"
    return args


def save(out, name, results):
    """Keeps the raw results as FOLDER/<name>.json, where a folder is given."""
    if out:
        with open(f"{out}/{name}.json", "w") as file:
            json.dump(results, file, indent=1)


def title(machine, since=None):
    """The line above a table: the GPU, its driver, the date, and the seconds since then."""
    return (f"GPU: {machine.gpu['name']} ({machine.sms} SMs), driver {machine.driver()}   {time.strftime('%Y-%m-%d', time.gmtime())}" +
            (f"; {time.monotonic() - since:.0f} s" if since else ""))


def verdict(holds):
    return "measured" if holds is None else "holds" if holds else "DOES NOT HOLD"


def table(*heads, rows):
    """Its lines."""
    return [f"| {' | '.join(map(str, row))} |" for row in (heads, ["---"] * len(heads), *rows)]


def promises(rows):
    """Prints a table of (what, promised, measured, holds)."""
    print(*table("what", "promised", "measured", "", rows=[(*row[:3], verdict(row[3])) for row in rows]), sep="\n")


def parts(rows):
    """A table of {row: (holds, [(what, measured)])}, as lines."""
    lines = [(name, what, value, verdict(holds) if i == 0 else "")
             for name, (holds, measured) in rows.items() for i, (what, value) in enumerate(measured)]
    return table("row", "what", "measured", "", rows=lines)


def run_parts(node, args, rows, parts):
    """Each part adds its rows; ends the node. Which of its programs had to be killed."""
    for part in parts:
        try:
            part(node, args, rows)
        except Exception as error:  # the rows that are there are worth having
            rows.append((part.__name__, "", f"{type(error).__name__}: {error}"[:300], False))
    if not all(row[3] for row in rows):
        node.show_logs()
    return node.stop()


def clean(machine, killed=(), already=()):
    """Removes the machine's scratch; says and returns which processes are left besides those that were there already."""
    left = [f"{pid} {command}" for pid, command in stay(machine, already).items()]
    machine.clean()
    print(f"processes left: {len(left)}{''.join(f'{chr(10)}  {each}' for each in left)}; had to be killed: {', '.join(killed) or 'none'}")
    return left


def finish(machine, results, name, **raw):
    """Prints the table, keeps the raw results as $OUT/<name>.json; the exit status."""
    save(os.environ.get("OUT"), name, {**results, **raw})
    rows = [(row, each["measured"], verdict(each["holds"])) for row, each in results.items()]
    print("", title(machine), *table("row", "measured", "", rows=rows), sep="\n")
    for row, result in results.items():
        for failure in result.get("failed", []):
            print(f"{row}: {failure}")
    left = clean(machine)
    return 0 if all(result["holds"] for result in results.values()) and not left else 1
