#include "workers/audio/channels.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "workers/audio/steady.h"

#define SILENT_DB 120   /* below full scale: what is kept of digital silence */
#define SOUND_DB 50     /* a frame has sound where a channel is above this */
#define FAINT_DB 55     /* a voice's loud frames are above this, */
#define BELOW_DB 35     /*   and not further below the loudest channel's */
#define MOVES_DB 12     /* between its quiet and its loud frames */
#define LEAD_DB 12      /* above all others */
#define LEAD_FRAMES 60  /* 3 s */
#define LEAD_SHARE 0.02 /* of the frames with sound */
#define ONE_SOUND 0.6   /* correlation, of all */
#define SAME 0.8        /* and in a frame */
#define NEAR_DB 15      /* of its own loudness: a channel is loud in a frame */
#define BETWEEN 0.06    /* of the frames with sound have the same, loud, in both channels */
#define FOLLOWS 0.75    /* correlation of levels, the one so many frames later or sooner: */
#define LAG_FRAMES 10
#define OTHER 0.4 /* with less of each sign two channels have nothing of one another: */
#define OTHER_SOUND 0.25
#define OTHER_BETWEEN 0.02
#define SPEAKS 0.25    /* of its blocks are speech */
#define SPEAKS_DB 60   /* and its loud frames are above this */
#define ODD_BLOCKS 8   /* one in so many of a noise may be something else */
#define HARMLESS_DB 30 /* a noise so far below a voice does no harm in the mix, */
#define MIXES_WELL 2   /*   nor does the mix of so many channels make a voice much softer */

struct channel_choice {
    uint32_t channels, frames, sounding;
    double dot[HEARING_SOURCES_MAX][HEARING_SOURCES_MAX];   /* sums of products; squares */
    uint8_t level[CHANNEL_FRAMES_MAX][HEARING_SOURCES_MAX]; /* dB below full scale */
    uint32_t same[CHANNEL_FRAMES_MAX]; /* bit pair_of(a, b): one sound is in both */
    struct bands bands[HEARING_SOURCES_MAX];
    uint8_t octave[HEARING_SOURCES_MAX][CHANNEL_FRAMES_MAX][BANDS];
};

int channel_choice_new(uint32_t channels, struct channel_choice **ret, struct err *err)
{
    struct channel_choice *c = calloc(1, sizeof(*c));

    if (!c)
        return err_set(err, ERR_NOMEM, "out of memory");
    c->channels = channels;
    *ret = c;
    return 0;
}

void channel_choice_free(struct channel_choice *c) { free(c); }

static double dot_product(const int16_t *a, const int16_t *b, size_t n)
{
    int64_t sum = 0;

    for (size_t i = 0; i < n; i++)
        sum += (int32_t)a[i] * b[i];
    return (double)sum;
}

uint8_t channel_level_of(double mean_square)
{
    double db = mean_square > 0 ? -10 * log10(mean_square) : SILENT_DB;

    return db < 0 ? 0 : db > SILENT_DB ? SILENT_DB : (uint8_t)lround(db);
}

static uint8_t level_of(double squares, size_t n)
{
    return channel_level_of(squares / (32768.0 * 32768.0 * (double)n));
}

/* a > b */
static uint32_t pair_of(uint32_t a, uint32_t b) { return a * (a - 1) / 2 + b; }

uint8_t channel_level(const int16_t *pcm, size_t n)
{
    return level_of(dot_product(pcm, pcm, n), n);
}

void channel_choice_feed(struct channel_choice *c, const int16_t *const *pcm)
{
    uint8_t *level = c->level[c->frames];
    double squares[HEARING_SOURCES_MAX];
    bool sounds = false;

    if (channel_choice_has_enough(c))
        return;
    for (uint32_t i = 0; i < c->channels; i++) {
        squares[i] = dot_product(pcm[i], pcm[i], CHANNEL_FRAME);
        c->dot[i][i] += squares[i];
        for (uint32_t k = 0; k < i; k++) {
            const double both = dot_product(pcm[i], pcm[k], CHANNEL_FRAME);

            c->dot[i][k] += both;
            if (both * both > SAME * SAME * squares[i] * squares[k])
                c->same[c->frames] |= UINT32_C(1) << pair_of(i, k);
        }
        level[i] = level_of(squares[i], CHANNEL_FRAME);
        sounds |= level[i] < SOUND_DB;
        bands_feed(&c->bands[i], pcm[i], c->octave[i][c->frames]);
    }
    c->frames++;
    c->sounding += sounds;
}

