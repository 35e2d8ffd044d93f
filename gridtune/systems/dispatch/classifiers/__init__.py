"""Classifiers and models of completion times that dispatchers learn from: scikit-learn's, and what it lacks.

They are scikit-learn estimators. What it does not have is built on it: C4.5's error-based pruning on its
trees, locally weighted learning, naive Bayes over quantities and names together.
"""

from __future__ import annotations
