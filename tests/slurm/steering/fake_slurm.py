"""Stands for squeue, sinfo and scontrol: `fake_slurm.py COMMAND WORD...`, on the state in $FAKE_SLURM.

The state has squeue's and sinfo's answers, and perhaps a fault: the name of a command, and what it does.
"""

import json
import os
import signal
import sys
import time
from pathlib import Path

path = Path(os.environ["FAKE_SLURM"])
state = json.loads(path.read_text())
command, *words = sys.argv[1:]
fault = state.get("fault", {}).get(command)
if fault == "down":
    sys.exit("slurm_load_jobs error: Unable to contact slurm controller (connect failure)")
if fault == "slow":
    time.sleep(60)
if fault == "denied":
    sys.exit("slurm_update error: Access/permission denied")
if fault == "gone":
    sys.exit("slurm_update error: Invalid job id specified")
if isinstance(fault, int):  # kill the caller at this call
    state["fault"][command] -= 1
    path.write_text(json.dumps(state))
    if fault == 0:
        os.kill(os.getppid(), signal.SIGKILL)
        sys.exit(1)
if command in {"squeue", "sinfo"}:
    text = json.dumps(state[command])
    print(text[: len(text) // 2] if fault == "half" else text)
    sys.exit()
state.setdefault("commands", []).append(" ".join(words))
settings = dict(word.split("=", 1) for word in words if "=" in word)
for job in state["squeue"]["jobs"]:
    if str(job["job_id"]) == settings.get("job", words[-1]):
        if words[0] == "release":
            job["priority"] = {"set": True, "infinite": False, "number": job["base"]}
        elif "priority" in settings:
            job["priority"] = {"set": True, "infinite": False, "number": int(settings["priority"])}
        elif job["job_id"] not in state.get("explicit", []):
            job["nice"] = int(settings["nice"])
            held = job["priority"]["number"] == 0
            number = 0 if held else max(1, job["base"] - job["nice"])
            job["priority"] = {"set": True, "infinite": False, "number": number}
path.write_text(json.dumps(state))