bool channel_choice_has_enough(const struct channel_choice *c)
{
    return c->frames == CHANNEL_FRAMES_MAX || c->sounding >= CHANNEL_SOUND_FRAMES;
}

/* The level below full scale that this share of a channel's frames is at or above. */
static int level_at(const struct channel_choice *c, uint32_t channel, double share)
{
    uint32_t of[SILENT_DB + 1] = {0}, seen = 0;
    int db = 0;

    for (uint32_t f = 0; f < c->frames; f++)
        of[c->level[f][channel]]++;
    while (db < SILENT_DB && (seen += of[db]) < share * c->frames)
        db++;
    return db;
}

uint8_t channel_choice_loud(const struct channel_choice *c, uint32_t channel)
{
    return (uint8_t)level_at(c, channel, 0.05);
}

/* How many of a channel's blocks are of this kind. A short rest is judged with the last one. */
static uint32_t blocks_of(const struct channel_choice *c, uint32_t channel, enum steady kind,
                          uint32_t *all)
{
    uint32_t n = 0, count = 0;

    for (uint32_t f = 0, take; f < c->frames; f += take, count++) {
        const uint32_t left = c->frames - f;

        take = left < STEADY_BLOCK * 3 / 2 ? left : STEADY_BLOCK;
        n += steady_judge(&c->octave[channel][f], take) == kind;
    }
    *all = count;
    return n;
}

/* share: of its blocks. */
static bool is_channel_speaking(const struct channel_choice *c, uint32_t channel, double share)
{
    uint32_t all, n = blocks_of(c, channel, STEADY_SPEECH, &all);

    return n > 0 && n >= share * all && level_at(c, channel, 0.05) < SPEAKS_DB;
}

static bool is_noise(const struct channel_choice *c, uint32_t channel)
{
    uint32_t all, n = blocks_of(c, channel, STEADY_NOISE, &all);

    return n > 0 && n + all / ODD_BLOCKS >= all;
}

/* Bit i: channel i is noise, beside one in which somebody speaks. */
static uint32_t find_noise_channels(const struct channel_choice *c)
{
    uint32_t noise = 0;
    bool any = false;

    for (uint32_t i = 0; i < c->channels; i++) {
        noise |= (uint32_t)is_noise(c, i) << i;
        any |= is_channel_speaking(c, i, SPEAKS);
    }
    return any ? noise : 0;
}

uint32_t channel_choice_noises(const struct channel_choice *c)
{
    const uint32_t noise = find_noise_channels(c);
    double power = 0, voice = SILENT_DB;

    for (uint32_t i = 0; i < c->channels; i++)
        if (noise >> i & 1)
            power += c->dot[i][i] / (32768.0 * 32768.0 * CHANNEL_FRAME * c->frames);
        else if (is_channel_speaking(c, i, SPEAKS))
            voice = fmin(voice, level_at(c, i, 0.05));
    if (c->channels <= MIXES_WELL && power < pow(10, -(voice + HARMLESS_DB) / 10))
        return 0;
    return noise;
}

/* Finds the level of each channel's loud frames; -1: by that alone it is no voice. */
static void find_loud(const struct channel_choice *c, int ret[HEARING_SOURCES_MAX])
{
    const uint32_t noise = find_noise_channels(c);
    int most = SILENT_DB;

    for (uint32_t i = 0; i < c->channels; i++) {
        ret[i] = level_at(c, i, 0.05);
        most = ret[i] < most ? ret[i] : most;
    }
    for (uint32_t i = 0; i < c->channels; i++)
        if ((noise >> i & 1) || ret[i] > FAINT_DB || ret[i] > most + BELOW_DB ||
            level_at(c, i, 0.9) - ret[i] < MOVES_DB)
            ret[i] = -1;
}

