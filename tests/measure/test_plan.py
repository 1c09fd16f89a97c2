import dataclasses

import pytest

from fathom import FathomError, workloads
from fathom.cli.parser import init_options
from fathom.cli.run import workload_parser
from fathom.measure.runs.plan import Request, plan, powers_of_two
from fathom.measure.runs.request import Wanted
from fathom.options import Characterization, build, sort

REQUEST = Request(
    workloads=dict.fromkeys(["alexnet", "vgg"], Characterization()),
    modes=["train", "infer"],
    devices=["/cpu:0"],
    cores=3,
    threads=[1, 2],
    steps=None,
    repeats=2,
    warmup_runs=1,
    profile_repeats=1,
    precision="float32",
    batch_size=None,
    quick=False,
)

VGG = {"vgg": Characterization()}


def runs(purpose, **changes):
    return [r for r in plan(dataclasses.replace(REQUEST, **changes)) if purpose in r.purpose]


def test_powers_of_two_end_with_the_number_itself():
    assert powers_of_two(1) == [1]
    assert powers_of_two(2) == [1, 2]
    assert powers_of_two(6) == [1, 2, 4, 6]
    assert powers_of_two(8) == [1, 2, 4, 8]


def test_every_workload_is_timed_in_every_mode_on_every_device():
    both = runs("modes", devices=["/cpu:0", "/gpu:0"])
    assert [(r.workload, r.mode, r.device) for r in both[:4]] == [
        ("alexnet", "train", "/cpu:0"),
        ("alexnet", "train", "/gpu:0"),
        ("alexnet", "infer", "/cpu:0"),
        ("alexnet", "infer", "/gpu:0"),
    ]
    assert len(both) == 8
    assert {(r.kind, r.threads, r.cores) for r in both} == {("timing", None, 3)}


def test_profiles_run_with_one_thread_on_the_cpu_and_the_default_on_a_gpu():
    profiles = runs("profile", devices=["/cpu:0", "/gpu:0"])
    assert {(r.device, r.threads) for r in profiles} == {("/cpu:0", 1), ("/gpu:0", None)}
    assert all("--threads=1" in r.argv for r in profiles if r.threads)


def test_a_run_of_several_sets_is_made_once():
    all_runs = plan(REQUEST)
    assert len({r.id for r in all_runs}) == len(all_runs)
    by_id = {r.id: r for r in all_runs}
    assert by_id["vgg-train-cpu0-timing"].purpose == ("modes", "cores")
    assert by_id["vgg-train-cpu0-profile-threads1"].purpose == ("profile", "threads")


def test_cores_go_from_one_to_all():
    assert [r.cores for r in runs("cores", workloads=VGG)] == [3, 1, 2]
    assert [r.cores for r in runs("cores", workloads=VGG, quick=True, cores=8)] == [8, 1, 2, 4]


def test_repeats_follow_their_warm_up_in_turn():
    order = [(r.workload, r.repeat) for r in plan(REQUEST)[-6:]]
    assert order == [(w, n) for n in (-1, 1, 2) for w in ("alexnet", "vgg")]
    assert [r.repeat for r in runs("warmup", workloads=VGG)] == [-1]
    assert [r.repeat for r in runs("repeats", workloads=VGG)] == [1, 2]


def test_profiles_and_timings_that_repeats_leaves_out_are_repeated_after_all_first_ones():
    everything = plan(dataclasses.replace(REQUEST, profile_repeats=3))
    rounds = [r for r in everything if not {"repeats", "warmup"} & {*r.purpose}]
    assert [r.repeat for r in rounds] == sorted(r.repeat for r in rounds)
    assert rounds == everything[: len(rounds)]
    first = [r for r in rounds if r.repeat == 0]
    assert first == plan(REQUEST)[: len(first)]
    again = {(r.kind, r.workload, r.mode, r.threads, r.cores) for r in rounds if r.repeat == 2}
    assert again == {(r.kind, r.workload, r.mode, r.threads, r.cores) for r in first} - {
        ("timing", workload, "train", None, 3) for workload in REQUEST.workloads
    }


def test_repeats_of_training_stay_behind_their_warm_up():
    order = [(r.id, r.purpose) for r in plan(dataclasses.replace(REQUEST, profile_repeats=3))[-4:]]
    assert order == [
        (f"{workload}-train-cpu0-timing-repeat{number}", ("repeats",))
        for number in (1, 2)
        for workload in REQUEST.workloads
    ]


def test_without_warm_up_the_run_that_shows_the_mode_is_the_first_repeat():
    repeats = runs("repeats", workloads=VGG, warmup_runs=0)
    assert [(r.id, r.purpose) for r in repeats] == [
        ("vgg-train-cpu0-timing", ("modes", "cores", "repeats")),
        ("vgg-train-cpu0-timing-repeat1", ("repeats",)),
    ]


