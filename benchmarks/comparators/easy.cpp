// EASY backfilling, written straightforwardly: what gridtune's kernel is measured against.
//
// The rule. At an instant: all completions, then all submissions, then one pass. Start queued jobs in order
// while they fit. For the first that does not fit, shadow is the earliest time at which, by requested ends,
// enough processors are free, and extra is what is free then (everything released at that very instant
// included) beyond what that job needs. Then, in queue order, start every job that fits now and either ends,
// by request, no later than the shadow, or needs no more than what is left of extra, which it then uses up.
// A job ends after its run time or at its requested time, whichever is first.
//
// Data structures: a heap of completions, a vector of running jobs sorted by requested end, a deque of waiting
// jobs that is scanned from the front. No index over the waiting jobs.
//
// Under an order that does not change (sjf, saf, widest) a job is inserted where it belongs by its score; of equal
// scores the job submitted first is first.
//
// Under an order that changes while jobs wait (wfp3, unicef, xfactor) the waiting jobs are sorted by their scores in
// every pass that may start one; the least score is first, and of equal ones the job submitted first.
//
// Usage: easy COLUMNS STARTS (none|easy) (fcfs|sjf|saf|widest|wfp3|unicef|xfactor)
//   COLUMNS  little-endian int64: n, processors, then n each of submit, run, requested, width
//   STARTS   where to write n int64 start times
// Prints the seconds that the simulation itself took, the number of jobs it started and the seconds of CPU time.

#include "columns.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <ctime>
#include <deque>
#include <queue>
#include <string>
#include <utility>
#include <vector>

struct Running {
    Time requested_end;
    Time width;
    std::int64_t job;
};

class Simulator {
public:
    Simulator(const Jobs& jobs, Time processors, bool backfilling, std::string order)
        : jobs_(jobs), free_(processors), backfilling_(backfilling), order_(std::move(order)),
          sorted_(order_ == "sjf" || order_ == "saf" || order_ == "widest"),
          changing_(changes(order_)), starts_(jobs.submit.size(), -1),
          scores_(order_ == "fcfs" ? 0 : jobs.submit.size()) {}

    std::int64_t simulate() {
        const auto n = static_cast<std::int64_t>(jobs_.submit.size());
        std::int64_t next = 0;
        while (next < n || !completions_.empty()) {
            const Time now = next == n                ? completions_.top().first
                             : completions_.empty() ? jobs_.submit[next]
                                                      : std::min(jobs_.submit[next], completions_.top().first);
            while (!completions_.empty() && completions_.top().first == now) {
                complete(completions_.top().second);
                completions_.pop();
            }
            while (next < n && jobs_.submit[next] == now) arrive(next++);
            pass(now);
        }
        return started_;
    }

    const std::vector<Time>& starts() const { return starts_; }

private:
    static bool earlier(const Running& a, const Running& b) { return a.requested_end < b.requested_end; }

    void start(std::int64_t job, Time now) {
        starts_[job] = now;
        ++started_;
        free_ -= jobs_.width[job];
        completions_.emplace(now + std::min(jobs_.run[job], jobs_.requested[job]), job);
        const Running entry{now + jobs_.requested[job], jobs_.width[job], job};
        running_.insert(std::upper_bound(running_.begin(), running_.end(), entry, earlier), entry);
    }

    void arrive(std::int64_t job) {
        if (!sorted_) return waiting_.push_back(job);
        const double width = static_cast<double>(jobs_.width[job]);
        const double length = static_cast<double>(jobs_.requested[job]);
        scores_[job] = order_ == "sjf" ? length : order_ == "saf" ? width * length : -width;
        const auto better = [&](std::int64_t a, std::int64_t b) { return scores_[a] < scores_[b]; };
        waiting_.insert(std::upper_bound(waiting_.begin(), waiting_.end(), job, better), job);
    }

    void complete(std::int64_t job) {
        const Running entry{starts_[job] + jobs_.requested[job], 0, job};
        auto at = std::lower_bound(running_.begin(), running_.end(), entry, earlier);
        while (at->job != job) ++at;
        running_.erase(at);
        free_ += jobs_.width[job];
    }

    void sort_waiting(Time now) {
        const auto fits = [&](std::int64_t job) { return jobs_.width[job] <= free_; };
        if (std::none_of(waiting_.begin(), waiting_.end(), fits)) return;
        for (const auto job : waiting_) scores_[job] = score(jobs_, order_, job, now);
        std::sort(waiting_.begin(), waiting_.end(), [&](std::int64_t a, std::int64_t b) {
            return scores_[a] < scores_[b] || (scores_[a] == scores_[b] && a < b);
        });
    }

    void pass(Time now) {
        if (changing_) sort_waiting(now);
        while (!waiting_.empty() && jobs_.width[waiting_.front()] <= free_) {
            start(waiting_.front(), now);
            waiting_.pop_front();
        }
        if (backfilling_ && waiting_.size() > 1 && free_ > 0) backfill(now);
    }

    void backfill(Time now) {
        const Time head_width = jobs_.width[waiting_.front()];
        Time available = free_;
        Time shadow = now;
        for (std::size_t i = 0; i < running_.size(); ++i) {
            if (available >= head_width && running_[i].requested_end > shadow) break;
            available += running_[i].width;
            shadow = running_[i].requested_end;
        }
        Time extra = available - head_width;
        for (std::size_t i = 1; i < waiting_.size() && free_ > 0;) {
            const auto job = waiting_[i];
            const Time width = jobs_.width[job];
            const bool in_time = now + jobs_.requested[job] <= shadow;
            if (width > free_ || !(in_time || width <= extra)) {
                ++i;
                continue;
            }
            if (!in_time) extra -= width;
            start(job, now);
            waiting_.erase(waiting_.begin() + static_cast<std::ptrdiff_t>(i));
        }
    }

    using Completion = std::pair<Time, std::int64_t>;

    const Jobs& jobs_;
    Time free_;
    bool backfilling_;
    std::string order_;
    bool sorted_, changing_;
    std::int64_t started_ = 0;
    std::vector<Time> starts_;
    std::vector<double> scores_;
    std::deque<std::int64_t> waiting_;
    std::vector<Running> running_;
    std::priority_queue<Completion, std::vector<Completion>, std::greater<>> completions_;
};

int main(int argc, char** argv) {
    const char* usage = "usage: easy COLUMNS STARTS (none|easy) (fcfs|sjf|saf|widest|wfp3|unicef|xfactor)\n";
    if (argc != 5) return std::fputs(usage, stderr), 2;
    const auto log = read_log(argv[1]);
    if (!log) return 2;

    const auto clock_before = std::clock();
    const auto before = std::chrono::steady_clock::now();
    Simulator simulator(log->jobs, log->processors, std::string(argv[3]) == "easy", argv[4]);
    const auto started = simulator.simulate();
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - before;
    const double cpu_seconds = static_cast<double>(std::clock() - clock_before) / CLOCKS_PER_SEC;

    if (!write_starts(argv[2], simulator.starts())) return 2;
    std::printf("%.9f %lld %.9f\n", seconds.count(), static_cast<long long>(started), cpu_seconds);
    return 0;
}
