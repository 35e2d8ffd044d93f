"""All that differs here from the paper on DeepShutdown."""

from __future__ import annotations

from gridtune.core.reproduction import Deviation

__all__ = ["DEVIATIONS"]

_SHUTDOWN = "gridtune.systems.shutdown."
DEVIATIONS = (
    Deviation(
        "nine clusters",
        "table 1",
        "the four that the paper simulates; the numbers of the other five are published figures",
        "The paper selects the same four for all of its experiments.",
        {
            f"{_SHUTDOWN}parameters:CLUSTERS": {
                "taurus": (14, 12),
                "orion": (4, 12),
                "graphite": (4, 16),
                "econome": (22, 16),
            }
        },
    ),
    Deviation(
        "days of four clusters, 1,593 to 2,152 of each",
        "table 2",
        "1,511 real days of Taurus where they are on the machine; generated days of the others",
        "The authors publish no others. Those are drawn by tables 1 and 2.",
        {
            "search_spaces/shutdown_timeouts.yaml:workloads": [
                {"trace": f"{cluster}_days", "cluster": cluster}
                for cluster in ("taurus", "orion", "graphite", "econome")
            ]
        },
    ),
    Deviation(
        "energy of each resource of a node",
        "section 3.3",
        "energy of each node; a computing one draws idle power and the rest by its share of busy cores",
        "The authors' code counts waste by node. Its totals leave out the idle power of partly busy nodes.",
        {f"{_SHUTDOWN}metrics:combine_days": True},
    ),
    Deviation(
        "stretch in the state is wait/walltime",
        "equation 2",
        "the wait over the wait after which a job is late, at most 1",
        "The authors' code has it so.",
        {f"{_SHUTDOWN}simulator.clusters:ClusterBatch": True},
    ),
    Deviation(
        "the reward adds watts and cores",
        "equation 3",
        "waste is a share of the largest possible power, late cores a share of all cores",
        "The authors' code has it so; otherwise watts outweigh cores.",
        {f"{_SHUTDOWN}simulator.stepping:pass_minute": True},
    ),
    Deviation(
        "all late jobs of the queue count",
        "equation 5",
        "only late jobs that would start now if nothing were reserved; `variant=exact` counts all",
        "The authors' code has it so.",
        {"variant": "paper"},
    ),
    Deviation(
        "delay",
        "equation 10",
        "mean over late jobs, and a job that never started waits until the end of its day",
        "The equation does not say what becomes of those; published values are met with them.",
        {f"{_SHUTDOWN}reproduction:DELAY": "qos_delay_all_mean"},
    ),
    Deviation(
        "an agent that reads the last 20 observations, in 16 episodes of a day",
        "sections 4.2 and 5.3",
        "the same layers with a state that is carried on through the day; all train days are equally "
        "likely, where the authors' code draws a group of days first",
        "It reads each observation once, not twenty times, and so learns from 16,000 steps a second of a "
        "processor. `network=paper` is the other: after 50 million steps on a GPU it wastes 5 % more than "
        "T(0) on all days, one seed (docs/studies/shutdown.md).",
        {
            f"{_SHUTDOWN}reproduction:TRAINING": "gridtune train shutdown trace=taurus-days.tar.xz "
            "network=recurrent environments=16 steps=1440 schedule=2170 iterations=2170 validate_every=70"
        },
    ),
    Deviation(
        "the agent (DS) on four clusters",
        "table 3, figures 6 to 9",
        "trained on Taurus alone; its row of table 3 is of all 1,511 days, 1,087 of which it learned from",
        "Only Taurus has real days; an agent trained on generated ones would say little of the paper.",
        {f"{_SHUTDOWN}reproduction:DS_CLUSTERS": ("taurus",)},
    ),
    Deviation(
        "random in figures 6 to 8",
        "figures 6 to 8",
        "in the tables of the sweep `shutdown_lstm`; the pictures have the adaptive rule in its place",
        "A picture has at most six policies.",
        {f"{_SHUTDOWN}report:plot_cumulative": True},
    ),
    Deviation(
        "standard deviation, minimum and maximum over days",
        "table 3",
        "in `shutdown_tables.md` of the experiment, published beside ours, and not on this page",
        "They are of days; numbers of this page are means over replicates.",
        {f"{_SHUTDOWN}report:write_comparison": True},
    ),
    Deviation(
        "examples of a timeout and of a reservation",
        "figures 1 and 2",
        "tests with the same jobs and times: starts, switches and waste",
        "They have no axis of energy; the tests say what the paper says of them.",
        {f"{_SHUTDOWN}simulator.replay:replay": True},
    ),
    Deviation(
        "sequential jobs by year, with the status they ended in",
        "figure 3",
        "by group of days, and whether they were killed",
        "The published days have neither years nor failures.",
        {f"{_SHUTDOWN}report:GROUPS": ("[0, 25)", "[25, 50)", "[50, 75)", "[75, 100)", "100")},
    ),
    Deviation(
        "the 10,000 most delayed jobs",
        "figure 8",
        "10,000, but at most a fifth of the jobs that started",
        "Generated days and the real ones of Taurus have fewer jobs than the paper's 60,000 to 82,000.",
        {f"{_SHUTDOWN}report:MOST_DELAYED": 10_000},
    ),
    Deviation(
        "learning curves on four clusters, means of 100 experiments",
        "figure 9",
        "Taurus, three seeds, on 120 held-out train days, with lines of T(0), a coin and the adaptive rule",
        "A curve on days that the agent learns from shows less.",
        {f"{_SHUTDOWN}training:HELD_OUT": 10},
    ),
)
