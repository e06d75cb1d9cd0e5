#include "numbers.cuh"
#include "state_kernels.hpp"
#include "team.cuh"

namespace ringshard::ops::gpu {

namespace {

constexpr int columns_per_team = 32;
// A thread computes tiles of as many results: it reads a factor once for several of them.
constexpr int tile_columns = 2;
constexpr int tile_tokens = 4;
constexpr int tile_rows = 8;  // of a state
constexpr int tiles_across = columns_per_team / tile_columns;

int64_t round_up_to_tiles(int64_t dk) { return (dk + tile_rows - 1) / tile_rows * tile_rows; }

// The team's memory: some columns of a state and of a chunk's values, and the chunk's reader and
// writer. Rows of the last two are a pack longer, so that threads with neighbouring tokens use
// other banks. What is beyond dk and the columns is 0.
struct Room {
    static constexpr int pack = 4;
    static int64_t floats(int64_t dk, int64_t tokens) {
        const int64_t rows = round_up_to_tiles(dk);
        return (rows + tokens) * columns_per_team + 2 * tokens * (rows + pack);
    }
    RINGSHARD_BOTH Room(float* memory, int num_rows, int num_tokens)
        : rows(num_rows),
          tokens(num_tokens),
          stride(num_rows + pack),
          state(memory),
          values(state + rows * columns_per_team),
          reader(values + tokens * columns_per_team),
          writer(reader + tokens * stride) {}

    int rows;  // of the state
    int tokens;
    int stride;  // of reader and writer
    float* state;
    float* values;
    float* reader;
    float* writer;
};

template <int n>
RINGSHARD_BOTH const Pack<float, n>& in_memory(const float* numbers) {
    return *reinterpret_cast<const Pack<float, n>*>(numbers);
}

// A team updates some columns of the state of a stretch and a head, chunk by chunk: columns are
// independent. n: the numbers of a factor that a thread reads at a time.
template <int n>
struct Walk {
    static constexpr int threads = 256;

    DeltaWalk work;
    int64_t groups;  // of columns
    int rows;        // of the state, in whole tiles

#pragma nv_exec_check_disable
    template <class Team>
    __host__ __device__ void operator()(const Team& team) const {
        const int64_t first = team.number() % groups * columns_per_team;
        const int64_t head = team.number() / groups % work.heads;
        const int64_t stretch = team.number() / groups / work.heads;
        const int64_t rest = work.columns - first;
        const int width = static_cast<int>(rest < columns_per_team ? rest : columns_per_team);
        const Room room(team.memory(), rows, static_cast<int>(work.tokens));
        float* const last =
            work.last + (stretch * work.heads + head) * work.dk * work.columns + first;
        team.each(room.rows * columns_per_team, [&](int64_t i) {
            const int64_t k = i / columns_per_team;
            const int64_t column = i % columns_per_team;
            room.state[i] = k < work.dk && column < width ? last[k * work.columns + column] : 0.0F;
        });
        const int64_t begin = work.chunk_begins[stretch];
        const int64_t count = work.chunk_begins[stretch + 1] - begin;
        for (int64_t step = 0; step < count; ++step) {
            const int64_t chunk = work.backwards ? begin + count - 1 - step : begin + step;
            const int64_t place = chunk * work.heads + head;
            team.sync();
            take(team, work.reader + place * work.tokens * work.dk, room, room.reader);
            take(team, work.writer + place * work.tokens * work.dk, room, room.writer);
            write_state(team, room, work.states + place * work.dk * work.columns + first, width);
            team.sync();
            read(team, place, first, width, room);
            team.sync();
            move(team, place, first, width, room);
        }
        team.sync();
        write_state(team, room, last, width);
    }

#pragma nv_exec_check_disable
    template <class Team>
    __host__ __device__ void take(const Team& team, const float* factor, const Room& room,
                                  float* into) const {
        const int packs = room.rows / n;
        team.each(room.tokens * packs, [&](int64_t i) {
            const int64_t token = i / packs;
            const int64_t k = i % packs * n;
            Pack<float, n> numbers{};
            if (k < work.dk) numbers = in_memory<n>(factor + token * work.dk + k);
            *reinterpret_cast<Pack<float, n>*>(into + token * room.stride + k) = numbers;
        });
    }

#pragma nv_exec_check_disable
    template <class Team>
    __host__ __device__ void write_state(const Team& team, const Room& room, float* into,
                                         int width) const {
        team.each(work.dk * width, [&](int64_t i) {
            const int64_t k = i / width;
            const int64_t column = i % width;
            into[k * work.columns + column] = room.state[k * columns_per_team + column];
        });
    }