/* Frames in which it is above all others, each by its own measure. */
static uint32_t count_leading_frames(const struct channel_choice *c, uint32_t channel,
                                     const int *loud)
{
    uint32_t n = 0;

    for (uint32_t f = 0; f < c->frames; f++) {
        const uint8_t *level = c->level[f];
        bool first = level[channel] < SOUND_DB + 10;

        for (uint32_t i = 0; first && i < c->channels; i++)
            first = i == channel || loud[i] < 0 ||
                    (level[i] - loud[i]) - (level[channel] - loud[channel]) >= LEAD_DB;
        n += first;
    }
    return n;
}

/* a > b, both voices */
static double correlation(const struct channel_choice *c, uint32_t a, uint32_t b)
{
    double both = sqrt(c->dot[a][a] * c->dot[b][b]);

    return both > 0 ? fabs(c->dot[a][b]) / both : 1;
}

/* The share of frames with sound that have one between them, near as loud in both: a singer in the
 * middle, whatever plays to the sides. */
static double measure_middle_share(const struct channel_choice *c, uint32_t a, uint32_t b,
                                   const int *loud)
{
    uint32_t n = 0;

    for (uint32_t f = 0; f < c->frames; f++) {
        const int in_a = c->level[f][a] - loud[a], in_b = c->level[f][b] - loud[b];

        n += (c->same[f] >> pair_of(a, b) & 1) && in_a <= NEAR_DB && in_b <= NEAR_DB &&
             abs(in_a - in_b) < LEAD_DB;
    }
    return c->sounding ? (double)n / c->sounding : 0;
}

/* Decibels of a frame above where nobody hears anything. */
static double measure_level_above(const struct channel_choice *c, uint32_t f, uint32_t channel,
                                  const int *loud)
{
    const int below = c->level[f][channel] - loud[channel];

    return below < BELOW_DB ? BELOW_DB - below : 0;
}

/* How well b's levels are those of a, so many frames later. */
static double correlate_with_lag(const struct channel_choice *c, uint32_t a, uint32_t b,
                                 uint32_t lag, const int *loud)
{
    double n = 0, x = 0, y = 0, xx = 0, yy = 0, xy = 0, of;

    for (uint32_t f = lag; f < c->frames; f++) {
        const double p = measure_level_above(c, f - lag, a, loud),
                     q = measure_level_above(c, f, b, loud);

        n++, x += p, y += q, xx += p * p, yy += q * q, xy += p * q;
    }
    of = (n * xx - x * x) * (n * yy - y * y);
    return of > 0 ? (n * xy - x * y) / sqrt(of) : 0;
}

static double find_echo_correlation(const struct channel_choice *c, uint32_t a, uint32_t b,
                                    const int *loud)
{
    double best = 0;

    for (uint32_t lag = 0; lag <= LAG_FRAMES && lag < c->frames; lag++) {
        best = fmax(best, correlate_with_lag(c, a, b, lag, loud));
        best = fmax(best, correlate_with_lag(c, b, a, lag, loud));
    }
    return best;
}

static bool is_one_sound(const struct channel_choice *c, uint32_t a, uint32_t b, const int *loud)
{
    return correlation(c, a, b) >= ONE_SOUND || measure_middle_share(c, a, b, loud) >= BETWEEN ||
           find_echo_correlation(c, a, b, loud) >= FOLLOWS;
}

/* Frames in which it is near its own loudness. */
static uint32_t loud_frames(const struct channel_choice *c, uint32_t channel, const int *loud)
{
    uint32_t n = 0;

    for (uint32_t f = 0; f < c->frames; f++)
        n += c->level[f][channel] - loud[channel] <= NEAR_DB;
    return n;
}

/* Does it speak for as long as a voice that leads, and has it nothing of any other voice? A channel
 * that is drowned out all the time never leads. */
