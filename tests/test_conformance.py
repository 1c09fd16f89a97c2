"""The conformance suite on the eight workloads and on those of ``fathom.modern``."""

import pytest

from fathom import workloads
from fathom.testing.conformance import *  # noqa: F403
from fathom.testing.conformance import check_training_of_three_steps, run_command
from fathom.testing.descriptors import descriptor

WORKLOADS = workloads.select("eight,modern")

# These compile long, or others stand for them: but for the tests below, theirs are slow.
LARGE = (
    *("alexnet", "diffusion", "gpt", "grpo", "llama", "mamba", "moe", "residual", "seq2seq"),
    *("speech", "transformer", "vgg"),
)
ALSO_OF_LARGE = (
    "test_the_model_is_constructed_without_arguments",
    "test_the_command_line_answers_a_mistake_with_one_line_and_exit_code_2",
)

# These compile much or start processes: on other workloads they are slow tests.
NOT_SLOW_ON = {
    "test_each_optimizer_makes_two_steps": ["autoenc", "gcn"],
    "test_a_resumed_training_takes_up_another_learning_rate": ["autoenc", "dlrm", "gcn"],
    "test_the_command_line_infers_in_bfloat16": ["autoenc", "gcn", "memnet"],
    "test_the_description_has_the_networks_layers_at_every_batch": ["autoenc", "dlrm", "gcn"],
    "test_the_papers_batch_can_be_drawn_from_the_synthetic_data": ["autoenc", "gcn", "memnet"],
    "test_a_network_that_is_not_built_is_described_as_if_it_were": ["autoenc", "gcn", "memnet"],
    "test_a_step_runs_without_onednn": [],
    "test_a_run_killed_at_any_moment_resumes_with_the_same_losses": ["autoenc"],
    "test_thirty_steps_of_another_computation_overfit_one_batch": ["autoenc"],
    "test_another_computation_has_the_outputs_and_gradients_of_float32_without_xla": ["autoenc"],
    "test_the_comparison_sees_a_planted_fault": ["autoenc"],
    "test_fixed_point_rounds_what_is_computed_in_the_network_as_it_is": ["autoenc"],
    "test_models_of_several_seeds_live_in_one_process_and_can_be_torn_down": ["autoenc", "gcn"],
    "test_the_command_line_trains_evaluates_and_writes_a_result": ["autoenc", "gcn"],
    "test_microbatches_that_are_computed_at_once_learn_the_same_to_rounding": ["autoenc"],
    "test_evaluation_disturbs_no_training_step": ["autoenc"],
    "test_a_loss_that_is_not_a_number_stops_the_run_and_keeps_the_last_checkpoint": ["autoenc"],
}


def pytest_generate_tests(metafunc):
    """Runs each test on all workloads, as the suite does, and marks what is slow."""
    test = metafunc.function.__name__
    large = LARGE if test in ALSO_OF_LARGE else ()
    others = [name for name in WORKLOADS if name not in LARGE]
    quick = NOT_SLOW_ON.get(test, [*others, *large])
    chosen = [
        pytest.param(name, marks=() if name in quick else pytest.mark.slow) for name in WORKLOADS
    ]
    for fixture in {"workload", "full_size"} & set(metafunc.fixturenames):
        metafunc.parametrize(fixture, chosen, indirect=True, scope="module")


def test_a_process_of_its_own_prints_no_noise(tmp_path):
    workload = descriptor("autoenc")
    arguments = ["fathom", "run", workload.name, *workload.arguments(), "--steps=3", "--evaluate"]
    done = run_command(*arguments, "--json=result.json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    check_training_of_three_steps(done.stdout, tmp_path / "result.json")
