module tranche.io/tests/mig-parted

go 1.25
