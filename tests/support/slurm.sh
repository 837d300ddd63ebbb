#!/bin/bash
#SBATCH --job-name=headstart-few-labels
#SBATCH --nodes=3
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=16
#SBATCH --gpus-per-node=4
#SBATCH --time=2-00:00:00
#SBATCH --partition=long,gpu
#SBATCH --signal=B:TERM@120
#SBATCH --requeue

# Ray turns away whoever does not know this job's token. It crosses the network in the clear: where others can listen to
# the traffic between nodes, they can run code as you.
# At its time limit, or when it is preempted, the run saves; submitted again, this file goes on from there.
set -euo pipefail
export PYTHONSAFEPATH=1  # no file of this folder stands in for a module of Python

RAY_AUTH_TOKEN=$(od -An -N32 -tx1 /dev/urandom | tr -d ' \n')
export RAY_AUTH_MODE=token RAY_AUTH_TOKEN

mapfile -t nodes < <(scontrol show hostnames "$SLURM_JOB_NODELIST")
address=$(getent ahostsv4 "${nodes[0]}" | awk '{ print $1; exit }'):$((20000 + SLURM_JOB_ID % 10000))
resources=(--num-cpus=16 --num-gpus=4 --disable-usage-stats)

trap 'kill $(jobs -p) 2> /dev/null || true' EXIT
srun --nodes=1 --ntasks=1 --nodelist="${nodes[0]}" \
  ray start --head --node-ip-address="${address%:*}" --port="${address#*:}" --include-dashboard=false \
  "${resources[@]}" --block &
until ray status --address "$address" > /dev/null 2>&1; do sleep 2; done
for node in "${nodes[@]:1}"; do
  srun --nodes=1 --ntasks=1 --nodelist="$node" ray start --address="$address" "${resources[@]}" --block &
done

RAY_ADDRESS="$address" headstart run few-labels 'seed=[0, 1]' --store 'my runs' --gpus-per-stage 0.25 --threads 1 --on ray --device cuda &
run=$!
trap 'kill -TERM "$run"' TERM
code=0
wait "$run" || code=$?
# A signal ends `wait` before the run has saved.
while kill -0 "$run" 2> /dev/null; do sleep 1; done
exit "$code"
