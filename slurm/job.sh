# What the batch scripts of this folder share; they source it. The site is named by SITE (slurm/sites/SITE.env).
#
# From outside: RINGSHARD_ROOT (where the repository is; the scripts that source this find it), RINGSHARD_MPI (what
# srun --mpi= gets; pmix), RANKS_PER_NODE (by default one per GPU of a node), MAX_RESTARTS (after failures; 20),
# MAX_RESTARTS_WITHOUT_PROGRESS (after failures since the newest checkpoint; 3).

: "${RINGSHARD_ROOT:=$SLURM_SUBMIT_DIR}" "${SITE:=generic}" "${MAX_RESTARTS:=20}" "${MAX_RESTARTS_WITHOUT_PROGRESS:=3}"
export RINGSHARD_ROOT
trainer=$RINGSHARD_ROOT/trainer
load_modules() { :; }
say() { echo "$(date +%FT%T) job $SLURM_JOB_ID restart ${SLURM_RESTART_COUNT:-0}: $*" >&2; }

site=$RINGSHARD_ROOT/slurm/sites/$SITE.env
[ -r "$site" ] || { say "SITE = $SITE: there is no $site"; exit 66; }
# shellcheck source=/dev/null
. "$site" || exit
load_modules
[ -x "$trainer" ] || { say "there is no $trainer: build it, or name the repository by RINGSHARD_ROOT"; exit 66; }

# The whole node is ours (--exclusive): a rank for every GPU, and to each its share of the cores.
gpus=${SLURM_GPUS_ON_NODE:-0}
ranks_per_node=${RANKS_PER_NODE:-${SLURM_NTASKS_PER_NODE:-$((gpus > 0 ? gpus : 1))}}
# srun of 22.05 to 23.02 does not inherit --cpus-per-task from sbatch.
export SRUN_CPUS_PER_TASK=${SLURM_CPUS_PER_TASK:-$((SLURM_CPUS_ON_NODE > ranks_per_node ? SLURM_CPUS_ON_NODE / ranks_per_node : 1))}
export SLURM_GPUS_PER_NODE=${SLURM_GPUS_PER_NODE:-$gpus}
[ "$SLURM_GPUS_PER_NODE" != 0 ] || unset SLURM_GPUS_PER_NODE
# SLURM's PMIx lets nodes wait for each other in a ring or in a tree. Its tree does not wait where a job has fewer nodes than
# TreeWidth (seen with 22.05): ranks then send to others that are still inside MPI_Init, and those crash.
export SLURM_PMIX_FENCE=${SLURM_PMIX_FENCE:-ring}

# What scontrol calls this job alone: the last element of an array has the number of the whole array.
this_job=$SLURM_JOB_ID
[ -z "$SLURM_ARRAY_TASK_ID" ] || this_job=${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID

# A rank catches the signals itself and saves; the script must outlive it to decide what comes next.
was_ended=no
trap 'was_ended=yes' TERM

# Where the settings say that the run is written, with \" and \\ of JSON undone. Wrong settings end the job here, before any rank is
# started.
output_dir() {
    "$trainer" config --json "$@" |
        sed -n '/^  "output_dir"/,/}/{s/^ *"value": "\(.*\)",$/\1/;T;s/\\\(["\\]\)/\1/g;p}'
    return "${PIPESTATUS[0]}"
}

newest_checkpoint() { cat "$out/latest" 2>/dev/null; }

# A word that changes with every checkpoint: `latest` is written anew, also where a damaged one of the same step is replaced.
newest_save() { stat -c '%i-%.9Y' "$out/latest" 2>/dev/null || echo none; }

# Restarts of this job after failures, one line each in OUT/restarts: job, exit code, newest save, newest checkpoint.
restarts_after_failures() { grep -c "^$SLURM_JOB_ID " "$out/restarts" 2>/dev/null; }
restarts_since_newest_save() { grep -c "^$SLURM_JOB_ID [0-9]* $(newest_save)\( \|\$\)" "$out/restarts" 2>/dev/null; }

begin_attempt() {
    local reached
    out=$(output_dir "$@") || exit
    reached=$(newest_checkpoint)
    say "begins on $SLURM_JOB_NUM_NODES nodes with $ranks_per_node ranks each, in $out${reached:+, after $reached}"
}

# What follows from the trainer's exit code: docs/contract.md, section 6.
reaction_to() {
    case $1 in
        0) echo end ;;                         # done
        64 | 65 | 66 | 70 | 74 | 76 | 78) echo end ;;  # a restart would meet the same again
        79) echo end ;;                        # a newer attempt owns this run
        75) echo requeue ;;                    # stopped early, with a good checkpoint
        *) echo requeue-bounded ;;             # 77: a peer was lost; 137, 143, others: killed from outside
    esac
}