def test_inference_alone_has_no_sets_about_training():
    purposes = {p for r in plan(dataclasses.replace(REQUEST, modes=["infer"])) for p in r.purpose}
    assert purposes == {"modes", "profile"}


def test_a_gpu_alone_has_no_sets_about_cpus():
    purposes = {
        p for r in plan(dataclasses.replace(REQUEST, devices=["/gpu:0"])) for p in r.purpose
    }
    assert purposes == {"modes", "profile", "warmup", "repeats"}


def test_quick_takes_smaller_batches_and_fewer_steps_unless_told_otherwise():
    wanted = {"vgg": Characterization(quick_batch_size=4)}
    (vgg,) = runs("modes", workloads=wanted, modes=["infer"], quick=True)
    assert vgg.batch_size == 4
    assert "--batch-size=4" in vgg.argv
    (slow,) = runs("modes", workloads=wanted, modes=["infer"])
    assert slow.batch_size is None
    assert not any(part.startswith("--batch-size") for part in slow.argv)
    (planned,) = runs("modes", workloads=wanted, modes=["infer"], quick=True, batch_size=3, steps=3)
    assert {"--batch-size=3", "--steps=3"} <= set(planned.argv)


@pytest.mark.parametrize("kind", ["timing", "profile"])
def test_a_command_says_everything_that_was_chosen(kind):
    (run,) = [
        r
        for r in plan(dataclasses.replace(REQUEST, precision="bfloat16"))
        if r.workload == "vgg" and r.mode == "infer" and r.kind == kind
    ]
    command = "run" if kind == "timing" else "profile"
    assert run.argv[:5] == ("python", "-m", "fathom", command, "vgg")
    assert ("--quiet" in run.argv) == (kind == "timing")
    assert {"--infer", "--device=/cpu:0", "--precision=bfloat16", "--steps=20"} <= set(run.argv)


def argv(purpose, wanted, **changes):
    changes |= {"modes": ["train"], "threads": [], "cores": 1, "workloads": {"memnet": wanted}}
    (run,) = runs(purpose, **changes)
    return run.argv


def life_of(wanted, **changes):
    return [part for part in argv("profile", wanted, **changes) if part.startswith("--life")]


def test_the_training_profile_on_one_thread_follows_a_whole_run():
    many = Characterization(steps=200, quick_steps=100)
    assert life_of(many) == ["--life=2000"]
    assert life_of(many, quick=True) == ["--life=100"]
    assert life_of(many, quick=True, steps=3) == ["--life=8"]
    profiles = runs("profile", devices=["/cpu:0", "/gpu:0"]) + runs("threads")
    followed = [r for r in profiles if any(part.startswith("--life") for part in r.argv)]
    assert {(r.mode, r.device, r.threads) for r in followed} == {("train", "/cpu:0", 1)}


def test_a_workload_says_for_how_many_steps_it_is_timed():
    many = Characterization(steps=200, quick_steps=100)
    assert "--steps=200" in argv("modes", many)
    assert "--steps=100" in argv("modes", many, quick=True)
    assert "--steps=20" in argv("profile", many)
    assert "--steps=20" in argv("modes", Characterization())
    assert "--steps=8" in argv("modes", Characterization(), quick=True)


def test_a_workload_sets_hyperparameters_of_its_profiles_and_its_quick_runs():
    set_both = Characterization(quick_setting="a=1", profile_setting="b=2")
    sets = [
        [part for part in argv(purpose, set_both, quick=quick) if part.startswith("--set")]
        for purpose in ("modes", "profile")
        for quick in (False, True)
    ]
    assert sets == [[], ["--set=a=1"], ["--set=b=2"], ["--set=b=2", "--set=a=1"]]


def test_a_workload_sets_hyperparameters_of_its_inference_runs():
    wanted = {"vgg": Characterization(inference_setting="a=1")}
    for purpose in ("modes", "profile"):
        train, infer = runs(purpose, workloads=wanted, devices=["/cpu:0"])
        assert ("--set=a=1" in train.argv, "--set=a=1" in infer.argv) == (False, True)


@pytest.mark.parametrize("name", workloads.EIGHT)
def test_a_workloads_settings_are_options_of_its_own(name):
    workload = workloads.load(name)
    wanted = workload.characterization
    settings = (wanted.quick_setting, wanted.profile_setting, wanted.inference_setting)
    for setting in filter(None, settings):
        option, _, value = setting.partition("=")
        values = sort({option: value}, workload.Hyperparameters, workload.RunOptions)
        build(workload.Hyperparameters, values[0])
        build(workload.RunOptions, values[1])


