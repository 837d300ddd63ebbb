"""`slurm`: a batch file that starts Ray inside an allocation of Slurm and runs a study on it."""

from __future__ import annotations

import os
import re
import shlex

from headstart.errors import BadInput
from headstart.verbs.options import FolderOptions, StudyOptions, WorkOptions, as_words, study_of

_TIME = re.compile(r"(\d+-)?\d+(:[0-5]\d){0,2}", re.ASCII)
_NAME = re.compile(r"[\w.,-]+", re.ASCII)

_FILE = """\
#!/bin/bash
{directives}

# Ray turns away whoever does not know this job's token. It crosses the network in the clear: where others can listen to
# the traffic between nodes, they can run code as you.
# At its time limit, or when it is preempted, the run saves; submitted again, this file goes on from there.
set -euo pipefail
export PYTHONSAFEPATH=1  # no file of this folder stands in for a module of Python

RAY_AUTH_TOKEN=$(od -An -N32 -tx1 /dev/urandom | tr -d ' \\n')
export RAY_AUTH_MODE=token RAY_AUTH_TOKEN

mapfile -t nodes < <(scontrol show hostnames "$SLURM_JOB_NODELIST")
address=$(getent ahostsv4 "${{nodes[0]}}" | awk '{{ print $1; exit }}'):$((20000 + SLURM_JOB_ID % 10000))
resources=(--num-cpus={cpus} --num-gpus={gpus} --disable-usage-stats)

trap 'kill $(jobs -p) 2> /dev/null || true' EXIT
srun --nodes=1 --ntasks=1 --nodelist="${{nodes[0]}}" \\
  ray start --head --node-ip-address="${{address%:*}}" --port="${{address#*:}}" --include-dashboard=false \\
  "${{resources[@]}}" --block &
until ray status --address "$address" > /dev/null 2>&1; do sleep 2; done
for node in "${{nodes[@]:1}}"; do
  srun --nodes=1 --ntasks=1 --nodelist="$node" ray start --address="$address" "${{resources[@]}}" --block &
done

RAY_ADDRESS="$address" {command} &
run=$!
trap 'kill -TERM "$run"' TERM
code=0
wait "$run" || code=$?
# A signal ends `wait` before the run has saved.
while kill -0 "$run" 2> /dev/null; do sleep 1; done
exit "$code"
"""


def batch_file(
    study: str,
    overrides: list[str],
    folders: FolderOptions,
    reading: StudyOptions,
    gpus_per_stage: float | None,
    work: WorkOptions,
    *,
    nodes: int,
    cpus: int,
    gpus: int,
    time: str,
    partition: str | None,
) -> str:
    """The file, for a study and its overrides; the options are those of `headstart run`.

    cpus, gpus: of each node. time: as Slurm takes it.
    Raises: BadInput where the study, a time or the name of a partition is none, or a stage fits on no machine.
    """
    if not _TIME.fullmatch(time):
        raise BadInput(
            f"--time: {time!r} is not a time; give one as Slurm takes it: 90 (minutes), 04:00:00, 2-00:00:00"
        )
    if partition is not None and not _NAME.fullmatch(partition):
        raise BadInput(f"--partition: {partition!r} is not the name of a partition; see `sinfo`")
    needs = (("gpus-per-stage", gpus_per_stage or 0, gpus, "--gpus"), ("threads", work.threads, cpus, "--cpus"))
    for option, value, most, what in needs:
        if value > most:
            raise BadInput(
                f"--{option}: a stage takes {value:g}, and a machine has {most} ({what}); change one of them"
            )
    name = study_of(study, overrides, folders, reading, absent="open").spec.name
    directions = {
        "job-name": re.sub(r"[^\w-]+", "-", f"headstart-{name}", flags=re.ASCII),
        "nodes": nodes,
        "ntasks-per-node": 1,
        "cpus-per-task": cpus,
        **({"gpus-per-node": gpus} if gpus else {}),
        "time": time,
        **({"partition": partition} if partition else {}),
        "signal": "B:TERM@120",
    }
    directives = [f"#SBATCH --{option}={value}" for option, value in directions.items()] + ["#SBATCH --requeue"]
    words = [study, *overrides, *as_words(folders, reading)]
    words += [] if gpus_per_stage is None else ["--gpus-per-stage", str(gpus_per_stage)]
    way = ["--on", "ray", "--device", "cuda" if gpus else "cpu"]
    command = " ".join(map(_quoted, ["headstart", "run", *words, *as_words(work), *way]))
    return _FILE.format(directives="\n".join(directives), cpus=cpus, gpus=gpus, command=command)


def _quoted(word: str) -> str:
    """A word for bash; what a terminal would act on, or show as another character, stands in it as its bytes."""
    if word.isprintable():
        return shlex.quote(word)
    letters = (f"\\{c}" if c in "\\'" else c if c.isprintable() else _escapes(c) for c in word)
    return f"$'{''.join(letters)}'"


def _escapes(character: str) -> str:
    return "".join(f"\\x{byte:02x}" for byte in os.fsencode(character))
