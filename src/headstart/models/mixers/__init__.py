"""The table of mixers: a new mixer is one file and one line here.

`facts` are what `headstart ls mixers` prints without importing torch; a test holds them to the built module.
"""

from __future__ import annotations

from headstart.spec import Kind

MIXERS: dict[str, Kind] = {
    "attention": Kind("headstart.models.mixers.attention:AttentionSpec", "scaled dot-product attention",
                      "Vaswani et al. 2017", {"cost": "L^2", "causal": True, "parameters": 66048}),
}
