#include "../option_group.hpp"
#include "ringshard/config/config.hpp"

namespace ringshard::config {

void add_checkpoint_options(OptionTable& table) {
    OptionGroup group(table, "Checkpoints", &Config::checkpoint);
    group.serve("save_strategy", &CheckpointSettings::save_strategy,
                "Events at which checkpoints are written.");
    group
        .serve("save_steps", &CheckpointSettings::save_steps,
               "Steps between checkpoints; below 1: a share of all steps.")
        .above(0)
        .at_most(1e15);
    group
        .serve("save_total_limit", &CheckpointSettings::save_total_limit,
               "Number of checkpoints to keep; the oldest are removed first.")
        .at_least(1);
    group.serve("save_only_model", &CheckpointSettings::save_only_model,
                "Leave out optimizer state, which a resumed run needs. A save for a signal or a "
                "time limit has it.");
    group.serve("save_model_in_checkpoints", &CheckpointSettings::save_model_in_checkpoints,
                "Write the weights of each checkpoint as safetensors too, of type dtype, so that "
                "transformers and vLLM open its folder.");
    group
        .serve(
            "max_failed_saves", &CheckpointSettings::max_failed_saves,
            "Number of failed saves in a row that ends the run; before that, training continues.")
        .at_least(1);
    group.serve("hdf5_io", &CheckpointSettings::hdf5_io,
                "Writes of tensors into a checkpoint: direct, past HDF5, or mpio, HDF5's own "
                "collective writes through MPI-IO.");
    group.serve("hdf5_hint", &CheckpointSettings::hdf5_hint,
                "key=value: hints to MPI-IO, such as striping_factor=8; with hdf5_io mpio.");
    group.serve("resume_from_checkpoint", &CheckpointSettings::resume_from_checkpoint,
                "auto: go on where output_dir stands; true: it must hold a run; never; or a path.");
    group.serve("verify_checkpoint", &CheckpointSettings::verify_checkpoint,
                "Verification of a checkpoint before a run resumes: full checks the hash of every "
                "byte, sizes only files and their sizes.");
    group.serve(
        "allow_changed", &CheckpointSettings::allow_changed,
        "Resume although settings on which losses depend differ from those of the checkpoint.");
    group.serve("take_over", &CheckpointSettings::take_over,
                "Go on in the place of another job that is at work in output_dir, with the same "
                "settings: it ends with 79. By default such a start is refused.");

    group.accept(
        "enable_jit_checkpoint", Shape::boolean, "false",
        "SIGTERM, SIGINT and SIGUSR1 always save at the end of the step, and the job ends");
    group.accept("save_on_each_node", Shape::boolean, "false",
                 "a checkpoint is one folder on a shared file system");
    group.accept("ignore_data_skip", Shape::boolean, "false",
                 "the place in the data is found without reading up to it");
    group.accept("restore_callback_states_from_checkpoint", Shape::boolean, "false",
                 "all state is restored");
    group.accept("overwrite_output_dir", Shape::boolean, "false",
                 "resume_from_checkpoint never begins anew in the folder of a run");
    group.refuse("save_safetensors", Shape::boolean, "true", "models are written as safetensors");
    group.serve("push_to_hub", &CheckpointSettings::push_to_hub,
                "Print the command that uploads output_dir to the Hugging Face hub when the run "
                "is complete; the program itself sends nothing.");
    group.serve("hub_model_id", &CheckpointSettings::hub_model_id,
                "Repository of the model on the hub, as user/name, for the model card and for the "
                "command of push_to_hub; null: the name of output_dir.");
    group.serve("hub_revision", &CheckpointSettings::hub_revision,
                "Branch of the repository, for the command of push_to_hub.");
    group.alias("hub_model_revision", "hub_revision");
    group.serve("hub_private_repo", &CheckpointSettings::hub_private_repo,
                "The command of push_to_hub makes a new repository private.");
    group.accept_all({{"hub_strategy", Shape::word}, {"hub_always_push", Shape::boolean}},
                     "output_dir is uploaded once, when the run is complete");
    group.accept("hub_token", Shape::word, "null", "`hf auth login` holds the token");
}

}  // namespace ringshard::config
