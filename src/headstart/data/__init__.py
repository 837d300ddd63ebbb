"""A person's own sequences: read from files or memory, their layout guessed and said, and a card of what they hold."""

from headstart.data.layout import Channel, Layout, LayoutSpec
from headstart.data.reading import read_sequences
from headstart.data.sequences import Sequences, check_alike, check_ids

__all__ = ["Channel", "Layout", "LayoutSpec", "Sequences", "check_alike", "check_ids", "read_sequences"]
