# SPDX-License-Identifier: MIT
"""kedge in Hugging Face's Trainer: Trainer(callbacks=[kedge.transformers.Anchors()])."""
from transformers import TrainerCallback

import kedge


class Anchors(TrainerCallback):
    """Parts of the run become anchors of the capture: epoch, evaluation. Steps are there without this. log: what the
    trainer logs gets device_memory_peak, the most bytes since it has logged before, above those that were live then, and
    device_memory_growth."""

    def __init__(self, log=True):
        self.log_memory, self.open, self.since = log, [], None

    def enter(self, part):
        self.open.append((part, kedge.anchor(part).__enter__()))

    def leave(self, part):
        while any(name == part for name, _ in self.open):  # what an error has left open goes with it
            name, anchor = self.open.pop()
            anchor.__exit__()
            if name == part:
                break

    def measure(self):
        """What was since the last call, or None."""
        last, self.since = self.since, kedge.measure().__enter__()
        if last is not None:
            last.__exit__()
        return last

    def on_train_begin(self, args, state, control, **more):
        self.measure()

    def on_train_end(self, args, state, control, **more):
        while self.open:
            self.leave(self.open[-1][0])
        if self.since is not None:
            self.since.__exit__()
            self.since = None

    def on_epoch_begin(self, args, state, control, **more):
        self.enter("epoch")

    def on_epoch_end(self, args, state, control, **more):
        self.leave("epoch")

    def on_prediction_step(self, args, state, control, **more):
        if not any(part == "evaluation" for part, _ in self.open):  # nothing is called at its begin
            self.enter("evaluation")

    def on_evaluate(self, args, state, control, **more):
        self.leave("evaluation")

    on_predict = on_evaluate

    def on_log(self, args, state, control, logs=None, **more):
        last = self.measure() if self.log_memory else None
        if last is None or last.peak is None or logs is None:
            return
        told = {"device_memory_peak": last.peak, "device_memory_growth": last.growth}
        logs.update(told)
        if state.log_history:
            state.log_history[-1].update(told)