static bool is_apart(const struct channel_choice *c, uint32_t channel, const int *loud)
{
    bool ret = loud_frames(c, channel, loud) >= LEAD_FRAMES && is_channel_speaking(c, channel, 0);

    for (uint32_t i = 0; ret && i < c->channels; i++) {
        const uint32_t a = i > channel ? i : channel, b = i > channel ? channel : i;

        ret = i == channel || loud[i] < 0 ||
              (correlation(c, a, b) < OTHER_SOUND &&
               measure_middle_share(c, a, b, loud) < OTHER_BETWEEN &&
               find_echo_correlation(c, a, b, loud) < OTHER);
    }
    return ret;
}

uint32_t channel_choice_voices(const struct channel_choice *c)
{
    uint32_t least = (uint32_t)ceil(LEAD_SHARE * c->sounding), voices = 0, count = 0;
    int loud[HEARING_SOURCES_MAX];

    least = least < LEAD_FRAMES ? LEAD_FRAMES : least;
    find_loud(c, loud);
    for (uint32_t i = 0; i < c->channels; i++)
        if (loud[i] >= 0 && (count_leading_frames(c, i, loud) >= least || is_apart(c, i, loud))) {
            voices |= UINT32_C(1) << i;
            count++;
        }
    for (uint32_t i = 0; i < c->channels; i++)
        for (uint32_t k = 0; k < i; k++)
            if ((voices >> i & 1) && (voices >> k & 1) && is_one_sound(c, i, k, loud))
                return 0;
    return count > 1 ? voices : 0;
}

/* ---- crosstalk */

#define APART_DB 12
#define LEAKS_DB 30      /* below its own loudness: nobody speaks into it */
#define RAMP_SAMPLES 80u /* 5 ms */
#define OPEN_KEPT (2 * CROSSTALK_AHEAD + 1)

void crosstalk_look(struct crosstalk *c, const int16_t *const *pcm, size_t n)
{
    int below[HEARING_SOURCES_MAX], least = 255;
    uint8_t open = 0;

    for (uint32_t i = 0; i < c->channels; i++) {
        below[i] = (int)channel_level(pcm[i], n) - c->loud[i];
        least = below[i] < least ? below[i] : least;
    }
    for (uint32_t i = 0; i < c->channels; i++)
        if (below[i] <= LEAKS_DB && below[i] - least < APART_DB)
            open |= (uint8_t)(1u << i);
    c->open[c->seen++ % OPEN_KEPT] = open;
}

/* Bits of the channels that are open in the next frame. */
static uint8_t open_now(const struct crosstalk *c)
{
    uint32_t from = c->given < CROSSTALK_AHEAD ? 0 : c->given - CROSSTALK_AHEAD;
    uint32_t to = c->given + CROSSTALK_AHEAD + 1;
    uint8_t open = 0;

    for (uint32_t f = from; f < to && f < c->seen; f++)
        open |= c->open[f % OPEN_KEPT];
    return open;
}

static void fade_samples(int16_t *pcm, size_t n, bool was, bool is)
{
    for (size_t i = 0; i < n && (!is || i < RAMP_SAMPLES); i++) {
        int32_t gain = i >= RAMP_SAMPLES ? 0 : (int32_t)(is ? i : RAMP_SAMPLES - i);

        pcm[i] = was || is ? (int16_t)(pcm[i] * gain / (int32_t)RAMP_SAMPLES) : 0;
    }
}

void crosstalk_take_out(struct crosstalk *c, int16_t *const *pcm, size_t n)
{
    const uint8_t open = open_now(c), last = c->given ? c->last : open;

    for (uint32_t i = 0; i < c->channels; i++) {
        bool was = last >> i & 1, is = open >> i & 1;

        if (!was || !is)
            fade_samples(pcm[i], n, was, is);
    }
    c->last = open;
    c->given++;
}

/* ---- noise gate */

#define BLOCKS_KEPT 4 /* blocks whose judgement is kept: the next one, and those beside it */