    // Makes the values of the chunk from the state, in tiles of tokens and columns.
#pragma nv_exec_check_disable
    template <class Team>
    __host__ __device__ void read(const Team& team, int64_t place, int64_t first, int width,
                                  const Room& room) const {
        team.each(room.tokens / tile_tokens * tiles_across, [&](int64_t tile) {
            const int column = static_cast<int>(tile) % tiles_across * tile_columns;
            const int token = static_cast<int>(tile) / tiles_across * tile_tokens;
            const int64_t at = (place * work.tokens + token) * work.columns + first + column;
            float before[tile_tokens][tile_columns];
            for (int t = 0; t < tile_tokens; ++t)
                for (int c = 0; c < tile_columns; ++c)
                    before[t][c] =
                        column + c < width ? work.values[at + t * work.columns + c] : 0.0F;
            float sums[tile_tokens][tile_columns] = {};
            const float* const reader = room.reader + token * room.stride;
            const float* const state = room.state + column;
            for (int k = 0; k < room.rows; k += Room::pack) {
                Pack<float, Room::pack> factors[tile_tokens];
                for (int t = 0; t < tile_tokens; ++t)
                    factors[t] = in_memory<Room::pack>(reader + t * room.stride + k);
                for (int j = 0; j < Room::pack; ++j) {
                    const auto numbers =
                        in_memory<tile_columns>(state + (k + j) * columns_per_team);
                    for (int t = 0; t < tile_tokens; ++t)
                        for (int c = 0; c < tile_columns; ++c)
                            sums[t][c] += factors[t].numbers[j] * numbers.numbers[c];
                }
            }
            for (int t = 0; t < tile_tokens; ++t)
                for (int c = 0; c < tile_columns; ++c) {
                    const float value = before[t][c] + work.sign * sums[t][c];
                    room.values[(token + t) * columns_per_team + column + c] = value;
                    if (column + c < width) work.new_values[at + t * work.columns + c] = value;
                }
        });
    }

