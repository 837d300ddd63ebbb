"""CIFAR-10 as 64 patches, as the frozen pretrained transformers read it."""

from __future__ import annotations

from typing import Literal

from headstart.tasks.cifar_tasks import CifarSpec


class CifarPatchesSpec(CifarSpec):
    """60,000 photographs of 32 x 32 pixels in ten classes, as 64 patches of 4 x 4 row by row.

    An example in grey begins `(-0.96, -1.27, ... 16 numbers) (...) ...`, label `frog`; pixels are standardised
    with the mean and deviation of the train pixels. Splits as in `image`; Lu et al. train on all 50,000 and
    look at test images only.

    channels: `grey` has patches of 16 numbers (Lu et al. describe that), `rgb` of 48 (their code), the three
        colours of a pixel side by side.
    Source: Krizhevsky 2009; as patches: Lu et al. 2021.
    """

    kind: Literal["cifar_patches"] = "cifar_patches"
    channels: Literal["grey", "rgb"] = "grey"

    def layout(self) -> tuple[int, int]:
        """Tiles of 4 x 4 in grey or colour."""
        return (1 if self.channels == "grey" else 3), 4