struct noise_gate {
    uint32_t channels, noises;
    bool ended;
    uint64_t looked, mixed;     /* frames */
    uint64_t judged;            /* blocks */
    uint8_t other[BLOCKS_KEPT]; /* of a block, bit i: channel i, a noise, was something else */
    struct bands bands[HEARING_SOURCES_MAX];
    uint8_t level[HEARING_SOURCES_MAX][STEADY_BLOCK][BANDS]; /* of the last frames, in a ring */
    float weight[HEARING_SOURCES_MAX];                       /* in the last sample */
};

static void fill_mix_weights(const struct noise_gate *g, uint32_t heard, float *ret)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < g->channels; i++)
        n += heard >> i & 1;
    for (uint32_t i = 0; i < g->channels; i++)
        ret[i] = heard >> i & 1 ? 1.0f / (float)n : 0;
}

static uint32_t all_of(const struct noise_gate *g) { return (UINT32_C(1) << g->channels) - 1; }

int noise_gate_new(uint32_t channels, uint32_t noises, struct noise_gate **ret, struct err *err)
{
    struct noise_gate *g = calloc(1, sizeof(*g));

    if (!g)
        return err_set(err, ERR_NOMEM, "out of memory");
    g->channels = channels;
    g->noises = noises;
    *ret = g;
    return 0;
}

void noise_gate_free(struct noise_gate *g) { free(g); }

static void judge_noise_channels(struct noise_gate *g)
{
    const size_t n = g->looked < STEADY_BLOCK ? (size_t)g->looked : STEADY_BLOCK;
    uint8_t *other = &g->other[g->judged++ % BLOCKS_KEPT];

    *other = 0;
    for (uint32_t i = 0; i < g->channels; i++)
        if ((g->noises >> i & 1) &&
            steady_judge((const uint8_t(*)[BANDS])g->level[i], n) != STEADY_NOISE)
            *other |= (uint8_t)(1u << i);
}

void noise_gate_look(struct noise_gate *g, const int16_t *const *pcm)
{
    for (uint32_t i = 0; i < g->channels; i++)
        if (g->noises >> i & 1)
            bands_feed(&g->bands[i], pcm[i], g->level[i][g->looked % STEADY_BLOCK]);
    if (++g->looked % STEADY_BLOCK == 0)
        judge_noise_channels(g);
}

/* The rest is judged with what was before it. */
void noise_gate_end(struct noise_gate *g)
{
    if (g->looked % STEADY_BLOCK != 0)
        judge_noise_channels(g);
    g->ended = true;
}

bool noise_gate_ready(const struct noise_gate *g)
{
    return g->ended || g->mixed / STEADY_BLOCK + 1 < g->judged;
}

/* Bit i: channel i is in the mix of the next frame. */
static uint32_t heard_now(const struct noise_gate *g)
{
    const uint64_t block = g->mixed / STEADY_BLOCK;
    uint32_t heard = all_of(g) & ~g->noises;

    for (uint64_t b = block ? block - 1 : 0; b <= block + 1 && b < g->judged; b++)
        heard |= g->other[b % BLOCKS_KEPT];
    return heard;
}

void noise_gate_mix(struct noise_gate *g, const int16_t *const *pcm, size_t n, int16_t *ret)
{
    float to[HEARING_SOURCES_MAX], from[HEARING_SOURCES_MAX];

    fill_mix_weights(g, heard_now(g), to);
    for (uint32_t c = 0; c < g->channels; c++)
        from[c] = g->mixed ? g->weight[c] : to[c];
    for (size_t i = 0; i < n; i++) {
        const float by = i < RAMP_SAMPLES ? (float)i / RAMP_SAMPLES : 1;
        float sum = 0;

        for (uint32_t c = 0; c < g->channels; c++)
            sum += (from[c] + by * (to[c] - from[c])) * pcm[c][i];
        ret[i] = (int16_t)lrintf(sum);
    }
    for (uint32_t c = 0; c < g->channels; c++)
        g->weight[c] = to[c];
    g->mixed++;
}
