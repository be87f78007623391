/* nightshift play: hands a place in a recording to a player. */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/utf8.h"
#include "store/read/read.h"
#include "store/store.h"
#include "tools/cli/cli.h"
#include "tools/play_command.h"
#include "tools/recording.h"
#include "tools/search/search_last.h"
#include "tools/cli/text.h"
#include "tools/commands/commands.h"
#include "tools/export/cues.h"

#define AT_MAX_MS ((int64_t)100000 * 3600000)

struct wanted {
    int64_t at_ms; /* -1: not said */
};

static int take_time(void *wanted, const char *value, struct err *err)
{
    struct wanted *w = wanted;

    w->at_ms = strchr(value, ':') ? cues_time_whole(value) : text_parse_length(value, AT_MAX_MS);
    if (w->at_ms < 0 || w->at_ms > AT_MAX_MS)
        return err_set(err, ERR_USAGE, "--at wants a time such as 90, 12:30 or 1h2m, not '%s'",
                       value);
    return 0;
}

struct playing {
    int64_t at_ms;
    int64_t media_id, duration_ms;
    /* The recording's place that can be played and fits the requested name best; owned. */
    char *path; /* of a plain file, raw bytes; absolute: no player takes it for an option */
    char *member;
    size_t path_len, member_len;
    uint32_t nth;
    int worth;  /* how well that goes: 0 nothing yet */
    int rank;   /* as of recording_places */
    int status; /* why it cannot be played; 0 */
};

/* An archive's member goes through a pipe, in which no player can go back. */
static int say_command(const struct playing *p)
{
    const struct play play = {
        .path = p->path,
        .path_len = p->path_len,
        .member = p->member,
        .member_len = p->member_len,
        .nth = p->nth,
        .start_ms = p->at_ms,
        .end_ms = p->duration_ms > p->at_ms ? p->duration_ms : p->at_ms + 60000,
    };
    struct buf command = BUF_INIT;

    cli_note("it is in an archive, which no player can open.%s",
             play_command(&play, &command) ? " This command unpacks and plays it:"
                                           : " Unpack it first.");
    if (command.len > 0 && buf_cstr(&command))
        puts(buf_cstr(&command));
    buf_free(&command);
    return EX_UNAVAILABLE;
}

/* A file that is there, a member of an archive that is, any file (whose name is said). */
static int worth_of(const struct read_other *place, const char *path)
{
    const bool there = access(path, R_OK) == 0;

    return place->member_raw_len == 0 ? (there ? 3 : 1) : there ? 2 : 1;
}

static int on_place(void *arg, const struct read_other *place, int rank)
{
    struct playing *p = arg;
    char *path = strndup(place->path_raw, place->path_raw_len);
    char *member = strndup(place->member_raw, place->member_raw_len);
    const int worth = path && member ? worth_of(place, path) : ERR_NOMEM;

    rank = rank ? rank : INT_MAX;
    if (worth < p->worth || (worth == p->worth && rank >= p->rank)) {
        free(path);
        free(member);
        return worth < 0 ? worth : 0;
    }
    free(p->path);
    free(p->member);
    p->path = path;
    p->path_len = place->path_raw_len;
    p->member = member;
    p->member_len = place->member_raw_len;
    p->nth = place->nth;
    p->worth = worth;
    p->rank = rank;
    return 0;
}

static int on_recording(void *arg, const struct read_recording *r)
{
    struct playing *p = arg;

    p->media_id = r->media_id;
    p->duration_ms = r->duration_ms;
    if (r->duration_ms > 0 && p->at_ms >= r->duration_ms) {
        char length[TEXT_LEN], at[TEXT_LEN];

        cli_note("'%s' is %s long: there is nothing at %s.", r->path,
                 text_length(r->duration_ms, length), text_length(p->at_ms, at));
        p->status = EX_USAGE;
    }
    return 1;
}

