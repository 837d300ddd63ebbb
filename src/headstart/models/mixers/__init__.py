"""The table of mixers: a new mixer is one file and one line here.

`facts` (none is needed) are what `headstart ls mixers` prints without importing torch; a test holds them to the spec.
`headstart show MIXER` measures them, and counts the parameters.
"""

from __future__ import annotations

from headstart.spec import Entry


def _mixer(path: str, summary: str, source: str, cost: str, causal: bool = True) -> Entry:
    return Entry(f"headstart.models.mixers.{path}", summary, source, {"cost": cost, "causal": causal})


MIXERS: dict[str, Entry] = {
    "attention": _mixer("attention:AttentionSpec", "scaled dot-product attention", "Vaswani et al. 2017", "L^2"),
    "based": _mixer(
        "based:BasedSpec", "linear attention by a Taylor series, and short windows", "Arora et al. 2024", "L"
    ),
    "bigbird": _mixer("bigbird:BigBirdSpec", "attention to near, global and random blocks", "Zaheer et al. 2020", "L"),
    "delta_net": _mixer("delta_net:DeltaNetSpec", "linear attention by the delta rule", "Yang et al. 2024", "L"),
    "dlr": _mixer("state_space:DLRSpec", "diagonal linear RNN", "Gupta, Mehta and Berant 2022", "L log L"),
    "gated_delta_net": _mixer(
        "gated_delta_net:GatedDeltaNetSpec", "delta rule on a state that fades", "Yang, Kautz and Hatamizadeh 2024", "L"
    ),
    "gated_linear_attention": _mixer(
        "gated_linear_attention:GatedLinearAttentionSpec",
        "linear attention that fades",
        "Yang et al. 2023",
        "L",
    ),
    "gru": _mixer("gru:GRUSpec", "GRU, one or both directions", "Cho et al. 2014", "L"),
    "hyena": _mixer("hyena:HyenaSpec", "long convolution between gates", "Poli et al. 2023", "L log L"),
    "inception": _mixer("inception:InceptionSpec", "convolutions of several lengths", "Ismail Fawaz et al. 2020", "L"),
    "linear_attention": _mixer(
        "linear_attention:LinearAttentionSpec", "attention without a softmax", "Katharopoulos et al. 2020", "L"
    ),
    "linformer": _mixer(
        "linformer:LinformerSpec",
        "attention to a learned projection of the length",
        "Wang et al. 2020",
        "L",
        causal=False,
    ),
    "local_attention": _mixer(
        "local_attention:LocalAttentionSpec", "attention in windows and their neighbours", "Amos et al. 2023", "L"
    ),
    "longformer": _mixer(
        "local_attention:LongformerSpec",
        "attention in a sliding window, and global positions",
        "Beltagy et al. 2020",
        "L",
    ),
    "parallel": _mixer(
        "parallel:ParallelSpec", "mixers side by side (SPADE: S4 and local attention)", "Zuo et al. 2022", "L log L"
    ),
    "performer": _mixer(
        "linear_attention:PerformerSpec", "softmax estimated by random features", "Choromanski et al. 2021", "L"
    ),
    "lstm": _mixer("lstm:LSTMSpec", "LSTM, one or both directions", "Hochreiter and Schmidhuber 1997", "L"),
    "mamba": _mixer("mamba:MambaSpec", "selective state space, whole block", "Gu and Dao 2023", "L"),
    "mamba2": _mixer("mamba2:Mamba2Spec", "state space as matrix products, whole block", "Dao and Gu 2024", "L"),
    "mega": _mixer("mega:MegaSpec", "gated attention after a moving average", "Ma et al. 2022", "L^2"),
    "min_gru": _mixer("min_gru:MinGRUSpec", "GRU as a linear recurrence", "Feng et al. 2024", "L"),
    "reformer": _mixer(
        "reformer:ReformerSpec", "attention within hash buckets, shared query and key", "Kitaev et al. 2020", "L^1.5"
    ),
    "retnet": _mixer("retnet:RetNetSpec", "linear attention that forgets at fixed rates", "Sun et al. 2023", "L"),
    "rwkv6": _mixer("rwkv:RWKVSpec", "RWKV-6's time mixing", "Peng et al. 2024", "L"),
    "rwkv7": _mixer("rwkv7:RWKV7Spec", "RWKV-7's time mixing", "Peng et al. 2025", "L"),
    "s4": _mixer("s4:S4Spec", "HiPPO-LegS state space, diagonal plus low rank", "Gu, Goel and Ré 2022", "L log L"),
    "s4d": _mixer("state_space:S4DSpec", "diagonal state space", "Gu, Gupta, Goel and Ré 2022", "L log L"),
}
