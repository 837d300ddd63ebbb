"""Finished and unfinished stages on disk: one folder each, one writer at a time."""

from headstart.store.claim import ClaimedStage
from headstart.store.files import DONE, RESULT, publish_json, read_json, seal, unseal
from headstart.store.locks import LostLock
from headstart.store.saving import SaveTimes
from headstart.store.stages import StageEntry, Store, export_stage, store_folder, store_folder_for, store_of

__all__ = [
    "DONE",
    "RESULT",
    "ClaimedStage",
    "LostLock",
    "SaveTimes",
    "StageEntry",
    "Store",
    "export_stage",
    "publish_json",
    "read_json",
    "seal",
    "store_folder",
    "store_folder_for",
    "store_of",
    "unseal",
]
