"""A sweep on a cluster of its own whose parts are killed at random, and what is lost or done twice.

    scripts/chaos benchmarks/naps.yaml --faults 125 --seed 1
    scripts/chaos benchmarks/naps.yaml --faults 1000 --runs 8 --seconds 580 --logs chaos-logs
    scripts/chaos SPACE --seconds 600 --kinds worker,node,driver
    scripts/chaos --each 20 --venues ray,inline --kinds raylet,gcs_server,worker,child

Runs the space once undisturbed, without Ray, beside the rest. Starts a Ray cluster of three nodes on this
machine, a tracking server, and `gridtune sweep` on them again and again, in a fresh folder each time, while
at random moments

- worker: a process that runs cells is killed (SIGKILL, as all that follow);
- stall: one is stopped for up to a second (SIGSTOP), as on a machine that swaps;
- disk: the disk of the sweep's folder is full for up to a second (it is one of memory, which needs root);
- node: a node is killed with all its processes, and another joins;
- driver: the command is killed, and started again;
- tracking: the tracking server is killed, and started again;
- head: the head node is killed with all of the cluster; cluster and command are started again.

The next fault comes up to half a second after results have come again. What ends by itself meanwhile is
started again and counted apart. At the end, or when the time is up, each journal and table of results is
compared with the undisturbed one. The last line is all of that as JSON.

With --each, a short sweep of naps runs for each process (of a Ray that it starts, of one that it joins, or of
a sweep without Ray) and each phase (start, join, first cell, running, ending), as often as said. The process
is killed in that phase, the command itself also gets SIGTERM and SIGHUP. The command must end with the exit
code and the message that the documentation promises, without a minute of silence; the same command, without
Ray, must then end with the undisturbed results, none of them twice.
"""