# "1-02:03:04" in seconds; nothing for UNLIMITED.
seconds() {
    local days=0 time=$1 h m s
    case $time in *[!0-9:-]* | '') return ;; esac
    case $time in *-*) days=${time%%-*} time=${time#*-} ;; esac
    IFS=: read -r h m s <<<"$time"
    echo $((((10#$days * 24 + 10#$h) * 60 + 10#$m) * 60 + 10#$s))
}

# A controller may be away for some minutes, to be restarted or because this node is cut off.
wait_for_controller() {
    local i
    for ((i = 0; i < 20; ++i)); do
        scontrol ping >/dev/null 2>&1 && return
        sleep 15
    done
}

# What the controller knows about this job, and one field of it.
job_record() { scontrol show job --oneliner "$this_job" 2>/dev/null; }
field() { sed -n "s/.* $1=\([^ ]*\).*/\1/p" <<<"$2"; }

# SLURM ends a job in the same way for scancel and at its time limit: the shell gets TERM, and while ranks are still
# ending the state is COMPLETING for both. What tells them apart is whether the time was up.
was_cancelled() {
    local job ran limit
    job=$(job_record)
    [ "$(field JobState "$job")" != CANCELLED ] || return 0
    [ $was_ended = yes ] || return 1
    ran=$(seconds "$(field RunTime "$job")")
    limit=$(seconds "$(field TimeLimit "$job")")
    [ -z "$limit" ] || [ "${ran:-0}" -lt "$limit" ]
}

# SLURM may have started the job again elsewhere, while this node was cut off: that one is not to be requeued.
has_newer_start() {
    local restarts
    restarts=$(field Restarts "$(job_record)")
    [ "${restarts:-0}" -gt "${SLURM_RESTART_COUNT:-0}" ]
}

# The time is up. Ranks that can save and leave do so. A hung one cannot, and KillWait after TERM everything is killed,
# this script too: what comes next must be settled before.
see_the_step_end() {
    local kill_wait i
    kill_wait=$(scontrol show config | sed -n 's/^KillWait *= *\([0-9]*\).*/\1/p')
    for ((i = ${kill_wait:-30} - 5; i > 0; --i)); do
        kill -0 "$1" 2>/dev/null || return
        sleep 1
    done
    say "the time is up, and ranks do not end"
    end_attempt 143
}

# The exit code of a step in the background.
wait_for() {
    # A trapped signal ends `wait` early.
    until wait "$1"; ! kill -0 "$1" 2>/dev/null; do
        was_cancelled || see_the_step_end "$1"
    done
    wait "$1"
}

# Ends the script with the trainer's code, after asking SLURM to run the job again where that is right.
end_attempt() {
    local code=$1 reaction reached restarts without_progress
    reaction=$(reaction_to "$code")
    reached=$(newest_checkpoint)
    restarts=$(restarts_after_failures)
    without_progress=$(restarts_since_newest_save)
    [ "$reaction" = end ] || wait_for_controller
    if [ "$reaction" = end ]; then
        say "ends with $code"
    elif was_cancelled; then
        say "was ended from outside (scancel, preemption, scontrol requeue), with $code"
    elif has_newer_start; then
        say "ended with $code; SLURM has started this job again meanwhile"
    elif [ "$code" = 75 ] && [ -e "$out/stopped" ]; then
        say "was asked to stop by stop-now; submit it again to go on"
    elif [ "$reaction" = requeue-bounded ] && [ "${without_progress:-0}" -ge "$MAX_RESTARTS_WITHOUT_PROGRESS" ]; then
        say "ended with $code, after $without_progress restarts without a new checkpoint (MAX_RESTARTS_WITHOUT_PROGRESS): not started again"
    elif [ "$reaction" = requeue-bounded ] && [ "${restarts:-0}" -ge "$MAX_RESTARTS" ]; then
        say "ended with $code after $restarts restarts (MAX_RESTARTS): not started again"
    else
        say "ended with $code${reached:+ after $reached}: requeued"
        [ "$code" = 75 ] || echo "$SLURM_JOB_ID $code $(newest_save) $reached" >>"$out/restarts"
        trap 'exit $code' TERM  # requeueing ends this script
        if scontrol requeue "$this_job"; then
            sleep 60 &
            wait $!
        fi
        say "SLURM did not requeue it; submit it again to go on"
    fi
    exit "$code"
}
