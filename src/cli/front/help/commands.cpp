#include "commands.hpp"

#include <algorithm>

namespace ringshard::cli {

namespace {

// Commands that prepare rows and train on them.

Command train() {
    return {"train",
            "train a model (the default command)",
            {"[train] --setting value ..."},
            "Trains on all ranks that srun or mpirun starts. The same command again goes on from "
            "the newest checkpoint, on any number of ranks. Also called sft.",
            TakesSettings::yes,
            {},
            {"model_name_or_path", "dataset_name", "output_dir", "profile", "cp_size", "sp_size",
             "max_length", "packing", "learning_rate", "config"}};
}

Command dpo() {
    return {"dpo",
            "train on pairs of a chosen and a rejected answer",
            {"dpo --setting value ..."},
            "Direct preference optimisation: train with method dpo. The rows have a prompt, chosen "
            "and rejected; the reference is the model at the start of the run.",
            TakesSettings::yes,
            {},
            {"model_name_or_path", "dataset_name", "output_dir", "loss_type", "beta", "max_length"},
            {},
            "dpo"};
}

Command cpo() {
    return {"cpo",
            "train on such pairs without a reference",
            {"cpo --setting value ..."},
            "Contrastive preference optimisation: train with method cpo; SimPO and AlphaPO are "
            "losses of it. The rows have a prompt, chosen and rejected.",
            TakesSettings::yes,
            {},
            {"model_name_or_path", "dataset_name", "output_dir", "loss_type", "beta", "cpo_alpha",
             "max_length"},
            {},
            "cpo"};
}

Command kto() {
    return {"kto",
            "train on single answers that are good or bad",
            {"kto --setting value ..."},
            "Kahneman-Tversky optimisation: train with method kto. The rows have a prompt, a "
            "completion and label, true or false; the reference is the model at the start of the "
            "run.",
            TakesSettings::yes,
            {},
            {"model_name_or_path", "dataset_name", "output_dir", "loss_type", "beta",
             "desirable_weight", "max_length"},
            {},
            "kto"};
}

Command reward() {
    return {"reward",
            "train a model of rewards on such pairs",
            {"reward --setting value ..."},
            "Train with method reward: a head of one score takes the place of that of the "
            "vocabulary, as in transformers' ...ForSequenceClassification. The rows have chosen "
            "and rejected, and may have a prompt.",
            TakesSettings::yes,
            {},
            {"model_name_or_path", "dataset_name", "output_dir", "center_rewards_coefficient",
             "max_length"},
            {},
            "reward"};
}

Command classify() {
    return {"classify",
            "train on labels of documents",
            {"classify --num_labels N --setting value ..."},
            "Train with method classification: a head of a score for each label takes the place "
            "of that of the vocabulary, as in transformers' ...ForSequenceClassification. The "
            "rows have text or messages, and label.",
            TakesSettings::yes,
            {},
            {"model_name_or_path", "dataset_name", "output_dir", "num_labels", "class_names",
             "problem_type", "max_length"},
            {},
            "classification"};
}

Command embed() {
    return {"embed",
            "train embeddings on texts that belong together",
            {"embed --setting value ..."},
            "Train with method embedding: the text anchor of a row is to be nearer to its positive "
            "than to the positive and negative texts of all rows of a step, as in "
            "sentence-transformers' MultipleNegativesRankingLoss.",
            TakesSettings::yes,
            {},
            {"model_name_or_path", "dataset_name", "output_dir", "pooling", "max_length",
             "per_device_train_batch_size"},
            {},
            "embedding"};
}

Command fork() {
    return {"fork",
            "begin a run from a checkpoint of another one",
            {"fork RUN [--step N] --output_dir FOLDER --setting value ..."},
            "The new run has the settings of RUN but for those that the command line names, and "
            "copies nothing. The same command again goes on from its own newest checkpoint.",
            TakesSettings::yes,
            {{"--step", "N", "The step of the checkpoint; else the newest."}},
            {"output_dir", "learning_rate", "max_steps", "num_train_epochs", "dataset_name"}};
}

Command prepare() {
    return {
        "prepare",
        "make the rows of training ahead of the job",
        {"prepare --model_name_or_path MODEL --dataset_name DATA ..."},
        "Tokenizes and packs on any number of ranks, into data_cache_dir, where training finds it.",
        TakesSettings::yes,
        {},
        {"model_name_or_path", "dataset_name", "dataset_config", "dataset_train_split",
         "max_length", "packing", "packing_strategy", "data_cache_dir"}};
}

Command plan() {
    return {"plan",
            "the memory and time of a step, before the job",
            {"plan --world RANKS [--gpu DEVICE] --setting value ..."},
            "Goes through a step of training on sizes alone, without GPUs.",
            TakesSettings::yes,
            {{"--world", "RANKS", "How many ranks the job will have."},
             {"--nodes", "N", "On how many hosts; else eight ranks to a host."},
             {"--gpu", "DEVICE", "A device, or a file of doctor --measure."},
             {"--interconnect", "LINK+NETWORK", "The links between ranks: nvlink+ib400."},
             {"--documents", "N", "Documents that share a row; else one."},
             {"--longest", "", "Find the longest row that fits."},
             {"--suggest", "", "Compare layouts, the best first."},
             {"--curves", "FOLDER", "The same on more ranks, for plot --plan."},
             {"--parts", "", "The time of a step, kernel by kernel."},
             {"--show_device", "", "Prints the figures of the device."},
             {"--json", "", "For machines."}},
            {"model_name_or_path", "profile", "max_length"}};
}

Command prove() {
    return {"prove",
            "compare the mesh of a job with one rank, on a small model",
            {"prove --setting value ..."},
            "Run it with the ranks and the settings of the job. It compares loss, every gradient "
            "and what documents see of each other, before a step and after three, and writes "
            "proof.json into output_dir; 76 if they differ.",
            TakesSettings::yes,
            {},
            {"model_name_or_path", "profile", "cp_size", "sp_size", "ep_size", "output_dir"}};
}

Command tokenize() {
    return {"tokenize",
            "lines of JSON: text or messages in, token ids and masks out",
            {"tokenize --model_name_or_path MODEL [--dataset_name FILE] < LINES"},
            "Shows what tokenizer and chat template make of a conversation.",
            TakesSettings::yes,
            {},
            {"model_name_or_path", "dataset_name", "chat_template_path"}};
}

Command doctor() {
    return {"doctor",
            "check the machine, MPI, the GPUs and the network of a job",
            {"doctor --setting value ..."},
            "Run it with the ranks and the settings of the job.",
            TakesSettings::yes,
            {},
            {"profile", "cp_size", "sp_size", "device", "measure"}};
}

// Commands that read the results of a run.

Command inspect() {
    return {
        "inspect",
        "look into prepared rows, a checkpoint, a run or a model",
        {"inspect PATH [--rows N] [--first N] [--full] [--json]",
         "inspect RUN --step N [--rows N] [--json]",
         "inspect --dataset_name DATA [--row_template TEMPLATE] [--rows N]"},
        "With a dataset it shows rows before and after column_map and row_template. "
        "Checkpoints are looked through to the last byte; 65 if none of a run is good. Of a step "
        "of a run with document_log it shows the documents, with loss, share of the gradient "
        "and row of the dataset.",
        TakesSettings::no,
        {{"--step", "N", "The documents of this step of a run."},
         {"--rows", "N", "How many rows."},
         {"--first", "N", "The first one."},
         {"--full", "", "All ids and labels of a row."},
         {"--json", "", "For machines; everything."},
         {"--model_name_or_path", "FOLDER",
          "Show rows with this tokenizer; else with the one they were made with."}}};
}

Command export_model() {
    return {"export",
            "make the Hugging Face folder of a checkpoint",
            {"export CHECKPOINT --output_dir FOLDER [--dtype float32|bfloat16]"},
            "On any number of ranks. CHECKPOINT may be a run: then its newest good one is taken.",
            TakesSettings::yes,
            {},
            {"output_dir", "dtype", "max_shard_size"}};
}

Command verify() {
    return {
        "verify",
        "compare an exported model with what it computed before",
        {"verify FOLDER", "verify FOLDER --url http://HOST:PORT [--tolerance X]"},
        "Reads the folder as transformers would, and compares tokens, renderings and "
        "log-probabilities with its verify.json: names what differs, and whether rounding, "
        "tokenizer, chat template or weights explain it; 65 if it is more than rounding. With "
        "--url it compares a server of vLLM, SGLang or llama.cpp in place of the folder.",
        TakesSettings::yes,
        {{"--url", "URL", "The server; plain http."},
         {"--tolerance", "X", "The largest difference that is a server's rounding; else 0.25."}},
        {"model_name_or_path"}};
}

Command score() {
    return {"score",
            "write the log-probability of every token of a dataset",
            {"score --model_name_or_path MODEL --dataset_name DATA --output_dir OUT"},
            "Scores rows whole and in their order, on any number of ranks and in any layout, into "
            "one Parquet file for each data rank. MODEL may be a checkpoint.",
            TakesSettings::yes,
            {},
            {"model_name_or_path", "dataset_name", "output_dir", "top_k",
             "per_device_eval_batch_size", "profile", "cp_size", "sp_size"}};
}

Command plot() {
    return {"plot",
            "curves of runs as a picture, or their numbers as a table",
            {"plot RUN... --output FILE.svg|FILE.csv|FILE.json [--log]",
             "plot --plan FILE... --output FILE.svg"},
            "RUN is the output_dir of a run, or its metrics.jsonl.",
            TakesSettings::no,
            {{"--output", "FILE", "The file to write; its ending says what it will be."},
             {"-o", "FILE", "The same."},
             {"--log", "", "Draw the loss on a logarithmic scale."},
             {"--plan", "", "The files are those that plan --curves wrote."}}};
}

Command report() {
    return {"report",
            "a page for the browser: curves, times, memory, settings, events",
            {"report RUN... --output FILE.html"},
            "RUN is the output_dir of a run, or its metrics.jsonl. Several runs are compared. The "
            "page needs no network and nothing beside it.",
            TakesSettings::no,
            {{"--output", "FILE", "The file to write; it must end in .html."},
             {"-o", "FILE", "The same."},
             {"--log", "", "Draw the loss on a logarithmic scale."},
             {"--verify_checkpoint",
              "full|sizes",
              "Look through every byte of the checkpoints, or at their files' sizes alone (sizes).",
              {"full", "sizes"}}}};
}

Command sweep() {
    return {"sweep",
            "many runs as one job array: submit them, see how they stand",
            {"sweep expand FILE [--index N]",
             "sweep submit FILE [--at_a_time N] [--run] [-- flags of sbatch]",
             "sweep status FOLDER", "sweep best FOLDER --metric NAME [--greater_is_better]"},
            "FILE lists the settings that differ; FOLDER is runs/<sweep>.",
            TakesSettings::no,
            {{"--index", "N", "Settings of this run alone."},
             {"--at_a_time", "N", "So many runs at once."},
             {"--run", "", "Hand the job to sbatch; else show the command."},
             {"--metric", "NAME", "The metric to compare: eval_loss."},
             {"--greater_is_better", "", "Else the least value is the best."},
             {"--runs", "FOLDER", "Where runs lie, in place of runs."},
             {"--json", "", "For machines; not for submit."}},
            {},
            {"expand", "submit", "status", "best"}};
}

// Commands that create files, and those about the program.

Command init() {
    return {"init",
            "make a model with random weights",
            {"init --config_json FILE --output_dir FOLDER"},
            "For tests, and for training from the beginning.",
            TakesSettings::yes,
            {},
            {"config_json", "output_dir", "seed"}};
}

Command config() {
    return {"config",
            "show the resolved settings and where each of them comes from",
            {"config --setting value ...", "config --from FILE", "config --from_shell FILE"},
            "The output can be given to --config. --from reads a recipe of axolotl, LLaMA-Factory, "
            "ms-swift or NeMo Automodel and prints the settings that it becomes.",
            TakesSettings::yes,
            {{"--json", "", "For machines."}},
            {"config", "profile"}};
}

Command configure() {
    return {"configure",
            "ask a few questions and write a file of settings",
            {"configure [FILE]"},
            "FILE is run.yaml where none is named."};
}

Command version() { return {"version", "show versions", {"version"}, "Of this program."}; }

Command help() {
    return {
        "help",
        "the same as --help",
        {"help [COMMAND|GROUP|SETTING|all]", "help man|bash-completion|markdown"},
        "The second form writes the manual page, the completion for bash, and docs/settings.md, "
        "all from the table of settings."};
}

}  // namespace

const std::vector<Command>& commands() {
    static const std::vector<Command> all{
        train(),     dpo(),     cpo(),     kto(),    reward(),   classify(), embed(),
        fork(),      prepare(), plan(),    prove(),  tokenize(), inspect(),  export_model(),
        verify(),    score(),   plot(),    report(), sweep(),    init(),     config(),
        configure(), doctor(),  version(), help()};
    return all;
}

const Command* find_command(const std::string& name) {
    const auto found = std::ranges::find(commands(), name, &Command::name);
    return found == commands().end() ? nullptr : &*found;
}

}  // namespace ringshard::cli
