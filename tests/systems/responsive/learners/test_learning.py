"""What is learned from: samples and targets, each computed again by hand; and whole trainings."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from gridtune.core.array_files import write_arrays
from gridtune.errors import PolicyError
from gridtune.systems.responsive.learners.learning import (
    Sampler,
)
from gridtune.systems.responsive.learners.networks import draw_network, score_candidates
from gridtune.systems.responsive.learners.runs import (
    BY_VALUE,
    _size_at_end,
    new_learner_state,
    run_site,
    shared_inputs,
)
from gridtune.systems.responsive.learners.settings import PAPER
from gridtune.systems.responsive.learners.training import (
    Trainer,
    learn_online,
    load_policy,
    train,
)
from gridtune.systems.responsive.simulator.candidates import (
    count_candidates,
    feature_count,
    fill_features,
    fill_tick,
    start_candidate,
)
from gridtune.systems.responsive.simulator.replay import SiteReplay, replay
from gridtune.systems.responsive.simulator.stepping import advance_until_decision, resize_pool, start_job
from tests.systems.responsive.learners import twin
from tests.systems.responsive.learners.jobs import ELASTIC, RIGID, some_jobs

SMALL = replace(PAPER, neurons=10, readout_connectivity=0.3, relearn=7, sweeps=2, pretraining_sweeps=2)
WEIGHT = 0.4


def sampled(settings, model=RIGID, sweep=1, jobs=None):
    """Return a sampler after a sweep, its networks, and all its samples."""
    jobs = some_jobs() if jobs is None else jobs
    arrays = draw_network(settings, shared_inputs(3, model.elastic), 5)
    arrays = arrays.with_readout(np.random.default_rng(1).normal(size=arrays.readout.shape))
    sampler, samples = Sampler(jobs, model, settings, WEIGHT, seed=9), []
    sampler.begin(sweep, arrays)
    while not sampler.over:
        samples.append(sampler.sample(arrays))
    return sampler, arrays, samples


def rewards_by_hand(site, jobs, elastic):
    job = site.state.decisions["job"]
    wait = site.state.start[job] - jobs.submit[job]
    other = site.state.decisions["utilisation"] if elastic else site.state.decisions["fairness"]
    return WEIGHT * jobs.run[job] / (jobs.run[job] + wait) + (1 - WEIGHT) * other


@pytest.mark.parametrize("model", [RIGID, ELASTIC])
def test_every_decision_is_learned_from_once_and_knows_its_successor(model) -> None:
    sampler, _, parts = sampled(SMALL, model)
    site, log = sampler.site, sampler._learner_state.log
    assert [part.begins for part in parts] == [True] + [False] * (len(parts) - 1)
    rows = np.concatenate([part.rows for part in parts])
    assert len(rows) == len(some_jobs())
    reward = rewards_by_hand(site, some_jobs(), model.elastic)
    order = [int(np.flatnonzero((log.rows == row).all(1))[0]) for row in rows]
    assert sorted(order) == list(range(len(rows)))
    assert_allclose(np.concatenate([part.reward for part in parts]), reward[order])
    for part, begin in zip(parts, np.cumsum([0] + [len(part) for part in parts[:-1]]), strict=True):
        mine = order[begin : begin + len(part)]
        assert mine == sorted(mine)
        for place, decision in enumerate(mine):
            assert part.last[place] == (decision == len(rows) - 1)
            if not part.last[place]:
                assert_array_equal(part.following_rows[place], log.rows[decision + 1])
                assert_array_equal(part.following[place], log.phi[decision + 1])
            else:
                assert not part.following[place].any()


def test_a_reward_is_not_learned_from_before_the_job_is_done() -> None:
    settings, jobs = replace(SMALL, relearn=1), some_jobs()
    arrays = draw_network(settings, shared_inputs(3, False), 5)
    sampler, count = Sampler(jobs, RIGID, settings, WEIGHT, seed=9), 0
    sampler.begin(1, arrays)
    while not sampler.over:
        count += len(sampler.sample(arrays))
        state = sampler.site.state
        done = (state.start >= 0) & (state.start + jobs.run <= state.memory["now"][0])
        assert count <= done.sum()


def test_what_readouts_see_is_what_the_twin_computes() -> None:
    sampler, arrays, _ = sampled(replace(SMALL, reservoirs=2, leak=0.5))
    state = np.zeros(arrays.bias.shape)
    for row, phi in zip(sampler._learner_state.log.rows, sampler._learner_state.log.phi, strict=True):
        state = twin.next_state(arrays, state, row)
        assert_allclose(phi, twin.phi_of(arrays, state), rtol=1e-11)


def test_sarsa_targets() -> None:
    _, arrays, parts = sampled(SMALL)
    part = max(parts, key=len)
    targets = part.targets(arrays.readout, SMALL)
    for phi, after, last, reward, target in zip(
        part.phi, part.following, part.last, part.reward, targets, strict=True
    ):
        q, following = (float((x * arrays.readout).sum(1).mean()) for x in (phi, after))
        observed = reward + (0.0 if last else 0.8 * following)
        assert target == pytest.approx(q + 0.2 * (observed - q))


@pytest.mark.parametrize("model", [RIGID, ELASTIC])
def test_fitted_targets_take_the_best_of_all_candidates(model) -> None:
    settings, jobs = replace(SMALL, method="fitted_q"), some_jobs(50)
    sampler, arrays, (run,) = sampled(settings, model, jobs=jobs)
    site = jobs.new_site(model)
    best, state = [], np.zeros(arrays.bias.shape)
    for decision in range(len(jobs)):
        assert advance_until_decision(site)
        rows = np.empty((count_candidates(site), arrays.columns.size))
        fill_features(site, rows)
        best.append(max(twin.value(arrays, state, row) for row in rows))
        state = twin.next_state(arrays, state, run.rows[decision])
        start_candidate(site, sampler._learner_state.log.candidate[decision])
    expected = run.reward + 0.8 * np.append(best[1:], 0.0)
    assert_allclose(run.targets(arrays, 0.8), expected, atol=1e-6)


@pytest.mark.parametrize("model", [RIGID, ELASTIC])
@pytest.mark.parametrize("settings", [SMALL, replace(SMALL, method="fitted_q", iterations=2)])
def test_a_learner_resumed_from_its_networks_comes_to_the_same(settings, model, tmp_path) -> None:
    jobs = some_jobs()
    whole = train(jobs, model, settings, weight=WEIGHT, rng=np.random.default_rng(3))
    seed = int(np.random.default_rng(3).integers(2**62))
    begun = Trainer(jobs, model, settings, WEIGHT, seed)
    begun.step()
    resumed = Trainer(jobs, model, settings, WEIGHT, seed)
    resumed.sweep = begun.sweep
    resumed.learner.arrays = begun.learner.arrays
    while not resumed.over:
        resumed.step()
    assert np.abs(whole.arrays.readout).max() > 0
    assert_array_equal(resumed.policy.arrays.readout, whole.arrays.readout)

    whole.save(tmp_path / "policy.npz")
    loaded = load_policy(tmp_path / "policy.npz")
    assert loaded.settings == settings
    one, other = (policy.play(some_jobs(seed=1), model) for policy in (whole, loaded))
    assert_array_equal(one.state.start, other.state.start)
    assert_array_equal(one.state.decisions["pool"], other.state.decisions["pool"])


def online_run(jobs, model, **changes):
    """Return the site after a run that learns, after pre-training on other jobs."""
    settings = replace(SMALL, relearn=1, **changes)
    rng = np.random.default_rng(3)
    return learn_online(some_jobs(64, seed=4), jobs, model, settings, weight=WEIGHT, rng=rng)


@pytest.mark.parametrize("model", [RIGID, ELASTIC])
def test_the_run_that_is_measured_is_the_one_that_learns(model, monkeypatch) -> None:
    """Its decisions are those of the readout of the time, which changes as jobs complete."""
    jobs, settings = some_jobs(), replace(SMALL, relearn=1, epsilon=0.0)
    trainer = Trainer(some_jobs(64, seed=4), model, settings, WEIGHT, 7)
    trainer.step()
    before, taken, sample = trainer.policy, [], Sampler.sample

    def noted(sampler, arrays):
        begin = int(sampler.site.state.memory["decided"][0])
        samples = sample(sampler, arrays)
        taken.extend([arrays] * (int(sampler.site.state.memory["decided"][0]) - begin))
        return samples

    monkeypatch.setattr(Sampler, "sample", noted)
    site = trainer.live(jobs)
    assert len(taken) == len(jobs)
    readouts = {arrays.readout.tobytes() for arrays in taken}
    assert len(readouts) > 10
    assert_array_equal(taken[0].readout, before.arrays.readout)
    # The same decisions again, each by the readout that was the present one.
    again, rng = jobs.new_site(model), np.random.default_rng(0)
    learner = new_learner_state(taken[0])
    for decision, arrays in enumerate(taken):
        run_site(again, learner._replace(arrays=arrays), BY_VALUE, 0.0, 0.0, decision + 1, rng)
    for name in ("job", "time", "pool"):
        assert_array_equal(again.state.decisions[name], site.state.decisions[name])
    for policy in (before, trainer.policy):
        frozen = policy.play(jobs, model)
        assert (frozen.state.decisions["job"] != site.state.decisions["job"]).any()


@pytest.mark.parametrize("model", [RIGID, ELASTIC])
@pytest.mark.parametrize("epsilon", [0.0, 0.3])
def test_a_run_that_learns_never_sees_later_jobs(model, epsilon) -> None:
    jobs = some_jobs(96)
    later = np.arange(len(jobs)) >= 60
    moment, rng = jobs.submit[60], np.random.default_rng(1)
    other = replace(
        jobs,
        run=np.where(later, rng.permutation(jobs.run), jobs.run),
        vo=np.where(later, rng.permutation(jobs.vo), jobs.vo),
    )
    one, two = (online_run(each, model, epsilon=epsilon).state for each in (jobs, other))
    earlier = one.decisions["time"] < moment
    assert earlier.sum() > 20
    for name in ("job", "time", "pool"):
        assert_array_equal(one.decisions[name][earlier], two.decisions[name][earlier])
        assert_array_equal(two.decisions["time"] < moment, earlier)
    assert (one.decisions["time"][~earlier] != two.decisions["time"][~earlier]).any()


def test_only_sarsa_learns_during_a_run() -> None:
    with pytest.raises(PolicyError, match="sarsa"):
        online_run(some_jobs(), RIGID, method="fitted_q")


def test_a_run_that_learns_may_leave_the_pool_to_demand() -> None:
    """With random decisions alone, headroom sizes the pool, and values do without it."""
    sizes = []
    for headroom in (0.0, 2.0):
        rng, jobs = np.random.default_rng(3), some_jobs()
        settings = replace(SMALL, epsilon=0.0)
        site = learn_online(jobs, jobs, ELASTIC, settings, weight=0.0, headroom=headroom, rng=rng)
        sizes.append(site.state.decisions["pool"])
    ruled = replay(some_jobs(), ELASTIC, "fcfs", headroom=2.0).pool
    assert sizes[1].mean() == pytest.approx(ruled.mean(), rel=0.2)
    assert (sizes[0] != sizes[1]).any()


def test_a_file_without_a_policy_is_refused(tmp_path) -> None:
    write_arrays(tmp_path / "one.npz", {"readout": np.zeros(3)}, {})
    with pytest.raises(PolicyError, match="holds no policy"):
        load_policy(tmp_path / "one.npz")
    (tmp_path / "text.npz").write_text("no arrays")
    with pytest.raises(PolicyError, match=r"text\.npz"):
        load_policy(tmp_path / "text.npz")


def test_a_termination_with_an_empty_queue_takes_the_size_of_the_highest_value() -> None:
    jobs, model = some_jobs(), replace(ELASTIC, resized_at_ends=True)
    policy = train(jobs, ELASTIC, replace(SMALL, sweeps=0), rng=np.random.default_rng(0))
    site, learner = jobs.new_site(model), new_learner_state(policy.arrays)
    memory, chosen = site.state.memory, []
    while advance_until_decision(site):
        if not memory["tick_due"][0]:
            start_job(site, 0, int(memory["pool"][0]))
            continue
        count_candidates(site)
        sizes = site.state.options[: memory["options"][0]].copy()
        rows, values = np.zeros((len(sizes), feature_count(site))), np.empty(len(sizes))
        for row, size in zip(rows, sizes, strict=True):
            fill_tick(site, row, size)
        score_candidates(policy.arrays, learner.state, rows, learner.scratch, values)
        resize_pool(site, _size_at_end(site, learner, BY_VALUE, 0.0, 0.0, np.random.default_rng(0)))
        chosen.append((int(memory["pool"][0]), int(sizes[values.argmax()])))
    assert len({size for size, _ in chosen}) > 1
    assert all(size == best for size, best in chosen)


def test_a_pool_may_follow_demand_while_values_choose_the_job() -> None:
    jobs = some_jobs()
    policy = train(jobs, ELASTIC, replace(SMALL, sweeps=0), rng=np.random.default_rng(0))
    policy.arrays.readout[:] = 0.0  # all values alike: the job submitted first goes first
    for headroom in (0.8, 1.5):
        site, ruled = (
            policy.play(jobs, ELASTIC, headroom=headroom),
            replay(jobs, ELASTIC, "fcfs", headroom=headroom),
        )
        assert_array_equal(site.state.start, ruled.start)
        assert_array_equal(SiteReplay.of(site).pool, ruled.pool)
    for model, headroom in ((RIGID, 1.0), (ELASTIC, -1.0), (ELASTIC, float("nan"))):
        with pytest.raises(PolicyError, match="headroom"):
            policy.play(jobs, model, headroom=headroom)


def test_a_policy_is_for_its_own_kind_of_site() -> None:
    policy = train(some_jobs(), RIGID, replace(SMALL, sweeps=0), rng=np.random.default_rng(0))
    with pytest.raises(PolicyError, match="elastic"):
        policy.play(some_jobs(), ELASTIC)


def test_shared_inputs_are_the_same_for_all_candidates() -> None:
    for model in (RIGID, ELASTIC):
        shared = shared_inputs(3, model.elastic)
        site, learner = some_jobs().new_site(model), new_learner_state(draw_network(SMALL, shared, 5))
        run_site(site, learner, BY_VALUE, 1.0, 0.0, 40, np.random.default_rng(0))
        assert advance_until_decision(site)
        rows = np.full((count_candidates(site), len(shared)), np.nan)
        fill_features(site, rows)
        assert np.isfinite(rows).all()
        assert (rows[:, shared] == rows[0, shared]).all()
