"""What a predictor says of the jobs of a replay, in plain Python: every job is looked at in every event."""

from __future__ import annotations

import math

from gridtune.batch.predictors import PredictedJob

__all__ = ["PredictionTwin"]


class PredictionTwin:
    """The predictions of all jobs, for the reference simulator."""

    def __init__(self, predictor, jobs, walltime="log"):
        self.predictor, self.jobs, self.planned = predictor, jobs, walltime == "predicted"
        self.latest, self.due, self.active, self.began = {}, {}, [], {}

    def predict(self, job, now):
        elapsed = now - self.began[job.number] if job.number in self.began else 0
        said = self.predictor.predict(self.view(job, elapsed), now)
        self.latest[job.number] = said._replace(mean=min(said.mean, job.requested))
        self.due[job.number] = now + self.predictor.interval
        self.hasten(job, now)

    def hasten(self, job, now):
        """Let a running job be predicted again once it has run for longer than predicted."""
        if job.number in self.began:
            end = self.began[job.number] + math.ceil(self.latest[job.number].mean)
            self.due[job.number] = min(self.due[job.number], max(end, now + 60))

    def view(self, job, elapsed):
        owners = job.user, job.group, job.queue, job.partition
        return PredictedJob(job.number, job.submit, job.requested, job.processors, *owners, elapsed)

    def renew(self, now):
        due = [job for job in self.active if self.due[job.number] <= now]
        for job in sorted(due, key=lambda job: (self.due[job.number], job.number)):
            self.predict(job, now)

    def submitted(self, job, now):
        self.renew(now)
        self.active.append(job)
        self.predictor.submitted(self.view(job, 0), now)
        self.predict(job, now)
        if self.planned:
            job.walltime = max(1, math.ceil(self.latest[job.number].mean))

    def started(self, job, now):
        self.began[job.number] = now
        self.hasten(job, now)

    def ended(self, job, now):
        self.renew(now)
        self.active.remove(job)
        self.predictor.ended(self.view(job, job.run), job.run, now)
        for other in self.active:
            if other.user == job.user and other.number not in self.began:
                self.predict(other, now)
