// Conservative backfilling with compression, written straightforwardly: what gridtune's kernel is measured against.
//
// The rule. At an instant: all completions; if one came before its requested end, each waiting job in queue order is
// taken out of the profile and put back at the earliest time, if that is before its reservation; then all submissions, each reserved at the earliest
// time; then every job starts whose reserved time has come. A walltime of 0 is planned as a second.
//
// Data structures: the profile is a sorted vector of (time, free processors) that is scanned from the front; a heap of
// completions; a set of reserved starts; a vector of waiting jobs.
//
// Under an order that changes (wfp3, unicef, xfactor) the waiting jobs are sorted by their scores before each
// compression, and jobs that are submitted together before they are reserved.
//
// Usage: conservative COLUMNS STARTS RULE ORDER, files as those of easy.cpp; the rule is not looked at, and under
// any other order the job submitted first is first.
// Prints the CPU seconds that the simulation itself took, the number of jobs it started, and the seconds again.

#include "columns.hpp"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <ctime>
#include <limits>
#include <queue>
#include <set>
#include <string>
#include <utility>
#include <vector>

constexpr Time NEVER = std::numeric_limits<Time>::max();

struct Step {
    Time time, free;
};

class Profile {
public:
    explicit Profile(Time processors) : steps_{{std::numeric_limits<Time>::min(), processors}} {}

    void add(Time begin, Time end, Time width) {
        const auto first = cut(begin), last = cut(end);
        for (auto i = first; i < last; ++i) steps_[i].free += width;
        for (const auto i : {last, first}) {
            if (i > 0 && steps_[i].free == steps_[i - 1].free) steps_.erase(steps_.begin() + static_cast<std::ptrdiff_t>(i));
        }
    }

    // Returns `latest` if there is nothing before: who is reserved there may use its own processors from then on.
    Time earliest(Time width, Time length, Time now, Time latest) const {
        Time begin = now;
        for (std::size_t i = at(now); i < steps_.size(); ++i) {
            if (steps_[i].time >= std::min(begin + length, latest)) break;
            if (steps_[i].free < width) begin = i + 1 < steps_.size() ? steps_[i + 1].time : NEVER;
        }
        return std::min(begin, latest);
    }

    void forget(Time now) { steps_.erase(steps_.begin(), steps_.begin() + static_cast<std::ptrdiff_t>(at(now))); }

private:
    std::size_t at(Time time) const {
        const auto later = [](Time t, const Step& step) { return t < step.time; };
        return static_cast<std::size_t>(std::upper_bound(steps_.begin(), steps_.end(), time, later) - steps_.begin()) - 1;
    }

    std::size_t cut(Time time) {
        const auto i = at(time);
        if (steps_[i].time == time) return i;
        steps_.insert(steps_.begin() + static_cast<std::ptrdiff_t>(i) + 1, {time, steps_[i].free});
        return i + 1;
    }

    std::vector<Step> steps_;
};

static std::int64_t simulate(const Jobs& jobs, Time processors, const std::string& order, std::vector<Time>& start) {
    const auto n = static_cast<std::int64_t>(jobs.submit.size());
    using Event = std::pair<Time, std::int64_t>;
    Profile profile(processors);
    std::priority_queue<Event, std::vector<Event>, std::greater<>> running;
    std::set<Event> reserved;
    std::vector<std::int64_t> waiting;
    std::int64_t next = 0, started = 0;
    const auto length = [&](std::int64_t job) { return std::max<Time>(jobs.requested[job], 1); };
    const auto reserve = [&](std::int64_t job, Time begin) {
        start[job] = begin;
        profile.add(start[job], start[job] + length(job), -jobs.width[job]);
        reserved.emplace(start[job], job);
    };
    std::vector<double> scores(changes(order) ? jobs.submit.size() : 0);
    const auto sort = [&](std::vector<std::int64_t>::iterator first, Time now) {
        if (scores.empty()) return;
        for (auto at = first; at != waiting.end(); ++at) scores[*at] = score(jobs, order, *at, now);
        std::sort(first, waiting.end(), [&](std::int64_t a, std::int64_t b) {
            return scores[a] < scores[b] || (scores[a] == scores[b] && a < b);
        });
    };
    while (next < n || !reserved.empty()) {
        Time now = next < n ? jobs.submit[next] : NEVER;
        if (!running.empty()) now = std::min(now, running.top().first);
        if (!reserved.empty()) now = std::min(now, reserved.begin()->first);
        profile.forget(now);
        bool early = false;
        for (; !running.empty() && running.top().first == now; running.pop()) {
            const auto job = running.top().second;
            const Time end = start[job] + length(job);
            if (end > now) profile.add(now, end, jobs.width[job]), early = true;
        }
        if (early) {
            sort(waiting.begin(), now);
            for (const auto job : waiting) {
                const auto begin = profile.earliest(jobs.width[job], length(job), now, start[job]);
                if (begin == start[job]) continue;
                reserved.erase({start[job], job});
                profile.add(start[job], start[job] + length(job), jobs.width[job]);
                reserve(job, begin);
            }
        }
        const auto before = static_cast<std::ptrdiff_t>(waiting.size());
        for (; next < n && jobs.submit[next] == now; ++next) waiting.push_back(next);
        sort(waiting.begin() + before, now);
        for (auto at = waiting.begin() + before; at != waiting.end(); ++at)
            reserve(*at, profile.earliest(jobs.width[*at], length(*at), now, NEVER));
        bool due = false;
        for (; !reserved.empty() && reserved.begin()->first == now; reserved.erase(reserved.begin())) {
            const auto job = reserved.begin()->second;
            running.emplace(now + std::min(jobs.run[job], length(job)), job);
            ++started;
            due = true;
        }
        const auto gone = [&](std::int64_t job) { return start[job] == now; };
        if (due) waiting.erase(std::remove_if(waiting.begin(), waiting.end(), gone), waiting.end());
    }
    return started;
}

int main(int argc, char** argv) {
    if (argc != 5) return std::fprintf(stderr, "usage: conservative COLUMNS STARTS RULE ORDER\n"), 2;
    const auto log = read_log(argv[1]);
    if (!log) return 2;

    const auto before = std::clock();
    std::vector<Time> starts(log->jobs.submit.size(), -1);
    const auto started = simulate(log->jobs, log->processors, argv[4], starts);
    const double seconds = static_cast<double>(std::clock() - before) / CLOCKS_PER_SEC;

    if (!write_starts(argv[2], starts)) return 2;
    std::printf("%.9f %lld %.9f\n", seconds, static_cast<long long>(started), seconds);
    return 0;
}
