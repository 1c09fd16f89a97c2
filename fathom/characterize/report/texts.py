"""What the report says about each analysis, whatever was measured."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Text:
    """The unchanging words of a section.

    Attributes:
        title: what is shown.
        meaning: how it is defined.
        paper: where the papers have it, and what they found.
    """

    title: str
    meaning: str
    paper: str


TEXTS = {
    "F1": Text(
        "Op times are stationary",
        "The time of each workload's five heaviest op types in every profiled step, over its mean. "
        "Variation is standard deviation over mean. Drift is the change from the first to the last "
        "step over the median (slope of Theil and Sen), its p value from the test of Mann and "
        "Kendall; a type drifts if p < 0.01 and the change is above 5 %. Where batches differ in "
        "length, the times do too.",
        "Fathom, Figure 1, a picture without numbers: the execution time of ops is stationary and "
        "has low variance.",
    ),
    "F2": Text(
        "A handful of op types dominates",
        "Op types sorted by their share of the time in ops, and the cumulative share.",
        "Fathom, Figure 2, a picture without numbers: usually 5 to 15 types are responsible for "
        "upwards of 90 % of the duration (the shaded band).",
    ),
    "F3": Text(
        "Share of time by op type",
        "Percent of the time in ops, under the paper's names. The paper's columns come first, in "
        "its order, then types above 1 % that it has not; the letters are its classes. The cosine "
        "distance counts all types, those without a column too; its interval is what other "
        "steps of the same run might have given, wide on a busy machine.",
        "Fathom, Figure 3: below ours. It has types above 1 % only, measured on a 4 GHz Skylake "
        "i7-6700K with TensorFlow 0.8.",
    ),
    "F4": Text(
        "Similarity of the workloads",
        "The rows of the heat map as vectors, with all their types; cosine distance; the two "
        "closest clusters merge and the mean of all their rows replaces them (centroid linkage). A "
        "merge may be closer than the one before it: a centroid can lie nearer to a third cluster "
        "than its parts did.",
        "Fathom, Figure 4, a picture without numbers, recomputed here from the numbers of its "
        "Figure 3 by the same routine: the convolutional networks merge first, and seq2seq with "
        "memnet joins speech with autoenc at about 0.4.",
    ),
    "F5": Text(
        "Training and inference, CPU and GPU",
        "Median step time, input excluded, over that of training on the CPU; thread pools at their "
        "defaults. A step is one batch; the table has the batch sizes.",
        "Fathom, Figure 5, a picture without numbers: inference is variably faster than training; "
        "convolutional networks pay a slightly higher cost for training.",
    ),
    "F6": Text(
        "Parallelism inside ops",
        "Mean time a step of the heaviest op types, by the threads of the pool inside an op. Under "
        "each type stand the layers in which it takes most time.",
        "Fathom, Figure 6, pictures of deepq, seq2seq and memnet without numbers: types that scale "
        "diminish and others emerge; deepq's optimizer rises to about 7 % at 8 threads.",
    ),
    "V-A": Text(
        "Time outside ops",
        "The share of the profiled steps in which no op runs on any thread. The profiler's "
        "overhead is the median step with it over the median without it in the same process; "
        "the other times of this report are taken without it, but for those by op type.",
        "Fathom, section V.A: typically less than 1-2 % of the runtime is spent outside of ops.",
    ),
    "M-sections": Text(
        "Sections of a run",
        "Times of a training run over its wall time on the CPU. init is construction and the "
        "loading of the data; main is all but the start of Python and TensorFlow; wall is measured "
        "from outside the process. How much of it the steps take depends on their number.",
        "Minsky, Table 2: under ours, from IBM POWER8 and P100 with TensorFlow 1.0; speech was "
        "not measured.",
    ),
    "M-eff": Text(
        "Parallel efficiency",
        "Speed-up of the median training step over the cores used. CPU affinity restricts the "
        "cores, the thread pools are at their defaults.",
        "Minsky, Figure 2, a picture without numbers, for 1 to 20 cores: AlexNet, residual and VGG "
        "scale relatively well, autoenc and memnet do not.",
    ),
    "M-var": Text(
        "Spread from run to run",
        "Wall times of whole training runs over their mean on the CPU, warm-up runs left out. "
        "Points are runs; the box has the quartiles.",
        "Minsky, Figure 4, a picture without numbers, of 200 runs after 10 for warm-up: runs on "
        "the GPU vary too, but are consistently shorter than those on the CPU.",
    ),
    "M-gpu": Text(
        "GPU efficiency",
        "Time in kernels over time in calls to the driver and the runtime, and time in copies over "
        "time in kernels, from the device planes of training profiles on a GPU.",
        "Minsky, Table 1, one P100: beside ours, or alone without a GPU; speech is not in it.",
    ),
    "layers": Text(
        "Where in the model the time goes",
        "The same op times by layer, or role where an op belongs to none: input, network (between "
        "layers), loss, optimizer. Forward pass, backward pass and optimizer apart.",
        "layers are named only in passing; this analysis is our own.",
    ),
    "cost": Text(
        "Work and traffic",
        "MACs of convolutions and matrix products of one example's forward pass, counted from the "
        "architecture; FLOPs are twice as many, for training with the backward pass. Achieved "
        "FLOP/s at the median step, over those of a 2048 x 2048 x 2048 matrix product on as many "
        "threads. By layer: bytes of parameters, and of the output for a batch, and the rate in "
        "the profile.",
        "no such figure; this analysis is our own.",
    ),
}
