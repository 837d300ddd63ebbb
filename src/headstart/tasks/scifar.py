"""Sequential CIFAR-10: pixel by pixel, in colour."""

from __future__ import annotations

from typing import Literal

from headstart.tasks.cifar_tasks import CifarSpec


class SCifarSpec(CifarSpec):
    """60,000 photographs of 32 x 32 pixels in ten classes, as 1,024 pixels of red, green and blue row by row.

    Standardised with one mean and one deviation of all train bytes, so that colours keep their balance: an
    example begins `(-0.96, -0.97, -0.95) (-1.28, -1.25, -1.27) ...`, label `frog`. Splits as in `image`.
    Source: Krizhevsky 2009; as a sequence: Gu et al. 2022.
    """

    kind: Literal["scifar"] = "scifar"

    def layout(self) -> tuple[int, int]:
        """Pixels of three colours, one at a time."""
        return 3, 1