static void check_playable(struct playing *p)
{
    if (p->member_len > 0) {
        p->status = say_command(p);
    } else if (access(p->path, R_OK) != 0) {
        const int why = errno;
        char *shown = utf8_display(p->path, p->path_len);

        cli_note("'%s' cannot be read: %s.", shown ? shown : "it", strerror(why));
        free(shown);
        p->status = EX_NOINPUT;
    }
}

/* Comes back when there is no player. */
static int hand_over(const struct playing *p)
{
    char from[48], start[64];
    const char *mpv[] = {"mpv", start, "--", p->path, NULL};
    const char *ffplay[] = {"ffplay", "-hide_banner", "-autoexit", "-ss",
                            from,     "-i",           p->path,     NULL};

    snprintf(from, sizeof(from), "%lld.%03d", (long long)(p->at_ms / 1000), (int)(p->at_ms % 1000));
    snprintf(start, sizeof(start), "--start=%s", from);
    fflush(stdout);
    execvp(mpv[0], (char *const *)mpv);
    execvp(ffplay[0], (char *const *)ffplay);
    cli_note("neither mpv nor ffplay can be started here: %s. `apt install mpv` has one.",
             strerror(errno));
    return EX_UNAVAILABLE;
}

static bool is_number(const char *s) { return s[0] && s[strspn(s, "0123456789")] == 0; }

static int find_playable(struct store *st, const struct cli *cli, const char *what,
                         const struct wanted *w, struct playing *p, struct err *err)
{
    const bool hit = is_number(what);
    int64_t id = 0, start_ms = 0;
    int rc = hit ? search_last_find(cli->catalog, strtoull(what, NULL, 10), &id, &start_ms, err)
                 : recording_find(st, what, &id, err);

    p->at_ms = w->at_ms >= 0 ? w->at_ms : start_ms > PLAY_AROUND_MS ? start_ms - PLAY_AROUND_MS : 0;
    if (rc == 0)
        rc = read_recording_by_id(st, id, on_recording, p, err);
    if (rc == 1 && p->status == 0)
        rc = recording_places(st, id, hit ? NULL : what, on_place, p, err);
    if (rc == 0 && p->path)
        check_playable(p);
    return rc > 0 ? 0 : rc;
}

static const struct command_option options[] = {
    {COMMAND_READ("at", 'a', take_time, "TIME", "start there: 90, 12:30, 1:02:03 or 1h2m3s")},
    {0},
};

const struct command command_play = {
    .name = "play",
    .usage = "[OPTION]... HIT|RECORDING",
    .about = "Play a hit of your last search by its number, starting one second earlier. Or play a "
             "recording, by its path or a unique part of it. The player is mpv, or else ffplay (of "
             "FFmpeg). Players cannot look into archives: for a recording in an archive, the "
             "command that plays it is printed.",
    .options = options,
    .examples = "search harbour\n"
                "play 3\n"
                "play tape-3.wav --at 12:30",
    .statuses = "the player's; 66 if there is no such hit, recording or file; 69 if there is no "
                "player, or the recording is in an archive; others: see sysexits.h.",
};

int cmd_play(struct cli *cli, int argc, char **argv)
{
    struct wanted w = {.at_ms = -1};
    struct playing p = {0};
    struct store *st = NULL;
    struct err err = {0};
    int status = command_parse(cli, &command_play, &w, argc, argv);

    if (status >= 0)
        return status;
    if (optind + 1 != argc)
        return cli_usage(cli, optind < argc ? "one at a time" : "name a hit or recording");
    if (cli_catalog(cli, false, &err) != 0)
        return cli_fail("find the catalog", &err, NULL);
    if (store_open(cli->catalog, STORE_READ, &st, &err) != 0)
        return cli_fail("open the catalog", &err, NULL);
    if (find_playable(st, cli, argv[optind], &w, &p, &err) != 0) {
        status = cli_fail("play it", &err, "`nightshift search` numbers its hits.");
        if (err.code == ERR_MISSING)
            status = EX_NOINPUT;
    }
    store_close(st);
    if (status < 0)
        status = p.status != 0 ? p.status : p.path ? hand_over(&p) : cli_no_memory("play it");
    free(p.path);
    free(p.member);
    return cli_flush(status);
}
