"""Reading what resource managers record: `sacct` dumps, PBS accounting, tables with columns of any name."""
