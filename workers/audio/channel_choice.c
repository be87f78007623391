#include "workers/audio/channel_choice.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define SILENT_DB 120   /* below full scale: what is kept of digital silence */
#define SOUND_DB 50     /* a frame has sound where a channel is above this */
#define FAINT_DB 55     /* a voice's loud frames are above this, */
#define BELOW_DB 35     /*   and not further below the loudest channel's */
#define MOVES_DB 12     /* between its quiet and its loud frames */
#define LEAD_DB 12      /* above all others */
#define LEAD_FRAMES 60  /* 3 s */
#define LEAD_SHARE 0.02 /* of the frames with sound */
#define ONE_SOUND 0.6   /* correlation */

struct channel_choice {
    uint32_t channels, frames, sounding;
    double dot[HEARING_SOURCES_MAX][HEARING_SOURCES_MAX];   /* sums of products; squares */
    uint8_t level[CHANNEL_FRAMES_MAX][HEARING_SOURCES_MAX]; /* dB below full scale */
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

static double product(const int16_t *a, const int16_t *b, size_t n)
{
    int64_t sum = 0;

    for (size_t i = 0; i < n; i++)
        sum += (int32_t)a[i] * b[i];
    return (double)sum;
}

static uint8_t level_of(double squares, size_t n)
{
    double full = 32768.0 * 32768.0 * (double)n;
    double db = squares > 0 ? -10 * log10(squares / full) : SILENT_DB;

    return db < 0 ? 0 : db > SILENT_DB ? SILENT_DB : (uint8_t)lround(db);
}

uint8_t channel_level(const int16_t *pcm, size_t n) { return level_of(product(pcm, pcm, n), n); }

void channel_choice_feed(struct channel_choice *c, const int16_t *const *pcm)
{
    uint8_t *level = c->level[c->frames];
    bool sounds = false;

    if (channel_choice_has_enough(c))
        return;
    for (uint32_t i = 0; i < c->channels; i++) {
        double squares;

        for (uint32_t k = 0; k < i; k++)
            c->dot[i][k] += product(pcm[i], pcm[k], CHANNEL_FRAME);
        squares = product(pcm[i], pcm[i], CHANNEL_FRAME);
        c->dot[i][i] += squares;
        level[i] = level_of(squares, CHANNEL_FRAME);
        sounds |= level[i] < SOUND_DB;
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

/* Of each channel the level of its loud frames; -1: it is no voice by that alone. */
static void find_loud(const struct channel_choice *c, int ret[HEARING_SOURCES_MAX])
{
    int most = SILENT_DB;

    for (uint32_t i = 0; i < c->channels; i++) {
        ret[i] = level_at(c, i, 0.05);
        most = ret[i] < most ? ret[i] : most;
    }
    for (uint32_t i = 0; i < c->channels; i++)
        if (ret[i] > FAINT_DB || ret[i] > most + BELOW_DB ||
            level_at(c, i, 0.9) - ret[i] < MOVES_DB)
            ret[i] = -1;
}

/* Frames in which it is above all others, each by its own measure. */
static uint32_t leads(const struct channel_choice *c, uint32_t channel, const int *loud)
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

static bool is_one_sound(const struct channel_choice *c, uint32_t a, uint32_t b)
{
    double both = sqrt(c->dot[a][a] * c->dot[b][b]);

    return both <= 0 || fabs(c->dot[a > b ? a : b][a > b ? b : a]) / both >= ONE_SOUND;
}

uint32_t channel_choice_voices(const struct channel_choice *c)
{
    uint32_t least = (uint32_t)ceil(LEAD_SHARE * c->sounding), voices = 0, count = 0;
    int loud[HEARING_SOURCES_MAX];

    least = least < LEAD_FRAMES ? LEAD_FRAMES : least;
    find_loud(c, loud);
    for (uint32_t i = 0; i < c->channels; i++)
        if (loud[i] >= 0 && leads(c, i, loud) >= least) {
            voices |= UINT32_C(1) << i;
            count++;
        }
    for (uint32_t i = 0; i < c->channels; i++)
        for (uint32_t k = 0; k < i; k++)
            if ((voices >> i & 1) && (voices >> k & 1) && is_one_sound(c, i, k))
                return 0;
    return count > 1 ? voices : 0;
}
