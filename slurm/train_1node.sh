#!/bin/bash
# Trains on one node: sbatch slurm/train_1node.sh --model_name_or_path MODEL --dataset_name DATA --output_dir OUT ...
# Everything after the script's name goes to the trainer. The job stops in time, saves, and comes back by itself.
# Another site: . slurm/sites/NAME.env before sbatch. Other resources: flags of sbatch before the script's name.
#SBATCH --job-name=ringshard
#SBATCH --nodes=1
#SBATCH --exclusive
#SBATCH --mem=0
#SBATCH --time=08:00:00
#SBATCH --output=%x-%j.out
#SBATCH --open-mode=append
#SBATCH --requeue
#SBATCH --signal=USR1@300

# SLURM runs a copy of this script: the program is where sbatch found the script.
command=$(scontrol show job "$SLURM_JOB_ID" | sed -n '/ Command=/{s/^ *Command=//p;q}')
case $command in */slurm/train_1node.sh*) : "${RINGSHARD_ROOT:=${command%%/slurm/train_1node.sh*}}" ;; esac
export RINGSHARD_ROOT=${RINGSHARD_ROOT:-$SLURM_SUBMIT_DIR}
. "$RINGSHARD_ROOT/slurm/job.sh" || { echo "RINGSHARD_ROOT = $RINGSHARD_ROOT: set it to the folder with trainer and slurm" >&2; exit 66; }
begin_attempt "$@"
srun --mpi="${RINGSHARD_MPI:-pmix}" --ntasks-per-node="$ranks_per_node" --distribution=block:block --wait=120 \
    "$trainer" "$@" &
wait_for $!
end_attempt $?
