#!/bin/bash
# Trains on eight nodes: sbatch slurm/train_8node.sh --model_name_or_path MODEL --dataset_name DATA --output_dir OUT ...
# Everything after the script's name goes to the trainer. The job stops in time, saves, and comes back by itself.
# Another site: . slurm/sites/NAME.env before sbatch. Other resources: flags of sbatch before the script's name.
#SBATCH --job-name=ringshard
#SBATCH --nodes=8
#SBATCH --exclusive
#SBATCH --mem=0
#SBATCH --time=08:00:00
#SBATCH --output=%x-%j.out
#SBATCH --open-mode=append
#SBATCH --requeue
#SBATCH --signal=USR1@300

. "${RINGSHARD_ROOT:-$SLURM_SUBMIT_DIR}/slurm/job.sh" || exit 66
begin_attempt "$@"
srun --mpi="${RINGSHARD_MPI:-pmix}" --ntasks-per-node="$ranks_per_node" --distribution=block:block --wait=120 \
    "$trainer" "$@" &
wait_for $!
end_attempt $?
