// The files of the comparators: the columns of a log in, start times out.

#pragma once

#include <cstdint>
#include <cstdio>
#include <optional>
#include <vector>

using Time = std::int64_t;

struct Jobs {
    std::vector<Time> submit, run, requested, width;
};

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
