#include "../option_group.hpp"
#include "ringshard/config/config.hpp"

namespace ringshard::config {

void add_data_options(OptionTable& table) {
    OptionGroup group(table, "Data", &Config::data);
    group.serve(
        "dataset_name", &DataSettings::dataset_name,
        "File, folder or glob (JSONL, JSON, Parquet, Arrow, CSV, TSV, text), or a hub name in the "
        "local HF cache.");
    group.serve("dataset_config", &DataSettings::dataset_config, "Configuration of a hub dataset.");
    group.serve("dataset_train_split", &DataSettings::dataset_train_split,
                "Split to train on; a slice, train[:10%], or a sum.");
    group.serve("dataset_test_split", &DataSettings::dataset_test_split,
                "Split to evaluate on; may be a slice, too.");
    group.serve("eval_dataset_name", &DataSettings::eval_dataset_name,
                "A dataset of its own to evaluate on; or several as a mapping, {\"easy\": "
                "\"easy.jsonl\", \"hard\": \"hard.jsonl\"}, with metrics eval_<name>_loss.");
    group.serve_json("datasets", &DataSettings::datasets,
                     "A mixture: list of {path, name, data_files, split, columns, column_map, "
                     "role_key, content_key, roles, row_template, template_variables, fraction, "
                     "weight, epochs}.");
    group
        .serve("mixture_stopping_strategy", &DataSettings::mixture_stopping_strategy,
               "A mixture with weights ends when its first dataset is used up, or when all are.")
        .shapes_loss_if_set();
    group
        .serve("mixture_temperature", &DataSettings::mixture_temperature,
               "Weights of a mixture's datasets: their sizes to the power 1 / temperature.")
        .shapes_loss_if_set()
        .above(0);
    group
        .serve("mixture_seed", &DataSettings::mixture_seed,
               "Shuffle each dataset of a mixture before a part of it is taken, and all of them "
               "together, with this seed, which also splits off test_split_size; null: in order.")
        .shapes_loss_if_set()
        .at_least(0);
    group.block("dataset_mixture",
                "A mixture as the YAML files of alignment-handbook and open-r1 have it: datasets "
                "with id, config, split, columns and weight, seed, test_split_size.",
                {}, {{"seed", "mixture_seed"}});
    // As older YAML files of alignment-handbook have them.
    group.accept("dataset_mixer", Shape::json, "null",
                 "its names become datasets, with the splits of dataset_splits");
    group.accept("dataset_splits", Shape::list, "null", "dataset_mixer takes it into account");
    group
        .serve("system_prompt", &DataSettings::system_prompt,
               "The system message of conversations that have none.")
        .shapes_loss_if_set();
    group.alias("system", "system_prompt");
    group.serve_json("column_map", &DataSettings::column_map,
                     "Columns by other names: {\"prompt\": \"instruction\"} takes instruction as "
                     "prompt.");
    group
        .serve("row_template", &DataSettings::row_template,
               "Make rows by Jinja from their columns: a mapping such as {\"prompt\": "
               "\"{{question}}\", \"completion\": \" {{answer}}\"}, one template that renders "
               "JSON, or a file with either.")
        .shapes_loss_if_set()
        .shape = Shape::json;
    group
        .serve_json("template_variables", &DataSettings::template_variables,
                    "Values for names in row_template, and for {{NAME}} in the data.",
                    KeyOrder::of_text)
        .shapes_loss_if_set();
    group.serve("role_key", &DataSettings::role_key,
                "Key of a message that has its role, such as from.");
    group.serve("content_key", &DataSettings::content_key,
                "Key of a message that has its text, such as value.");
    group.serve_json(
        "roles", &DataSettings::roles,
        "Roles by other names: {\"user\": \"human\", \"assistant\": [\"gpt\", \"model\"]}.");
    group.serve("sample_by", &DataSettings::sample_by,
                "Rows of .txt files: lines, or whole files.");
    group.serve(
        "text_only", &DataSettings::text_only,
        "Take the text of rows with images, audio or video, and count the parts left aside.");
    group
        .serve("test_split_size", &DataSettings::test_split_size,
               "Share of the data that is split off for evaluation; from 1 on: a number of rows.")
        .above(0)
        .at_most(1e15);
    group.serve("dataset_text_field", &DataSettings::dataset_text_field, "Column with plain text.");
    group
        .serve("max_length", &DataSettings::max_length,
               "Longest row in tokens, over all ranks that share it; null: no limit.")
        .shapes_loss()
        .at_least(1)
        .at_most(1 << 30);
    group
        .serve("min_length", &DataSettings::min_length,
               "Shortest document in tokens: shorter ones are dropped.")
        .shapes_loss_if_set()
        .at_least(0)
        .at_most(1 << 30);
    group
        .serve("dataset_exact_deduplication", &DataSettings::dataset_exact_deduplication,
               "Take one of several documents with the same tokens and labels: the first.")
        .shapes_loss_if_set();
    group
        .serve("truncation_mode", &DataSettings::truncation_mode,
               "Which end of a row that is too long is kept, or drop, which leaves such rows out.")
        .shapes_loss();
    group
        .serve("shuffle_dataset", &DataSettings::shuffle_dataset,
               "Shuffle once, with the seed, before packing.")
        .shapes_loss();
    group
        .serve("skip_prepare_dataset", &DataSettings::skip_prepare_dataset,
               "Take rows as they are: none is cut, packed or shuffled.")
        .shapes_loss_if_set();
    group
        .serve("packing", &DataSettings::packing,
               "Put several documents into one row of max_length tokens.")
        .shapes_loss();
    group
        .serve(
            "packing_strategy", &DataSettings::packing_strategy,
            "bfd cuts rows that are too long, bfd_split splits them into documents, wrapped cuts "
            "one stream.")
        .takes({"ffd"}, "bfd",
               "bfd, which took the place of ffd in TRL, packs the same documents into as few rows")
        .shapes_loss();
    group
        .serve("packing_scope", &DataSettings::packing_scope,
               "Pack every 1,000 rows by themselves, as TRL does, or the whole set at once.")
        .shapes_loss();
    group.serve("eval_packing", &DataSettings::eval_packing,
                "Packing of evaluation data; null: as packing.");
    group.serve("padding_free", &DataSettings::padding_free, "Flatten a batch into one row.")
        .shapes_loss();
    group.serve("pad_to_multiple_of", &DataSettings::pad_to_multiple_of,
                "Fill rows up to a multiple of this many tokens; auto: as the layout needs.");
    group
        .serve("completion_only_loss", &DataSettings::completion_only_loss,
               "Learn completions only; null: yes if the rows have prompt and completion.")
        .shapes_loss();
    group
        .serve("assistant_only_loss", &DataSettings::assistant_only_loss,
               "Learn the assistant's turns only.")
        .shapes_loss();
    group
        .serve("roles_to_train", &DataSettings::roles_to_train,
               "Learn the words of messages of these roles only, as axolotl does.")
        .shapes_loss_if_set();
    group
        .serve("train_on_last_turn_only", &DataSettings::train_on_last_turn_only,
               "Of the messages that would be learned, learn the last one only.")
        .shapes_loss_if_set();
    group
        .serve("mask_reasoning", &DataSettings::mask_reasoning,
               "Do not learn reasoning: true for <think> and </think>, or two other marks; empty: "
               "only "
               "reasoning without a word.")
        .shapes_loss_if_set();
    group
        .serve("loss_scale", &DataSettings::loss_scale,
               "What is learned of the assistant's messages, by ms-swift's rules joined with +: "
               "default, last_round or all, then ignore_empty_think, ignore_think_prefix, hermes, "
               "react, qwen or alpha_umi.")
        .shapes_loss_if_set();
    group
        .serve("agent_template", &DataSettings::agent_template,
               "Form in which tools, tool calls and their results become texts of messages, as "
               "ms-swift writes them, for a chat template that has no form for them: hermes or "
               "react_en.")
        .suggest({"hermes", "react_en"})
        .shapes_loss_if_set();
    group
        .serve("train_sampling_strategy", &DataSettings::train_sampling_strategy,
               "Order in which rows are visited.")
        .shapes_loss();
    group
        .serve("dataloader_drop_last", &DataSettings::dataloader_drop_last,
               "Leave out the last batch of an epoch if it is not full.")
        .shapes_loss();
    group
        .serve("skip_bad_rows", &DataSettings::skip_bad_rows,
               "Go on over up to this many rows that cannot be read, and list them.")
        .at_least(0);
    group.serve("strict_length", &DataSettings::strict_length,
                "Refuse documents longer than the model's max_position_embeddings, not only warn.");
    group
        .serve("inspect_rows", &DataSettings::inspect_rows,
               "For inspect --dataset_name: rows of each dataset to show before and after "
               "row_template.")
        .at_least(1);
    group.serve("data_cache_dir", &DataSettings::data_cache_dir,
                "Folder for prepared data that all nodes see; default: HF_HOME/ringshard.");
    group.block("dataset_kwargs", "Settings of the preparation as JSON.", "dataset_kwargs_");
    group.accept_all({{"dataset_kwargs_add_special_tokens", Shape::boolean},
                      {"dataset_kwargs_append_concat_token", Shape::boolean}},
                     "TRL reads it no longer: the chat template writes the special tokens of a "
                     "conversation, and packed rows are joined as they are");

    group.older("max_seq_length", "max_length");
    group.older("group_by_length", "train_sampling_strategy", Shape::boolean,
                {{"true", "group_by_length"}, {"false", ""}});

    const std::string prefetch = "the loader reads ahead on a thread of its own";
    group.accept("dataloader_num_workers", Shape::integer, "0", prefetch);
    group.accept("dataloader_persistent_workers", Shape::boolean, "false", prefetch);
    group.accept("dataloader_prefetch_factor", Shape::integer, "null", prefetch);
    group.accept("dataloader_multiprocessing_context", Shape::word, "null", prefetch);
    group.accept("dataloader_pin_memory", Shape::boolean, "true", prefetch);
    const std::string prepared = "all ranks prepare the data together and keep the result";
    group.accept("dataset_num_proc", Shape::integer, "null", prepared);
    group.accept("preprocessing_num_workers", Shape::integer, "null", prepared);
    group.replace("max_prompt_length", Shape::integer, "null",
                  "TRL has it no more: max_length cuts a prompt with its answer");
    for (const char* const name : {"dataset_streaming", "streaming"})
        group.alias(name, "train_sampling_strategy", Shape::boolean,
                    {{"true", "sequential"}, {"false", ""}},
                    "true visits the rows in their order, as TRL does those of a stream; the data "
                    "are prepared whole all the same");
    const std::string columns =
        "columns are recognised by their names; others are counted and named";
    group.accept("remove_unused_columns", Shape::boolean, "true", columns);
    group.accept("label_names", Shape::list, "null", columns);
    group.accept("length_column_name", Shape::word, "length", columns);

    const std::string order = "the order of rows is TRL's and the same at every number of ranks";
    group.accept("dispatch_batches", Shape::boolean, "null", order);
    group.accept("use_seedable_sampler", Shape::boolean, "true", order);
    group.accept("non_blocking", Shape::boolean, "false", order);
    group.accept("use_configured_state", Shape::boolean, "false", order);
    group.accept("data_loader_config", Shape::word, "null", order);
    group.accept("dataloader_in_order", Shape::boolean, "true",
                 "rows come in the order of the sampler, which false permits too");
    group.refuse("split_batches", Shape::boolean, "false",
                 "the batch size is per data rank: divide it by hand");
    group.refuse(
        "even_batches", Shape::boolean, "true",
        "every data rank takes part in every step; use dataloader_drop_last to leave out the tail");
    group.block("gradient_accumulation_kwargs", "Accelerate's settings of accumulation as JSON.",
                "gradient_accumulation_", {{"num_steps", "gradient_accumulation_steps"}});
    group.accept_all({{"gradient_accumulation_sync_each_batch", Shape::boolean},
                      {"gradient_accumulation_sync_with_dataloader", Shape::boolean}},
                     "gradients of a step are summed over its micro-batches, and an epoch's last "
                     "step has fewer of them");
    group.block("accelerator_config", "Accelerate's loader settings as JSON.");
}

}  // namespace ringshard::config
