"""The table of mixers: a new mixer is one file and one line here.

`facts` are what `headstart ls mixers` prints without importing torch; a test holds them to the built module.
"""

from __future__ import annotations

from headstart.spec import Entry

MIXERS: dict[str, Entry] = {
    "attention": Entry(
        "headstart.models.mixers.attention:AttentionSpec",
        "scaled dot-product attention",
        "Vaswani et al. 2017",
        {"cost": "L^2", "causal": True, "parameters": 66048},
    ),
    "bigbird": Entry(
        "headstart.models.mixers.bigbird:BigBirdSpec",
        "attention to near, global and random blocks",
        "Zaheer et al. 2020",
        {"cost": "L", "causal": True, "parameters": 66048},
    ),
    "dlr": Entry(
        "headstart.models.mixers.dlr:DLRSpec",
        "diagonal linear RNN",
        "Gupta, Mehta and Berant 2022",
        {"cost": "L log L", "causal": True, "parameters": 542976},
    ),
    "linear_attention": Entry(
        "headstart.models.mixers.linear_attention:LinearAttentionSpec",
        "attention without a softmax",
        "Katharopoulos et al. 2020",
        {"cost": "L", "causal": True, "parameters": 66048},
    ),
    "linformer": Entry(
        "headstart.models.mixers.linformer:LinformerSpec",
        "attention to a learned projection of the length",
        "Wang et al. 2020",
        {"cost": "L", "causal": False, "parameters": 328192},
    ),
    "local_attention": Entry(
        "headstart.models.mixers.local_attention:LocalAttentionSpec",
        "attention in windows and their neighbours",
        "Amos et al. 2023",
        {"cost": "L", "causal": True, "parameters": 66048},
    ),
    "longformer": Entry(
        "headstart.models.mixers.longformer:LongformerSpec",
        "attention in a sliding window and to global positions",
        "Beltagy et al. 2020",
        {"cost": "L", "causal": True, "parameters": 115584},
    ),
    "parallel": Entry(
        "headstart.models.mixers.parallel:ParallelSpec",
        "mixers side by side (SPADE: S4 and local attention)",
        "Zuo et al. 2022",
        {"cost": "L log L", "causal": True, "parameters": 173696},
    ),
    "performer": Entry(
        "headstart.models.mixers.performer:PerformerSpec",
        "softmax estimated by random features",
        "Choromanski et al. 2021",
        {"cost": "L", "causal": True, "parameters": 66048},
    ),
    "lstm": Entry(
        "headstart.models.mixers.lstm:LSTMSpec",
        "LSTM, one or both directions",
        "Hochreiter and Schmidhuber 1997",
        {"cost": "L", "causal": True, "parameters": 131584},
    ),
    "mega": Entry(
        "headstart.models.mixers.mega:MegaSpec",
        "gated attention after a moving average",
        "Ma et al. 2022",
        {"cost": "L^2", "causal": True, "parameters": 158911},
    ),
    "reformer": Entry(
        "headstart.models.mixers.reformer:ReformerSpec",
        "attention within hash buckets, shared query and key",
        "Kitaev et al. 2020",
        {"cost": "L^1.5", "causal": True, "parameters": 49536},
    ),
    "s4": Entry(
        "headstart.models.mixers.s4:S4Spec",
        "HiPPO-LegS state space, diagonal plus low rank",
        "Gu, Goel and Ré 2022",
        {"cost": "L log L", "causal": True, "parameters": 74240},
    ),
    "s4d": Entry(
        "headstart.models.mixers.s4d:S4DSpec",
        "diagonal state space",
        "Gu, Gupta, Goel and Ré 2022",
        {"cost": "L log L", "causal": True, "parameters": 57856},
    ),
}
