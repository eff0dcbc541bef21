"""One optimization per file. ``registry`` knows them all; ``technique`` is what each must say."""
