"""Code and files of users: plug-ins, what they open, and the checksums that stand in the ids of cells."""
