"""The encoders as users import them."""

import subprocess
import sys

CODE = """
import sys
from hasten.data.encoders import *
rooms = {name.split(".")[1] for name in sys.modules if name.startswith("hasten.")}
print(sorted(rooms), "pandas" in sys.modules, NGrams(2, "ab"), Tokenizer("ACGT"))
"""


def test_the_encoders_are_usable_alone_and_import_no_other_room() -> None:
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == (
        "['data', 'errors'] False NGrams(2, 'ab', padding='') "
        "Tokenizer('ACGT', pad_id=0, first_id=1, unknown_id=None)"
    )
