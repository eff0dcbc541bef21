"""What ``hasten gallery`` tells of this workload; no torch."""

from hasten.records.gallery import Workload, WorkloadSize

WORKLOAD = Workload(
    name="battery",
    about="tells a cell's state of charge from windows of its current, voltage and temperature",
    metric="rmse",
    higher_is_better=False,
    chance=0.2,
    margin=0.16,
    mistakes=(
        "windows are cut out and copied one by one in a Python loop",
        "the state of zeros is made on the host and copied to the device for every batch",
        "truth tests of the loss wait for the device in every step",
        "a callback logs every step, and reads the loss for it",
        "a gradient scaler is left on in single precision, and made anew in every epoch",
    ),
    sizes=(
        WorkloadSize(
            name="small", shape="2,048 windows of 40 x 3, 2-layer LSTM, hidden 32, batch 32"
        ),
        WorkloadSize(
            name="full", shape="60,000 windows of 200 x 3, 2-layer LSTM, hidden 128, batch 100"
        ),
        WorkloadSize(
            name="small-gru", shape="2,048 windows of 40 x 3, 2-layer GRU, hidden 32, batch 32"
        ),
        WorkloadSize(
            name="full-gru", shape="60,000 windows of 200 x 3, 2-layer GRU, hidden 128, batch 100"
        ),
    ),
)
