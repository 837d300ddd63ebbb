"""The table of tasks: a new task is one file and one line here."""

from __future__ import annotations

from typing import Any

from headstart.spec import Entry, kind_field
from headstart.tasks.task import Task, TaskSpec, data_folder, open_task, prepare


def _task(path: str, summary: str, source: str) -> Entry:
    return Entry(f"headstart.tasks.{path}", summary, source)


TASKS: dict[str, Entry] = {
    "digits": _task(
        "digits:DigitsSpec",
        "1,797 handwritten 8 x 8 digits, rolled, as 64 pixels",
        "Alpaydin and Kaynak 1998, with scikit-learn",
    ),
    "mnist": _task("digits:MnistSpec", "handwritten digits as pixels or 4 x 4 patches", "LeCun et al. 1998"),
    "listops": _task(
        "listops:ListOpsSpec", "nested list expressions, ten answers", "Nangia and Bowman 2018; Tay et al. 2020"
    ),
    "listops_files": _task(
        "listops:ListOpsFilesSpec", "Long Range Arena's own ListOps files, where someone has them", "Tay et al. 2020"
    ),
    "pathfinder": _task(
        "pathfinder:PathfinderSpec",
        "do two discs lie on one dashed contour? sizes 16 to 256 (PathX)",
        "Linsley et al. 2018; Tay et al. 2020",
    ),
    "pathfinder_files": _task(
        "pathfinder:PathfinderFilesSpec",
        "Long Range Arena's own Pathfinder images, where someone has them",
        "Tay et al. 2020",
    ),
    "image": _task(
        "cifar:ImageSpec", "CIFAR-10 photographs in grey, pixel by pixel", "Krizhevsky 2009; Tay et al. 2020"
    ),
    "scifar": _task(
        "cifar:SCifarSpec", "CIFAR-10 photographs in colour, pixel by pixel", "Krizhevsky 2009; Gu et al. 2022"
    ),
    "cifar_patches": _task(
        "cifar:CifarPatchesSpec", "CIFAR-10 photographs as 64 patches of 4 x 4", "Krizhevsky 2009; Lu et al. 2021"
    ),
    "bit_memory": _task(
        "bit_strings:BitMemorySpec", "which of five strings of 1,000 bits is half shown again?", "Lu et al. 2021"
    ),
    "bit_xor": _task(
        "bit_strings:BitXorSpec", "the XOR of two strings of bits, one bit per position", "Lu et al. 2021"
    ),
    "mqar": _task(
        "recall:MqarSpec", "multi-query associative recall: which value belongs to each key?", "Arora et al. 2023"
    ),
    "selective_copying": _task(
        "recall:SelectiveCopyingSpec", "copy the tokens that stand among noise, in their order", "Gu and Dao 2023"
    ),
    "induction_heads": _task(
        "recall:InductionHeadsSpec",
        "which token stood after the trigger when it came first?",
        "Gu and Dao 2023; Dao et al. 2023",
    ),
    "in_context_recall": _task("mad:InContextRecallSpec", "MAD: which value had this key before?", "Poli et al. 2024"),
    "noisy_recall": _task("mad:NoisyRecallSpec", "MAD: the same among pairs of noise", "Poli et al. 2024"),
    "fuzzy_recall": _task("mad:FuzzyRecallSpec", "MAD: the same of motifs of several tokens", "Poli et al. 2024"),
    "compression": _task("mad:CompressionSpec", "MAD: hold random tokens and say them again", "Poli et al. 2024"),
    "memorisation": _task("mad:MemorisationSpec", "MAD: one value of each key in all sequences", "Poli et al. 2024"),
    "text": _task(
        "text:TextSpec",
        "film reviews of IMDb, byte by byte: positive or negative?",
        "Maas et al. 2011; Tay et al. 2020",
    ),
    "retrieval": _task(
        "retrieval:RetrievalSpec",
        "do two texts belong together? papers (AAN), reviews of one film, or your own",
        "Radev et al. 2013; Tay et al. 2020",
    ),
    "speech": _task(
        "speech:SpeechSpec",
        "spoken words as raw samples: 35 commands, ten digits, or your own recordings",
        "Warden 2018; Jackson et al. 2016",
    ),
    "bidmc": _task(
        "bidmc:BidmcSpec",
        "heart rate, respiratory rate or oxygen saturation from 32 s of EKG and PPG",
        "Pimentel et al. 2016; Tan et al. 2020",
    ),
    "fasta": _task(
        "fasta:FastaSpec",
        "proteins or DNA with a class: promoters, splice junctions, localisation, or your own",
        "Umarov and Solovyev 2017; Towell et al. 1990; Almagro Armenteros et al. 2017",
    ),
    "homology": _task(
        "fasta:HomologySpec", "which of 1,195 folds does a protein have?", "Rao et al. 2019; Lu et al. 2021"
    ),
    "waves": _task(
        "stand_ins:WavesSpec", "sums of sines, a stand-in for signals: which frequencies, or how slow?", "our own"
    ),
    "sources": _task("stand_ins:SourcesSpec", "letters by made-up sources: which of them wrote a sequence?", "our own"),
    "pairs": _task(
        "stand_ins:PairsSpec",
        "two sequences of letters, a stand-in for retrieval: did one source write both?",
        "our own",
    ),
    "ucr": _task("series:UcrSpec", "a set of the UCR archive: one channel, labelled, by its name", "Dau et al. 2018"),
    "uea": _task(
        "series:UeaSpec", "a set of the UEA archive: several channels, any length, by its name", "Bagnall et al. 2018"
    ),
    "language": _task("language:LanguageSpec", "the next byte of a text of your own, in bits per byte", "your own"),
    "pieces": _task(
        "pieces:PiecesSpec", "texts of your own, in the pieces of a checkpoint's own tokeniser", "your own"
    ),
    "own": _task(
        "own:OwnSpec",
        "your own file: a table, text, DNA, arrays or folders, as `headstart show FILE` reads it",
        "your own",
    ),
}

TaskField: Any = kind_field(TaskSpec, TASKS)

__all__ = ["TASKS", "Task", "TaskField", "TaskSpec", "data_folder", "open_task", "prepare"]
