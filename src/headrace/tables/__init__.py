"""Lance tables without Spark: the ledger of landed epochs, the commit protocol, fragments, upkeep."""
