"""A whole file that is decoded to learn how long it is."""

import ast
from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.heat import Heat
from hasten.scan.look import Look
from hasten.scan.nodes import walk
from hasten.scan.outline import Site
from hasten.scan.rule import Found, Rule
from hasten.scan.trace import varies
from hasten.scan.vocabulary import words

MODULES = words("soundfile sf torchaudio librosa core wavfile audio wave")
"""What such functions are called on, where their name says little."""
SIZES = words("shape size nframes")


class ReadForItsSize(Rule):
    code = "HST149"
    name = "file-read-for-its-size"
    why = "The whole file is read and decoded, though its header tells how long it is."
    instead = (
        "Ask for the header: `soundfile.info(path).frames`, `torchaudio.info(path).num_frames`."
    )
    verify = "Compare the lengths of some files."
    risk = "some compressed formats only estimate the length in their header"
    calls = (
        "read",
        "load",
        "*_load",
        "*load_fn",
        "*read_fn",
        "*load_audio",
        "*load_wav",
        "*read_audio",
    )
    least = Heat.ONCE
    needs_torch = False
    examples: ClassVar[tuple[str, ...]] = (
        """\
import librosa
import soundfile as sf
import torchaudio
from torch.utils.data import Dataset

class Sounds(Dataset):
    def __init__(self, paths):
        self.lengths = []
        for path in paths:
            sound, rate = librosa.load(path)  # !
            self.lengths.append(len(sound) / rate)
        self.frames = [torchaudio.load(path)[0].shape[1] for path in paths]  # !
        self.sizes = [self.load_fn(path).shape[0] for path in paths]  # !

    def __getitem__(self, index):
        frames = len(sf.read(self.paths[index])[0])  # !
        return sf.read(self.paths[index], start=frames // 2, dtype="float32")
""",
        """\
import soundfile as sf
import torchaudio
from torch.utils.data import Dataset

class Sounds(Dataset):
    def __init__(self, paths):
        self.frames = [torchaudio.info(path).num_frames for path in paths]

    def __getitem__(self, index):
        sound, rate = sf.read(self.paths[index], dtype="float32")
        if len(sound) < self.least:
            return self[index + 1]
        return sound[:, : self.least]

def play(path):
    sound, rate = torchaudio.load(path)
    return sound, rate, sound.shape[1]
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        module = look.dotted(site.node.func).rpartition(".")[0].rpartition(".")[2]
        is_of_sound = module in MODULES or _reads_each(site)
        if not is_of_sound or site.function.last_name == site.called:
            return
        if _is_measured(site.node, site) or _only_measured_later(site):
            yield Found(site.node, "a whole file is decoded, and only its length is used")


def _reads_each(site: Site) -> bool:
    """``load_fn(path)``, given each of what a loop goes over: by its name it reads a file."""
    return site.called not in ("read", "load") and (
        site.loop is not None and any(varies(each, site.loop) for each in site.node.args)
    )


def _is_measured(call: ast.Call, site: Site) -> bool:
    """``len(read(path)[0])`` and ``load(path)[0].shape``."""
    for each in walk(site.statement):
        match each:
            case ast.Call(func=ast.Name(id="len"), args=[held]):
                pass
            case ast.Attribute(value=held, attr=attribute) if attribute in SIZES:
                pass
            case _:
                continue
        while isinstance(held, ast.Subscript):
            held = held.value
        if held is call:
            return True
    return False


def _only_measured_later(site: Site) -> bool:
    """Whether the name that gets the sound is read for nothing else in the function."""
    match site.statement:
        case ast.Assign(targets=[ast.Tuple(elts=[ast.Name(id=name), *_])], value=value):
            pass
        case ast.Assign(targets=[ast.Name(id=name)], value=value):
            pass
        case _:
            return False
    if value is not site.node or len(site.function.bindings[name]) > 1:
        return False
    read = measured = 0
    for each in walk(site.function.node):
        match each:
            case ast.Name(id=other, ctx=ast.Load()) if other == name:
                read += 1
            case ast.Call(func=ast.Name(id="len"), args=[ast.Name(id=other)]) if other == name:
                measured += 1
            case ast.Attribute(value=ast.Name(id=other), attr=attribute) if other == name:
                measured += attribute in SIZES
    return 0 < read == measured
