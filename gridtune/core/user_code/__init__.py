"""Code and files of users: plug-ins, the files they open, and the checksums in the ids of cells."""
