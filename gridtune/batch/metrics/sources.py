"""The publications that define the metrics, each written once."""

__all__ = [
    "FEITELSON_1997",
    "FEITELSON_1998",
    "FEITELSON_2001",
    "GOEMANS_2002",
    "JAIN_1984",
    "KRALLMANN_1999",
    "LARSON_1987",
    "LITTLE_1961",
    "PINEDO_2016",
    "SABIN_2004",
    "SABIN_2005",
    "SHUTDOWN_2022",
    "STREIT_2004",
    "VASUPONGAYYA_2005",
    "ZOTKIN_1999",
]

FEITELSON_1997 = (
    "Feitelson, Rudolph, Schwiegelshohn, Sevcik and Wong, “Theory and practice in parallel job scheduling”, "
    "JSSPP 1997"
)
FEITELSON_1998 = "Feitelson and Rudolph, “Metrics and benchmarking for parallel job scheduling”, JSSPP 1998"
FEITELSON_2001 = "Feitelson, “Metrics for parallel job scheduling and their convergence”, JSSPP 2001"
GOEMANS_2002 = (
    "Goemans, Queyranne, Schulz, Skutella and Wang, “Single machine scheduling with release dates”, SIAM "
    "Journal on Discrete Mathematics 15, 2002"
)
JAIN_1984 = (
    "Jain, Chiu and Hawe, “A quantitative measure of fairness and discrimination for resource allocation in "
    "shared computer systems”, DEC-TR-301, 1984"
)
KRALLMANN_1999 = (
    "Krallmann, Schwiegelshohn and Yahyapour, “On the design and evaluation of job scheduling algorithms”, "
    "JSSPP 1999"
)
LARSON_1987 = (
    "Larson, “Perspectives on queues: social justice and the psychology of queueing”, Operations Research "
    "35, 1987"
)
LITTLE_1961 = "Little, “A proof for the queuing formula L = λW”, Operations Research 9, 1961"
PINEDO_2016 = "Pinedo, “Scheduling: theory, algorithms, and systems”, Springer 2016"
SABIN_2004 = (
    "Sabin, Kochhar and Sadayappan, “Job fairness in non-preemptive job scheduling”, ICPP 2004, "
    "doi 10.1109/ICPP.2004.1327920"
)
SABIN_2005 = (
    "Sabin and Sadayappan, “Unfairness metrics for space-sharing parallel job schedulers”, JSSPP 2005"
)
SHUTDOWN_2022 = (
    "Casagrande, Koslovski, Miers, Pillon and Gonzalez, “Don't hurry be green: scheduling servers shutdown "
    "in grid computing with deep reinforcement learning”, International Journal of Grid and Utility "
    "Computing 13, 2022, doi 10.1504/IJGUC.2022.128303"
)
STREIT_2004 = "Streit, “Enhancements to the decision process of the self-tuning dynP scheduler”, JSSPP 2004"
VASUPONGAYYA_2005 = (
    "Vasupongayya and Chiang, “On job fairness in non-preemptive parallel job scheduling”, PDCS 2005"
)
ZOTKIN_1999 = (
    "Zotkin and Keleher, “Job-length estimation and performance in backfilling schedulers”, HPDC 1999"
)
