"""What ``hasten gallery`` tells of this workload; no torch."""

from hasten.records.gallery import Workload, WorkloadSize

WORKLOAD = Workload(
    name="lensing",
    about="tells gravitational lenses from galaxies that only look like one, in colour images",
    metric="auc",
    higher_is_better=True,
    chance=0.5,
    margin=0.25,
    mistakes=(
        "every image file is decoded again in every epoch, in __getitem__",
        "stretch and scales are computed an image at a time, in the process that trains",
        "all scales are held in one graph until the backward pass",
        "the loss of every step is read from the device",
        "each dropout sample of each member decodes the files and runs the network again",
        "the AUC compares each lens with each look-alike in Python",
    ),
    sizes=(
        WorkloadSize(
            name="small",
            shape="1,024 images of 3 x 48 x 48 at 3 scales, 3 ResNet-18 of width 8, batch 32",
        ),
        WorkloadSize(
            name="small-files",
            shape="1,024 files of 3 x 48 x 48 at 3 scales, 3 ResNet-18 of width 8, batch 32",
        ),
        WorkloadSize(
            name="full",
            shape="6,000 images of 3 x 64 x 64, ResNet-18 of width 64, batch 64",
        ),
        WorkloadSize(
            name="full-files",
            shape="6,000 files of 3 x 64 x 64, ResNet-18 of width 64, batch 64",
        ),
        WorkloadSize(
            name="full-scales",
            shape="6,000 images of 3 x 64 x 64 at 3 scales, 3 ResNet-18 of width 64, batch 64",
        ),
    ),
)
