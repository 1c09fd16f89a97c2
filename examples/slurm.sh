#!/bin/bash
# Trains on four workers of two nodes: sbatch examples/slurm.sh. Not run: no cluster was available.
#
# The workers find each other by Slurm's variables. A checkpoint is written when Slurm is about to
# end the job. After preemption or a lost node --requeue starts it again and --resume continues it;
# at the time limit, sbatch it again. The folders have to be the same on all nodes.
#SBATCH --job-name=fathom
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=2
#SBATCH --cpus-per-task=8
##SBATCH --gpus-per-task=1
#SBATCH --time=04:00:00
#SBATCH --signal=TERM@120
#SBATCH --requeue
#SBATCH --open-mode=append
set -euo pipefail

export FATHOM_DATA_DIR=${FATHOM_DATA_DIR:-$HOME/data}
FATHOM_LAUNCH_SECRET=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')
export FATHOM_LAUNCH_SECRET

srun --kill-on-bad-exit=1 python -m fathom run alexnet --train --strategy multi-worker \
    --threads "${SLURM_CPUS_PER_TASK:-1}" --epochs 90 \
    --checkpoint-dir "$HOME/alexnet" --resume \
    --json "alexnet-$SLURM_JOB_ID-${SLURM_RESTART_COUNT:-0}.json"
