// Conservative backfilling with compression, written straightforwardly: what gridtune's kernel is measured against.
//
// The rule. At an instant: all completions; if one came before its requested end, each waiting job in queue order is
// taken out of the profile and put back at the earliest time, if that is before its reservation; then all submissions, each reserved at the earliest
// time; then every job starts whose reserved time has come. A walltime of 0 is planned as a second.
//
// Data structures: the profile is a sorted vector of (time, free processors) that is scanned from the front; a heap of
// completions; a set of reserved starts; a vector of waiting jobs.
//
// Usage: conservative COLUMNS STARTS, files as those of easy.cpp; what follows is not looked at.
// Prints the CPU seconds that the simulation itself took, the number of jobs it started, and the seconds again.

#include "columns.hpp"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <ctime>
#include <limits>
#include <queue>
#include <set>
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

static std::int64_t simulate(const Jobs& jobs, Time processors, std::vector<Time>& start) {
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
            for (const auto job : waiting) {
                const auto begin = profile.earliest(jobs.width[job], length(job), now, start[job]);
                if (begin == start[job]) continue;
                reserved.erase({start[job], job});
                profile.add(start[job], start[job] + length(job), jobs.width[job]);
                reserve(job, begin);
            }
        }
        for (; next < n && jobs.submit[next] == now; ++next) {
            reserve(next, profile.earliest(jobs.width[next], length(next), now, NEVER));
            waiting.push_back(next);
        }
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
    if (argc < 3) return std::fprintf(stderr, "usage: conservative COLUMNS STARTS\n"), 2;
    const auto log = read_log(argv[1]);
    if (!log) return 2;

    const auto before = std::clock();
    std::vector<Time> starts(log->jobs.submit.size(), -1);
    const auto started = simulate(log->jobs, log->processors, starts);
    const double seconds = static_cast<double>(std::clock() - before) / CLOCKS_PER_SEC;

    if (!write_starts(argv[2], starts)) return 2;
    std::printf("%.9f %lld %.9f\n", seconds, static_cast<long long>(started), seconds);
    return 0;
}
