"""A study that more than one door opens."""

STUDY = b"""name = "fuzzed"
[stages.pretrain]
objective = { kind = "masked" }
[stages.finetune]
objective = { kind = "classify" }
[columns.digits]
task = { kind = "listops", train = 20, val = 10, test = 10 }
model = { width = 8, blocks = 1, mixer = { kind = "attention", heads = 2 } }
pretrain = { objective = { mask_rate = 0.5 }, budget = { epochs = 2 } }
finetune = { budget = { steps = 10 } }
[arms.scratch]
[arms.self_pretrained]
finetune = { parent = "pretrain", start = ["take(all-head)"] }
[axes]
"finetune.optim.lr" = [1e-4, 3e-4]
seed = [0, 1]
[report]
choose = ["finetune.optim.lr"]
against = "scratch"
[scales.tiny]
only = { arms = ["scratch"] }
[[claims]]
says = "It helps."
higher = "self_pretrained"
lower = "scratch"
"""
