"""The table of mixers: a new mixer is one file and one line here.

`facts` (none is needed) are what `headstart ls mixers` prints without importing torch; a test holds them to the spec.
`headstart show MIXER` measures them, and counts the parameters.
"""

from __future__ import annotations

from headstart.spec import Entry

MIXERS: dict[str, Entry] = {
    "attention": Entry(
        "headstart.models.mixers.attention:AttentionSpec",
        "scaled dot-product attention",
        "Vaswani et al. 2017",
        {"cost": "L^2", "causal": True},
    ),
    "bigbird": Entry(
        "headstart.models.mixers.bigbird:BigBirdSpec",
        "attention to near, global and random blocks",
        "Zaheer et al. 2020",
        {"cost": "L", "causal": True},
    ),
    "dlr": Entry(
        "headstart.models.mixers.dlr:DLRSpec",
        "diagonal linear RNN",
        "Gupta, Mehta and Berant 2022",
        {"cost": "L log L", "causal": True},
    ),
    "linear_attention": Entry(
        "headstart.models.mixers.linear_attention:LinearAttentionSpec",
        "attention without a softmax",
        "Katharopoulos et al. 2020",
        {"cost": "L", "causal": True},
    ),
    "linformer": Entry(
        "headstart.models.mixers.linformer:LinformerSpec",
        "attention to a learned projection of the length",
        "Wang et al. 2020",
        {"cost": "L", "causal": False},
    ),
    "local_attention": Entry(
        "headstart.models.mixers.local_attention:LocalAttentionSpec",
        "attention in windows and their neighbours",
        "Amos et al. 2023",
        {"cost": "L", "causal": True},
    ),
    "longformer": Entry(
        "headstart.models.mixers.longformer:LongformerSpec",
        "attention in a sliding window and to global positions",
        "Beltagy et al. 2020",
        {"cost": "L", "causal": True},
    ),
    "parallel": Entry(
        "headstart.models.mixers.parallel:ParallelSpec",
        "mixers side by side (SPADE: S4 and local attention)",
        "Zuo et al. 2022",
        {"cost": "L log L", "causal": True},
    ),
    "performer": Entry(
        "headstart.models.mixers.performer:PerformerSpec",
        "softmax estimated by random features",
        "Choromanski et al. 2021",
        {"cost": "L", "causal": True},
    ),
    "lstm": Entry(
        "headstart.models.mixers.lstm:LSTMSpec",
        "LSTM, one or both directions",
        "Hochreiter and Schmidhuber 1997",
        {"cost": "L", "causal": True},
    ),
    "mega": Entry(
        "headstart.models.mixers.mega:MegaSpec",
        "gated attention after a moving average",
        "Ma et al. 2022",
        {"cost": "L^2", "causal": True},
    ),
    "reformer": Entry(
        "headstart.models.mixers.reformer:ReformerSpec",
        "attention within hash buckets, shared query and key",
        "Kitaev et al. 2020",
        {"cost": "L^1.5", "causal": True},
    ),
    "s4": Entry(
        "headstart.models.mixers.s4:S4Spec",
        "HiPPO-LegS state space, diagonal plus low rank",
        "Gu, Goel and Ré 2022",
        {"cost": "L log L", "causal": True},
    ),
    "s4d": Entry(
        "headstart.models.mixers.s4d:S4DSpec",
        "diagonal state space",
        "Gu, Gupta, Goel and Ré 2022",
        {"cost": "L log L", "causal": True},
    ),
}
