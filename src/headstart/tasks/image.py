"""Image of Long Range Arena: CIFAR-10 in grey, pixel by pixel."""

from __future__ import annotations

from typing import ClassVar, Literal

from headstart.tasks.cifar_tasks import CifarSpec
from headstart.tasks.task import LONG_RANGE_ARENA


class ImageSpec(CifarSpec):
    """60,000 photographs of 32 x 32 pixels in ten classes, as 1,024 grey pixels row by row.

    Grey is 0.299 R + 0.587 G + 0.114 B, rounded to one of 256 levels, and standardised with the mean and
    deviation of the train pixels: an example begins `-0.96 -1.27 -1.15 ...`, label `frog`. Splits: 45,000 train
    and 5,000 val of the official train images, the official 10,000 test images; or `split` as Rothermel et
    al. have it.
    Source: Krizhevsky 2009; as a sequence: Tay et al. 2020.
    """

    kind: Literal["image"] = "image"

    shows_not: ClassVar[str] = LONG_RANGE_ARENA

    def layout(self) -> tuple[int, int]:
        """Grey pixels, one at a time."""
        return 1, 1
