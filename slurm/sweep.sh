#!/bin/bash
# One element of a sweep: what `trainer sweep submit FILE` prints, sbatch --array=0-15%4 slurm/sweep.sh runs/NAME
# Element 3 runs what runs/NAME/3/settings.yaml says, in that folder, and goes on there whenever it is started again.
#SBATCH --job-name=ringshard-sweep
#SBATCH --nodes=1
#SBATCH --exclusive
#SBATCH --mem=0
#SBATCH --time=08:00:00
#SBATCH --output=%x-%A_%a.out
#SBATCH --open-mode=append
#SBATCH --requeue
#SBATCH --signal=USR1@300

run=$1/$SLURM_ARRAY_TASK_ID
settings=(--config "$run/settings.yaml")
[ -r "${settings[1]}" ] || { echo "there is no ${settings[1]}: trainer sweep submit FILE makes it" >&2; exit 66; }

# `trainer sweep status` reads how this element stands from two files: a sign of life, and how it ended.
rm -f "$run/exit-code"
while touch "$run/alive"; do sleep 10; done &
heartbeat=$!
# 79: another start owns the run, and says itself how it ends.
trap 'code=$?; kill $heartbeat; [ $code = 79 ] || echo $code >"$run/exit-code"' EXIT

# SLURM runs a copy of this script: the program is where sbatch found the script.
command=$(scontrol show job "$SLURM_JOB_ID" | sed -n '/ Command=/{s/^ *Command=//p;q}')
case $command in */slurm/sweep.sh*) : "${RINGSHARD_ROOT:=${command%%/slurm/sweep.sh*}}" ;; esac
export RINGSHARD_ROOT=${RINGSHARD_ROOT:-$SLURM_SUBMIT_DIR}
. "$RINGSHARD_ROOT/slurm/job.sh" || { echo "RINGSHARD_ROOT = $RINGSHARD_ROOT: set it to the folder with trainer and slurm" >&2; exit 66; }
begin_attempt "${settings[@]}"
srun --mpi="${RINGSHARD_MPI:-pmix}" --ntasks-per-node="$ranks_per_node" --distribution=block:block --wait=120 \
    "$trainer" "${settings[@]}" &
wait_for $!
end_attempt $?
