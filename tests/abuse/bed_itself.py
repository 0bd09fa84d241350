"""The bed holds: its node serves, a tenant's program runs, and both programs hold few descriptors."""

import sys

from bed import descriptors, main


def run(bed, checks):
    tenant = bed.tenant("first")
    client = tenant.client()
    checks.check("a tenant's program runs", client.ready() and client.ask("alloc 64").get("code") == 0)
    for name in ("mps", "node"):
        count = descriptors(bed.pid(name))
        checks.check(f"tranche {name} holds less than 100 descriptors", count < 100, count)
    client.leave()
    tenant.delete()
    checks.check("all slots are healthy", bed.all_healthy())


if __name__ == "__main__":
    sys.exit(main(run, __doc__))
