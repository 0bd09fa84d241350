"""The frame of a hardware script: its arguments, and the table of its rows at the end. A row is {"measured", "holds", "failed"?: lines}."""

import argparse, json, os, time

from gpu_bed import stay


def parser(doc):
    made = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--bin", default="build/bin")
    made.add_argument("--standins", default="build/standins")
    made.add_argument("--simulated", metavar="BUILD", help="a build folder; its stand-ins take the place of driver and daemon")
    made.add_argument("--cublas", default="")
    return made


def parsed(made):
    args = made.parse_args()
    if args.simulated:
        args.bin, args.standins = f"{args.simulated}/bin", f"{args.simulated}/standins"
    return args


def finish(machine, results, name, **raw):
    """Prints the table, keeps the raw results as $OUT/<name>.json; the exit status."""
    left = stay(machine)
    if os.environ.get("OUT"):
        with open(f"{os.environ['OUT']}/{name}.json", "w") as file:
            json.dump({**results, **raw}, file, indent=1)
    print(f"\nGPU: {machine.gpu['name']}   {time.strftime('%Y-%m-%d')}{'   (simulated)' if machine.simulated else ''}\n| row | measured | |\n| --- | --- | --- |")
    for row, result in results.items():
        print(f"| {row} | {result['measured']} | {'holds' if result['holds'] else 'DOES NOT HOLD'} |")
        for failure in result.get("failed", []):
            print(f"    {failure}")
    print(f"processes left: {len(left)}")
    machine.clean()
    return 0 if all(result["holds"] for result in results.values()) and not left else 1
