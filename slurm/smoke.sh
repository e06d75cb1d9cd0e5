#!/bin/bash
# Is this cluster fit? Two nodes, a few minutes: sbatch slurm/smoke.sh [FOLDER]
# Checks the groups of ranks, then trains a very small model on the notes in configs/examples/tiny with everything cut, in
# a new folder beside the log (or in FOLDER, which must not exist). All nodes have to see it. It is removed if all is well.
#SBATCH --job-name=ringshard-smoke
#SBATCH --nodes=2
#SBATCH --exclusive
#SBATCH --mem=0
#SBATCH --time=00:10:00
#SBATCH --output=%x-%j.out
#SBATCH --open-mode=append
#SBATCH --no-requeue

# SLURM runs a copy of this script: the program is where sbatch found the script.
command=$(scontrol show job "$SLURM_JOB_ID" | sed -n '/ Command=/{s/^ *Command=//p;q}')
case $command in */slurm/smoke.sh*) : "${RINGSHARD_ROOT:=${command%%/slurm/smoke.sh*}}" ;; esac
export RINGSHARD_ROOT=${RINGSHARD_ROOT:-$SLURM_SUBMIT_DIR}
. "$RINGSHARD_ROOT/slurm/job.sh" || { echo "RINGSHARD_ROOT = $RINGSHARD_ROOT: set it to the folder with trainer and slurm" >&2; exit 66; }
on_all_ranks() {
    srun --mpi="${RINGSHARD_MPI:-pmix}" --ntasks-per-node="$ranks_per_node" --distribution=block:block "$@"
}
out=${1:-smoke-$SLURM_JOB_ID}
tiny=$RINGSHARD_ROOT/configs/examples/tiny
mkdir "$out" || exit 74
on_all_ranks "$trainer" doctor --profile zero3 &&
    "$trainer" init --config_json "$tiny/config.json" --output_dir "$out/model" &&
    on_all_ranks "$trainer" --profile zero3 --model_name_or_path "$out/model" --dataset_name "$tiny/notes.jsonl" \
        --per_device_train_batch_size 1 --max_steps 10 --logging_steps 1 --learning_rate 3e-3 --data_cache_dir "$out/data" \
        --output_dir "$out/run"
code=$?
if [ $code = 0 ]; then
    rm -r "$out"
    say "smoke: OK"
else
    say "smoke: failed with $code; what it wrote is in $out"
fi
exit $code
