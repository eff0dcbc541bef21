"""What ``hasten gallery`` tells of this workload; no torch."""

from hasten.records.gallery import Workload, WorkloadSize

WORKLOAD = Workload(
    name="microbiome",
    about="predicts a trait of samples, and their UniFrac distances, from reads of their microbes",
    metric="mean_absolute_error",
    higher_is_better=False,
    chance=0.737,
    margin=0.2,
    mistakes=(
        "reads are turned into tokens in __getitem__, letter by letter, again in every epoch",
        "UniFrac is computed again for every batch, pair by pair and node by node in Python",
        "distances between embeddings are a graph of small operations for each pair",
        "attention is written out, and stores every score",
        "forward asks the device questions (.any(), .max()) and branches on the answers",
        "the loop waits for the device at every step (isnan, .item()) and empties its cache",
    ),
    sizes=(
        WorkloadSize(
            name="small",
            shape="512 samples of 12 reads of 24 bases, 48 kinds of microbes, "
            "1 + 1 transformer blocks of width 32, batch 8",
        ),
        WorkloadSize(
            name="full",
            shape="512 samples of 128 reads of 150 bases, 1,000 kinds of microbes, "
            "4 + 4 transformer blocks of width 128, batch 8",
        ),
    ),
)
