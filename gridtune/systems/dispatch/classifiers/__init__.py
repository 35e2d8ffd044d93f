"""Classifiers that scikit-learn does not have, as its estimators, and its trees as plain arrays.

C4.5, locally weighted learning, and naive Bayes over quantities and categories together.
"""

from __future__ import annotations
