"""What ``hasten gallery`` tells of this workload; no torch."""

from hasten.records.gallery import Workload, WorkloadSize

WORKLOAD = Workload(
    name="bloom",
    about="reads the 2-grams of persons' names back from their 1024-bit Bloom filters",
    metric="dice",
    higher_is_better=True,
    chance=0.2,
    margin=0.4,
    mistakes=(
        "the table goes through apply row by row, and bit strings through list(bits)",
        "2-grams are looked up in lists",
        "__getitem__ makes the tensors of one person, and again in every epoch",
        "batches wait to be copied, and every step waits for loss.item()",
        "guesses are decoded by one .item() for each 2-gram",
    ),
    sizes=(
        WorkloadSize(name="small", shape="4,096 rows, MLP 1024-512-256-676, batch 64"),
        WorkloadSize(name="full", shape="100,000 rows, MLP 1024-512-256-676, batch 64"),
    ),
)