    // Makes the state behind the chunk, in tiles of its rows and columns.
#pragma nv_exec_check_disable
    template <class Team>
    __host__ __device__ void move(const Team& team, int64_t place, int64_t first, int width,
                                  const Room& room) const {
        const float* const whole = work.whole + place * work.decays;
        team.each(room.rows / tile_rows * tiles_across, [&](int64_t tile) {
            const int column = static_cast<int>(tile) % tiles_across * tile_columns;
            const int row = static_cast<int>(tile) / tiles_across * tile_rows;
            const int64_t at = (place * work.dk + row) * work.columns + first + column;
            float added[tile_rows][tile_columns];
            for (int k = 0; k < tile_rows; ++k)
                for (int c = 0; c < tile_columns; ++c)
                    added[k][c] = work.added != nullptr && row + k < work.dk && column + c < width
                                      ? work.added[at + k * work.columns + c]
                                      : 0.0F;
            float sums[tile_rows][tile_columns] = {};
            const float* const writer = room.writer + row;
            const float* const values = room.values + column;
            for (int t = 0; t < room.tokens; ++t) {
                const auto numbers = in_memory<tile_columns>(values + t * columns_per_team);
                for (int part = 0; part < tile_rows; part += Room::pack) {
                    const auto factors = in_memory<Room::pack>(writer + t * room.stride + part);
                    for (int k = 0; k < Room::pack; ++k)
                        for (int c = 0; c < tile_columns; ++c)
                            sums[part + k][c] += factors.numbers[k] * numbers.numbers[c];
                }
            }
            for (int k = 0; k < tile_rows; ++k) {
                // What is beyond dk stays 0 with any decay.
                const float decay = whole[row + k < work.decays ? row + k : 0];
                for (int c = 0; c < tile_columns; ++c) {
                    float& number = room.state[(row + k) * columns_per_team + column + c];
                    number = decay * number + added[k][c] - work.sign * sums[k][c];
                }
            }
        });
    }
};

// Each thread takes some numbers of a state through all chunks of a stretch.
template <int n>
struct PassStates {
    AdditiveWalk work;
    int64_t parts;  // teams of a state
    static constexpr int threads = 256;

#pragma nv_exec_check_disable
    template <class Team>
    __host__ __device__ void operator()(const Team& team) const {
        const int64_t part = team.number() % parts;
        const int64_t head = team.number() / parts % work.heads;
        const int64_t stretch = team.number() / parts / work.heads;
        const int64_t packs = work.size / n - part * threads;
        team.each(packs < threads ? packs : threads, [&](int64_t i) {
            const int64_t at = (part * threads + i) * n;
            float* const last = work.last + (stretch * work.heads + head) * work.size + at;
            Floats<n> state = load<n>(last);
            const int64_t begin = work.chunk_begins[stretch];
            const int64_t count = work.chunk_begins[stretch + 1] - begin;
            for (int64_t step = 0; step < count; ++step) {
                const int64_t chunk = work.backwards ? begin + count - 1 - step : begin + step;
                const int64_t place = chunk * work.heads + head;
                store<n>(work.states + place * work.size + at, state);
                const float whole = work.whole[place];
                const Floats<n> added = load<n>(work.added + place * work.size + at);
                for (int j = 0; j < n; ++j) state[j] = whole * state[j] + added[j];
            }
            store<n>(last, state);
        });
    }
};

// A team for each matrix: forward substitution, each thread in columns of its own.
struct Inverse {
    UnitTriangles work;

#pragma nv_exec_check_disable
    template <class Team>
    __host__ __device__ void operator()(const Team& team) const {
        const int64_t n = work.size;
        float* const below = team.memory();
        float* const inverse = below + n * n;
        const float* const from = work.below_diagonal + team.number() * n * n;
        float* const into = work.inverse + team.number() * n * n;
        team.each(n * n, [&](int64_t i) { below[i] = from[i]; });
        team.sync();
        team.each(n, [&](int64_t column) {
            for (int64_t row = 0; row < n; ++row) {
                float sum = row == column ? 1.0F : 0.0F;
                for (int64_t k = column; k < row; ++k)
                    sum -= below[row * n + k] * inverse[k * n + column];
                inverse[row * n + column] = sum;
                into[row * n + column] = sum;
            }
        });
    }
};

}  // namespace

void delta_walk(const Queue& queue, const DeltaWalk& work) {
    const int64_t groups = (work.columns + columns_per_team - 1) / columns_per_team;
    const auto rows = static_cast<int>(round_up_to_tiles(work.dk));
    const auto walk = [&](auto size) {
        constexpr int n = decltype(size)::value;
        run<Walk<n>::threads>(queue, work.stretches * work.heads * groups,
                              Walk<n>{work, groups, rows}, Room::floats(work.dk, work.tokens));
    };
    if (fits<float>(Room::pack, work.dk, work.reader, work.writer))
        walk(PackSize<Room::pack>());
    else
        walk(PackSize<1>());
}

void state_walk(const Queue& queue, const AdditiveWalk& work) {
    const auto walk = [&](auto size) {
        constexpr int n = decltype(size)::value;
        constexpr int threads = PassStates<n>::threads;
        const int64_t parts = (work.size / n + threads - 1) / threads;
        run<threads>(queue, work.stretches * work.heads * parts, PassStates<n>{work, parts});
    };
    constexpr int pack = 4;
    if (fits<float>(pack, work.size, work.added, work.states, work.last))
        walk(PackSize<pack>());
    else
        walk(PackSize<1>());
}

void invert_unit_triangles(const Queue& queue, const UnitTriangles& work) {
    run<64>(queue, work.count, Inverse{work}, 2 * work.size * work.size);
}

}  // namespace ringshard::ops::gpu
