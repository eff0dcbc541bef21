"""What ``hasten gallery`` tells of this workload; no torch."""

from hasten.records.gallery import Workload, WorkloadSize

WORKLOAD = Workload(
    name="gpt",
    about="predicts the next token of Python source code from those before it",
    metric="token_cross_entropy",
    higher_is_better=False,
    chance=3.15,  # in nats, by how frequent each byte is; other Pythons are near it
    margin=0.75,
    mistakes=(
        "attention is written out, so that every score is stored",
        "all arithmetic is in fp32",
        "each item is sliced out of a Python list and made a tensor anew",
        "batches are made and copied while the device waits",
        "the loss is read with .item() in every step",
    ),
    sizes=(
        WorkloadSize(
            name="small",
            shape="4,096 x 64 tokens of 256, GPT of 2 blocks of width 48, batch 8",
        ),
        WorkloadSize(
            name="full",
            shape="4,000 x 1,024 tokens of 50,257, GPT of 12 blocks of width 768, batch 16",
        ),
    ),
)
