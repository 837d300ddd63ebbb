"""The table of optimisers. Its own three are `optim.OptimSpec`; others come from plugins, as `optim.OwnOptimSpec`."""

from __future__ import annotations

from headstart.spec import Entry

_OWN = "headstart.training.optim:OptimSpec"
OPTIMIZERS: dict[str, Entry] = {
    "adamw": Entry(_OWN, "AdamW, with decoupled weight decay", "Loshchilov and Hutter 2019"),
    "sgd": Entry(_OWN, "SGD with momentum"),
    "muon": Entry(_OWN, "Muon for matrices, AdamW for other weights", "Jordan et al. 2024"),
}
