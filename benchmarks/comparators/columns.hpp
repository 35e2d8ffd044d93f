// What the comparators share: the files (the columns of a log in, start times out), and scores.

#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>
#include <vector>

using Time = std::int64_t;

struct Jobs {
    std::vector<Time> submit, run, requested, width;
};

inline bool changes(const std::string& order) { return order == "wfp3" || order == "unicef" || order == "xfactor"; }

// The score of a waiting job under an order that changes; the least is first.
inline double score(const Jobs& jobs, const std::string& order, std::int64_t job, Time now) {
    const double wait = static_cast<double>(now - jobs.submit[job]);
    const double width = static_cast<double>(jobs.width[job]);
    const double length = static_cast<double>(std::max<Time>(jobs.requested[job], 1));
    if (order == "wfp3") return -width * std::pow(wait / length, 3.0);
    if (order == "unicef") return -wait / (std::max(std::log2(width), 1.0) * length);
    return -(wait + static_cast<double>(jobs.requested[job])) / length;
}

struct Log {
    Jobs jobs;
    Time processors;
};

inline bool read_all(std::FILE* file, std::vector<Time>& values) {
    return std::fread(values.data(), sizeof(Time), values.size(), file) == values.size();
}

// Reads little-endian int64: n, processors, then n each of submit, run, requested, width. Says what is wrong.
inline std::optional<Log> read_log(const char* path) {
    std::FILE* in = std::fopen(path, "rb");
    std::vector<Time> head(2);
    if (!in || !read_all(in, head)) return std::fprintf(stderr, "cannot read %s\n", path), std::nullopt;
    Log log{{}, head[1]};
    for (auto* column : {&log.jobs.submit, &log.jobs.run, &log.jobs.requested, &log.jobs.width}) {
        column->resize(static_cast<std::size_t>(head[0]));
        if (!read_all(in, *column)) return std::fprintf(stderr, "%s is too short\n", path), std::nullopt;
    }
    std::fclose(in);
    return log;
}

// Writes n int64; says what is wrong.
inline bool write_starts(const char* path, const std::vector<Time>& starts) {
    std::FILE* out = std::fopen(path, "wb");
    if (out && std::fwrite(starts.data(), sizeof(Time), starts.size(), out) == starts.size() && !std::fclose(out))
        return true;
    return std::fprintf(stderr, "cannot write %s\n", path), false;
}
