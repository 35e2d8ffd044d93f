"""What is done in another way than in the papers on a grid site that learns."""

from __future__ import annotations

from gridtune.core.reproduction import Deviation

__all__ = ["DEVIATIONS"]

#: The shares of 2009.
_SHARES = "1=0.53,2=0.02,3=0.17,4=0.08,5=0.01,6=0.16,other=0.03"
_SIMULATOR, _LEARNERS = "gridtune.systems.responsive.simulator", "gridtune.systems.responsive.learners"
_SPACE = "search_spaces/responsive_published.yaml"
#: Of the papers of 2009 and 2010.
DEVIATIONS = (
    Deviation(
        "the PBS log of the site LAL",
        "2009 and 2010, section 4.2",
        "the generated log egee, with the published run times, shares and load",
        "the log is not public",
        {
            f"{_SPACE}:fixed.trace": "egee",
            "search_spaces/responsive_papers.yaml:fixed.trace": "egee",
        },
    ),
    Deviation(
        "NAT is what the site's scheduler did, as logged",
        "2009, section 4.3",
        "first come, first served with at most 17 running jobs of a user and 3 s to start a job",
        "without the log, a model that was fitted to the published W; its F is not fitted",
        {"user_cap": 17, "search_spaces/responsive_papers.yaml:dimensions.start_latency.grid": [3]},
    ),
    Deviation(
        "run times and overheads of 17 million jobs of the whole grid",
        "2009, figures 1 and 2; 2010, figure 1",
        "those of the jobs of the one site",
        "the trace is not public",
        {"gridtune.systems.responsive.report.figures:_draw_workload": True},
    ),
    Deviation(
        "four VOs with target shares 0.53, 0.19, 0.1 and 0.18",
        "2010, section 4.2",
        "the seven shares of 2009",
        "one log serves both papers; four can be set (shares=)",
        {"search_spaces/responsive_papers.yaml:fixed.shares": _SHARES, f"{_SIMULATOR}.site:VOS": 7},
    ),
    Deviation(
        "a pool that changes every 15 minutes, though the site is rigid",
        "2010, section 5.2",
        "81 cores throughout",
        "the section contradicts 4.3, which fixes them; the sizes are not given",
        {"site": "rigid"},
    ),
    Deviation(
        "what a termination with an empty queue learns, and by what values it resizes the pool, is not said",
        "2009, section 4.1",
        "it takes the size whose value is highest without a job; nothing is learned of it",
        "only a job has a reward",
        {
            f"{_SIMULATOR}.stepping:resize_pool": True,
            f"{_SPACE}:dimensions.resized_at.grid": ["ends"],
            f"{_SPACE}:dimensions.pool_charged.grid": ["after"],
        },
    ),
    Deviation(
        "any number of cores can be requested",
        "2009, section 3.2",
        "the floor, and steps of 10 from it up to the ceiling",
        "every candidate is valued, so there must be finitely many",
        {f"{_SIMULATOR}.site:SiteModel.step": 10},
    ),
    Deviation(
        "no ceiling of the pool",
        "2009, section 4.1",
        "162 cores, twice the site",
        "as above; the study shows other ceilings",
        {"largest": None},
    ),
    Deviation(
        "a state has the time until a core is free",
        "2009, section 3.2",
        "the time until the next running job ends",
        "at a decision a core is free",
        {f"{_SIMULATOR}.candidates:_expected_of_running": True},
    ),
    Deviation(
        "features are not said to be scaled",
        "2009, section 3.3",
        "work and times are ln(1 + t)/16 and /12",
        "seconds of weeks would saturate every neuron",
        {f"{_SIMULATOR}.candidates:WORK_SCALE": 16.0, f"{_SIMULATOR}.candidates:TIME_SCALE": 12.0},
    ),
    Deviation(
        "spectral radius, leak, input scale and ridge are not given",
        "2009, section 4.1",
        "0.9, 1, 1 and 0.001; on the elastic site an input scale of 0.03 and a ridge of 10",
        "the second hold the pool whatever the draw of the network; tables of that site have both, and the "
        "study sweeps them with pool size and U beside W",
        {
            f"{_LEARNERS}.settings:PAPER.spectral_radius": 0.9,
            f"{_LEARNERS}.settings:PAPER.leak": 1.0,
            f"{_LEARNERS}.settings:PAPER.input_scale": 1.0,
            f"{_LEARNERS}.settings:PAPER.ridge": 1e-3,
            f"{_SPACE}:dimensions.input_scale.grid": [None, 0.03],
            f"{_SPACE}:dimensions.ridge.grid": [10],
        },
    ),
    Deviation(
        "candidates are inputs of a network with memory, how is not said",
        "2009, section 3.3",
        "all are valued from one state of the reservoir, which the chosen one then updates",
        "the order in which jobs are looked at must not change their values",
        {f"{_LEARNERS}.networks:score_candidates": True},
    ),
    Deviation(
        "the jobs of the pre-training, and its few sweeps, are not given",
        "2009, section 3.3",
        "the first half of the log, five sweeps",
        "some must be chosen; the measured run begins with the same half",
        {"split": 0.5, f"{_LEARNERS}.settings:PAPER.pretraining_sweeps": 5},
    ),
    Deviation(
        "the network is trained from scratch at each new example",
        "2009, section 3.3",
        "after each decision the readout is solved for all examples of the run, whose targets stay as "
        "they were; those of the pre-training are in the prior",
        "recomputing all targets at each of 9,500 decisions takes hours and changes no rule of the algorithm",
        {f"{_LEARNERS}.settings:PAPER.relearn": 1, f"{_LEARNERS}.learning:sarsa_targets": True},
    ),
    Deviation(
        "fitted Q learns from one set of samples",
        "2010, algorithm 1",
        "five runs on the first half, each with ten iterations on its samples; then frozen for the second",
        "the paper does not say how its samples were drawn",
        {
            f"{_LEARNERS}.settings:PAPER.sweeps": 5,
            f"{_LEARNERS}.settings:PAPER.iterations": 10,
            "protocol": "frozen",
            "part": "test",
        },
    ),
    Deviation(
        "costs and their minimum",
        "2010, algorithm 1",
        "rewards and their maximum",
        "the same with the sign changed; the paper's own reward is one",
        {f"{_LEARNERS}.learning:fitted_targets": True},
    ),
)
