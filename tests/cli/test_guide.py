"""Command lines and Accelerate files as TRL's guides to distributed training print them: they are
taken once `trl sft` or `accelerate launch ... sft.py` has become `trainer`."""

import json
import os
import tempfile
import unittest

from trainer import TrainerTest, run

USUAL_KEYS = """\
compute_environment: LOCAL_MACHINE
debug: false
downcast_bf16: 'no'
enable_cpu_affinity: false
machine_rank: 0
main_training_function: main
mixed_precision: bf16
num_machines: 1
rdzv_backend: static
same_network: true
tpu_env: []
tpu_use_cluster: false
tpu_use_sudo: false
use_cpu: false
"""

FILES = {
    "context_parallel_2gpu.yaml": USUAL_KEYS + """\
distributed_type: FSDP
fsdp_config:
  fsdp_activation_checkpointing: true
  fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP
  fsdp_cpu_ram_efficient_loading: true
  fsdp_offload_params: false
  fsdp_reshard_after_forward: true
  fsdp_state_dict_type: FULL_STATE_DICT
  fsdp_version: 2
num_processes: 2
parallelism_config:
  parallelism_config_dp_replicate_size: 1
  parallelism_config_dp_shard_size: 1
  parallelism_config_tp_size: 1
  parallelism_config_cp_size: 2
""",
    "alst_ulysses_4gpu.yaml": """\
compute_environment: LOCAL_MACHINE
distributed_type: DEEPSPEED
mixed_precision: bf16
num_machines: 1
num_processes: 4
deepspeed_config:
  zero_stage: 3
  seq_parallel_communication_data_type: bf16
parallelism_config:
  parallelism_config_dp_replicate_size: 1
  parallelism_config_dp_shard_size: 2
  parallelism_config_tp_size: 1
  parallelism_config_sp_size: 2
  parallelism_config_sp_backend: deepspeed
  parallelism_config_sp_seq_length_is_variable: true
  parallelism_config_sp_attn_implementation: flash_attention_2
""",
    "multi_node.yaml": """\
compute_environment: LOCAL_MACHINE
distributed_type: MULTI_GPU
num_machines: 2
machine_rank: 0          # 0 for main node, 1 for second node
main_process_ip: 10.0.0.1
main_process_port: 29500
num_processes: 16
mixed_precision: bf16
use_cpu: false
same_network: true
""",
    "path/to/my/deepspeed_config.yaml": """\
compute_environment: LOCAL_MACHINE
distributed_type: DEEPSPEED
deepspeed_config:
  gradient_accumulation_steps: auto
  gradient_clipping: auto
  offload_optimizer_device: cpu
  zero_stage: 2
num_processes: 8
""",
}

ON_IMDB = "--model_name_or_path Qwen/Qwen2.5-0.5B --dataset_name stanfordnlp/imdb"
# The command line, and some of what it must come to.
COMMANDS = [
    ("", {"mixed_precision": "bf16"}),
    ("--config_file examples/accelerate_configs/multi_gpu.yaml", {"distributed_type": "multi_gpu"}),
    (ON_IMDB + " --accelerate_config zero1", {"zero_stage": 1}),
    (ON_IMDB + " --accelerate_config zero2", {"zero_stage": 2}),
    (ON_IMDB + " --accelerate_config zero3", {"zero_stage": 3, "model_name_or_path": "Qwen/Qwen2.5-0.5B"}),
    (ON_IMDB + " --accelerate_config path/to/my/deepspeed_config.yaml",
     {"zero_stage": 2, "offload_optimizer_device": "cpu", "gradient_accumulation_steps": 1}),
    (ON_IMDB + " --accelerate_config fsdp1", {"fsdp_version": 1, "fsdp_sharding_strategy": "full_shard"}),
    (ON_IMDB + " --accelerate_config fsdp2", {"fsdp_version": 2, "fsdp_reshard_after_forward": True}),
    ("--config_file context_parallel_2gpu.yaml", {"cp_size": 2, "gradient_checkpointing": True}),
    ("--config_file context_parallel_2gpu.yaml --pad_to_multiple_of 4 --max_length 16384 --packing True "
     "--use_liger_kernel True --gradient_checkpointing False --per_device_train_batch_size 1",
     {"cp_size": 2, "gradient_checkpointing": False, "max_length": 16384, "packing": True, "pad_to_multiple_of": "4"}),
    ("--config_file alst_ulysses_4gpu.yaml --pad_to_multiple_of 2 --max_seq_length 4096 --packing True "
     "--attn_implementation flash_attention_2 --per_device_train_batch_size 1",
     {"sp_size": 2, "dp_shard_size": 2, "max_length": 4096, "seq_parallel_communication_data_type": "bf16"}),
    ("--config_file examples/accelerate_configs/alst_ulysses_4gpu.yaml --model_name_or_path Qwen/Qwen2-0.5B "
     "--dataset_name trl-lib/Capybara --learning_rate 2e-4 --max_steps 100 --max_seq_length 4096 --packing "
     "--torch_dtype bfloat16 --attn_implementation flash_attention_2 --output_dir output-alst-4gpu",
     {"sp_size": 2, "learning_rate": 2e-4, "max_steps": 100, "packing": True, "output_dir": "output-alst-4gpu"}),
    ("--config_file multi_node.yaml --machine_rank 0", {"distributed_type": "multi_gpu", "num_processes": 16}),
    ("--config_file multi_node.yaml --machine_rank 1", {"distributed_type": "multi_gpu"}),
]


class Guide(TrainerTest):
    def test_every_printed_command_is_taken(self):
        with tempfile.TemporaryDirectory() as folder:
            for name, content in FILES.items():
                path = os.path.join(folder, name)
                os.makedirs(os.path.dirname(path), exist_ok=True)
                with open(path, "w") as file:
                    file.write(content)
            for command, expected in COMMANDS:
                with self.subTest(command):
                    result = run("config", "--json", *command.split(), cwd=folder)
                    self.expect(result, 0)
                    settings = json.loads(result.stdout)
                    for name, value in expected.items():
                        self.assertEqual(settings[name]["value"], value, name)


if __name__ == "__main__":
    unittest.main()
