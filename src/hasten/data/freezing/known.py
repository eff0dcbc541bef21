"""What calls into libraries are known to give: the same each time, or possibly not.

Of the standard library only what is named here is trusted, of NumPy, torch and the others below all
but what is named here. Code of anyone else is read.
"""

import sys

from hasten.data.freezing.doubt import Doubt, MayDraw


def words(text: str) -> frozenset[str]:
    return frozenset(text.split())


TRUSTED = frozenset({"numpy", "torch", "PIL", "h5py", "pandas", "pyarrow", "scipy"})
"""Libraries that are not read: what they draw, they draw by one of the names below."""

STANDARD = words(
    "_abc _bisect _collections _collections_abc _csv _functools _heapq _io _json _operator _struct"
    " abc array base64 binascii bisect builtins bz2 cmath codecs collections contextlib copy csv"
    " dataclasses datetime decimal enum fractions functools genericpath glob gzip hashlib _hashlib"
    " _blake2 heapq io itertools json logging lzma math mmap ntpath numbers operator os.path"
    " pathlib posixpath re statistics string struct textwrap types typing unicodedata warnings"
    " zipfile zlib"
)
"""Modules of the standard library whose functions give the same for the same, but for the names
below."""

SYSTEM_CALLS = frozenset({"fspath", "fsdecode", "fsencode", "getcwd", "listdir", "scandir", "stat"})
"""Of the functions of ``os``."""

DRAWING_MODULES = frozenset(
    {"random", "numpy.random", "torch.random", "torch.nn.init", "secrets", "uuid"}
)

DRAWING = words(
    "alpha_dropout bernoulli bernoulli_ binomial cauchy_ choice choices dropout dropout1d"
    " dropout2d dropout3d dropout_ effect_noise exponential_ feature_alpha_dropout feature_dropout"
    " geometric_ get_rng_state getrandbits gumbel_softmax initial_seed integers log_normal_"
    " manual_seed multinomial native_dropout normal normal_ permutation permuted poisson rand"
    " rand_like randbytes randint randint_like randn randn_like random random_ randperm randrange"
    " rrelu rrelu_ rsample rvs sample seed set_rng_state shuffle standard_normal uniform uniform_"
    " urandom uuid1 uuid4"
)
"""Names of functions that draw random numbers, or set what others draw."""

CLOCKS = words(
    "monotonic monotonic_ns now perf_counter perf_counter_ns process_time time time_ns today utcnow"
)
OF_THE_PROCESS = words(
    "cpu_count current_process current_thread get_ident get_worker_info getenv getpid getppid"
    " gettempdir"
)
UNWRITTEN = frozenset({"empty", "empty_like", "empty_strided", "new_empty"})
"""Memory with whatever is in it."""
FORBIDDEN_BUILTINS = words(
    "__import__ breakpoint compile delattr eval exec globals id input locals setattr vars"
)
MUTATORS = words(
    "add append appendleft clear discard extend extendleft fill insert pop popitem popleft remove"
    " reverse rotate setdefault sort update write writelines"
)
"""Methods by which something that lives on from item to item is changed."""

OPENERS = frozenset({"open", "File", "ZipFile", "load", "memmap", "open_file", "fdopen"})
"""Calls whose result may be kept from the first item on."""


def doubt_call(name: str, where: str) -> None:
    """Raises ``Doubt`` where a function of this name, of any library, is not trusted."""
    if name in DRAWING or "Random" in name or "Dropout" in name:
        raise MayDraw(f"{where}: {name} may draw random numbers")
    if name in CLOCKS:
        raise Doubt(f"{where}: {name} tells the time")
    if name in OF_THE_PROCESS:
        raise Doubt(f"{where}: {name} depends on the process that calls it")
    if name in UNWRITTEN:
        raise Doubt(f"{where}: {name} gives whatever was in memory")


def changes_its_own(name: str) -> bool:
    """Whether a method of this name changes what it is called on, as those of torch tell by "_"."""
    return name in MUTATORS or (name.endswith("_") and not name.endswith("__"))


def is_standard(module: str) -> bool:
    return module.partition(".")[0] in sys.stdlib_module_names


def is_doubtful(module: str) -> bool:
    """Of the standard library, and not known to be harmless."""
    top = module.partition(".")[0]
    return is_standard(module) and top not in STANDARD and module not in STANDARD


def is_read(module: str) -> bool:
    """Whether code of this module has to be read: it is the user's, or of an unknown library."""
    return module.partition(".")[0] not in TRUSTED and not is_standard(module)