def test_a_sweep_takes_all_workloads_at_a_small_batch_before_any_at_a_large_one():
    sweep = plan(dataclasses.replace(REQUEST, batches=[2, 8], repeats=2, modes=["train"]))
    assert {run.purpose for run in sweep} == {("batches",)}
    assert [(run.batch_size, run.repeat, run.workload) for run in sweep] == [
        (size, repeat, workload)
        for size in (2, 8)
        for repeat in (0, 1)
        for workload in ("alexnet", "vgg")
    ]
    assert len({run.id for run in sweep}) == len(sweep)
    assert "--batch-size=8" in sweep[-1].argv


def program_of(run):
    """Returns what XLA compiles in a planned run on two threads, and its microbatches."""
    args = workload_parser(run.workload, "fathom").parse_args(run.argv[5:])
    model_class = workloads.load(run.workload)
    model = model_class(run.device, init_options(args, model_class))
    model.operations_at_once = 2
    return model.xla, model.microbatches


def test_a_sweep_has_one_program_although_a_run_chooses_by_its_batch():
    wanted = {"workloads": {"gpt": Characterization()}, "batches": [1, 2, 3, 4], "modes": ["train"]}
    sweep = runs("batches", **wanted, repeats=1)
    assert [run.batch_size for run in sweep] == [1, 2, 3, 4]
    assert {program_of(run) for run in sweep} == {("step", 1)}
    argv = [tuple(part for part in run.argv if "microbatches" not in part) for run in sweep]
    alone = [
        program_of(run.model_copy(update={"argv": a})) for run, a in zip(sweep, argv, strict=True)
    ]
    assert alone == [("step", 1), ("off", 2)] * 2


@pytest.mark.parametrize(
    "changes", [{}, {"batches": [1, 2]}, {"workers": [1, 2], "batch_size": 4}, {"quick": True}]
)
def test_all_runs_have_whole_batches(changes):
    planned = plan(dataclasses.replace(REQUEST, **changes))
    assert all("--microbatches=1" in run.argv for run in planned)


def test_a_sweep_does_not_take_the_names_of_other_runs():
    names = {run.id for run in plan(dataclasses.replace(REQUEST, batch_size=8))}
    assert names.isdisjoint(run.id for run in plan(dataclasses.replace(REQUEST, batches=[4, 8])))


def test_every_batch_size_is_measured_even_without_repeats():
    assert len(runs("batches", batches=[1, 2], repeats=0, modes=["infer"])) == 4


def test_workers_share_a_batch_or_have_one_each_beside_threads_of_one_worker():
    found = runs("scaling", workers=[1, 2], batch_size=6, repeats=1, workloads=VGG)
    assert [(r.workers, r.threads, r.batch_size) for r in found] == [
        *((1, 1, 6), (2, 1, 6)),
        *((2, 1, 12), (1, 2, 6)),
    ]
    assert found[1].argv[:6] == ("python", "-m", "fathom", "launch", "--workers=2", "--")
    assert found[1].argv[6:9] == ("vgg", "--quiet", "--train")
    assert len({r.id for r in found}) == 4


def test_a_batch_that_workers_cannot_share_is_only_scaled_up():
    found = runs("scaling", workers=[4], batch_size=6, repeats=1, workloads=VGG)
    assert [(r.workers, r.batch_size) for r in found] == [(4, 24), (1, 6)]


def test_workers_without_a_batch_size_are_refused():
    with pytest.raises(FathomError, match="--workers needs --batch-size"):
        Wanted(precision="float32", quick=True, workers=[1, 2])


@pytest.mark.parametrize("sweep", [{"batches": [1, 2]}, {"workers": [1, 2], "batch_size": 4}])
def test_threads_of_profiles_are_refused_with_a_sweep_which_makes_none(sweep):
    with pytest.raises(FathomError, match=r"--threads has no effect with --(batches|workers)"):
        Wanted(precision="float32", quick=True, threads=[1], **sweep)


@pytest.mark.parametrize("option", [{"repeats": 5}, {"warmup_runs": 3}, {"threads": [1]}])
def test_options_of_training_are_refused_with_inference_alone(option):
    with pytest.raises(FathomError, match="has no effect with --modes infer"):
        Wanted(precision="float32", quick=True, modes=["infer"], **option)


def test_threads_of_profiles_on_the_cpu_are_refused_with_gpus_alone():
    with pytest.raises(FathomError, match="--threads has no effect with --devices gpu"):
        Wanted(precision="float32", quick=True, devices=["gpu"], threads=[1])
