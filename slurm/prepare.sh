#!/bin/bash
# Tokenizes and packs ahead of the job, where there are no GPUs:
#   sbatch --partition CPU_PARTITION slurm/prepare.sh --model_name_or_path MODEL --dataset_name DATA --packing ...
# Everything after the script's name goes to `trainer prepare`. The training then finds the rows in the cache.
#SBATCH --job-name=ringshard-prepare
#SBATCH --nodes=1
#SBATCH --exclusive
#SBATCH --mem=0
#SBATCH --time=02:00:00
#SBATCH --output=%x-%j.out
#SBATCH --open-mode=append
#SBATCH --requeue

# SLURM runs a copy of this script: the program is where sbatch found the script.
command=$(scontrol show job "$SLURM_JOB_ID" | sed -n '/ Command=/{s/^ *Command=//p;q}')
case $command in */slurm/prepare.sh*) : "${RINGSHARD_ROOT:=${command%%/slurm/prepare.sh*}}" ;; esac
export RINGSHARD_ROOT=${RINGSHARD_ROOT:-$SLURM_SUBMIT_DIR}
. "$RINGSHARD_ROOT/slurm/job.sh" || { echo "RINGSHARD_ROOT = $RINGSHARD_ROOT: set it to the folder with trainer and slurm" >&2; exit 66; }
srun --mpi="${RINGSHARD_MPI:-pmix}" --ntasks-per-node="${RANKS_PER_NODE:-1}" "$trainer" prepare "$@"
