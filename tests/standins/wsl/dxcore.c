// A mark that tells who this is, should somebody look.
int tranche_stand_in_for_dxcore(void);
int tranche_stand_in_for_dxcore(void) { return 1; }
