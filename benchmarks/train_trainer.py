"""A step of the Trainer of transformers, on the model and the batch of `train_speed.py`.

It is measured where `transformers` and `accelerate` are installed, and is no dependency of ours.
"""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Generator
from queue import SimpleQueue
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from train_speed import RATE, case_of, made_up

from headstart.bench.machine import wait_for
from headstart.seeds import Draw
from headstart.sequence import Batch, collate

STEPS = 10**6
"""Far more than are asked for."""


class _WithLoss(torch.nn.Module):
    """A network as the Trainer wants it: a dict with the loss."""

    def __init__(self, model: torch.nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, inputs: torch.Tensor, labels: torch.Tensor) -> dict[str, torch.Tensor]:
        """The mean cross-entropy of a batch of equal lengths."""
        valid = torch.ones(inputs.shape[:2], dtype=torch.bool, device=inputs.device)
        index = torch.arange(len(inputs), device=inputs.device)
        batch = Batch(inputs, valid, index, full=True)
        return {"loss": F.cross_entropy(self.model(batch, Draw(0, 0, index)), labels)}


def trainer(job: dict[str, Any]) -> Generator[Any, str, None]:
    """In its own process: None after a warm step; then, each time, seconds of a step."""
    from transformers import Trainer, TrainerCallback, TrainingArguments

    (example, model), device = case_of(job), job["device"]
    batch = collate(made_up(example), np.arange(example.batch))
    assert batch.target is not None
    # A million steps are one epoch of it: what an epoch costs anew is not counted against the Trainer.
    rows = [{"inputs": x, "labels": y} for x, y in zip(batch.inputs, batch.target, strict=True)]
    turns, times = SimpleQueue[bool](), SimpleQueue[float | Exception]()

    class Examples(torch.utils.data.Dataset[Any]):
        def __len__(self) -> int:
            return STEPS * len(rows)

        def __getitem__(self, number: int) -> Any:
            return rows[number % len(rows)]

    class Turns(TrainerCallback):
        """Takes a step when it is its turn, the making of its batch included, and tells how long it took."""

        began = 0.0

        def on_train_begin(self, *_: Any, **__: Any) -> None:
            turns.get()
            self.began = time.perf_counter()

        def on_step_end(self, *_: Any, **__: Any) -> None:
            wait_for(device)
            times.put(time.perf_counter() - self.began)
            turns.get()
            self.began = time.perf_counter()

    with tempfile.TemporaryDirectory() as folder:
        settings = TrainingArguments(
            folder,
            max_steps=STEPS,
            per_device_train_batch_size=example.batch,
            learning_rate=RATE,
            lr_scheduler_type="constant",
            max_grad_norm=0.0,
            logging_strategy="no",
            save_strategy="no",
            report_to="none",
            use_cpu=device == "cpu",
            disable_tqdm=True,
            train_sampling_strategy="sequential",
        )
        work = Trainer(_WithLoss(model), settings, train_dataset=Examples(), callbacks=[Turns()])
        settings._n_gpu = min(settings.n_gpu, 1)  # it would multiply the batch by the number of GPUs

        def run() -> None:
            try:
                work.train()
            except Exception as error:  # raised where it is waited for
                times.put(error)

        def seconds() -> float:
            turns.put(True)
            answer = times.get()
            if isinstance(answer, Exception):
                raise answer
            return answer

        threading.Thread(target=run, daemon=True).start()
        seconds()
        yield None
        while True:
            yield seconds()
