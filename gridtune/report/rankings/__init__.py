"""Which configuration is best: cells sorted into replicates, ranked, combined and compared."""
