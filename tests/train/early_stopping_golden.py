"""Writes early_stopping.json: evaluations, and what transformers' own EarlyStoppingCallback counts after each.

    python early_stopping_golden.py > tests/train/early_stopping.json

A case ends where the callback stops the run. `resumed_after`: the callback and the state are written and read again there, as
transformers does with restore_callback_states_from_checkpoint.
"""
import json
import types

from transformers import EarlyStoppingCallback, Trainer, TrainerControl, TrainerState
from transformers.trainer_utils import IntervalStrategy, SaveStrategy

NAN = float("nan")
CASES = [
    ("patience_1", 1, 0.0, "loss", None, [3.0, 2.0, 2.5, 1.0], None),
    ("patience_3_with_a_recovery", 3, 0.0, "eval_loss", None, [3.0, 3.1, 3.2, 2.9, 3.0, 3.0, 2.95, 1.0], None),
    ("equal_is_no_improvement", 2, 0.0, "loss", None, [2.0, 2.0, 2.0, 1.0], None),
    ("threshold", 2, 0.1, "loss", None, [2.0, 1.95, 1.8, 1.75, 1.72, 1.0], None),
    ("slow_gains_below_the_threshold", 3, 0.5, "loss", None, [2.0, 1.8, 1.6, 1.4, 1.2, 1.0], None),
    ("greater_is_better", 2, 0.01, "mean_token_accuracy", True, [0.5, 0.505, 0.6, 0.59, 0.608, 0.9], None),
    ("numbers_that_are_none", 3, 0.0, "loss", None, [NAN, NAN, 2.0, NAN, 2.5, NAN, 1.0], None),
    ("resumed", 3, 0.0, "loss", None, [2.0, 2.1, 2.2, 2.3, 1.0], 2),
]


def drive(name, patience, threshold, metric, greater, values, resumed_after):
    greater = greater if greater is not None else not metric.endswith("loss")
    args = types.SimpleNamespace(metric_for_best_model=metric, greater_is_better=greater, load_best_model_at_end=True,
                                 eval_strategy=IntervalStrategy.STEPS, save_strategy=SaveStrategy.STEPS)
    callback = EarlyStoppingCallback(patience, threshold)
    trainer = types.SimpleNamespace(args=args, state=TrainerState())
    counters, stops_after = [], None
    for number, value in enumerate(values):
        trainer.state.global_step = number + 1
        control = TrainerControl()
        metrics = {metric if metric.startswith("eval_") else f"eval_{metric}": value}
        callback.on_evaluate(args, trainer.state, control, metrics)
        Trainer._determine_best_metric(trainer, metrics, None)
        counters.append(callback.early_stopping_patience_counter)
        if control.should_training_stop:
            stops_after = number + 1
            break
        if resumed_after == number + 1:
            callback = EarlyStoppingCallback.from_state(json.loads(json.dumps(callback.state())))
            best = json.loads(json.dumps(trainer.state.best_metric))
            trainer.state = TrainerState(best_metric=best)
    return {"name": name, "patience": patience, "threshold": threshold, "metric": metric, "greater_is_better": greater,
            "values": [None if value != value else value for value in values], "counters": counters, "stops_after": stops_after,
            "state": callback.state()}


print(json.dumps([drive(*case) for case in CASES], indent=1))
