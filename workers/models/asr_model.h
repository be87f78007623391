/* workers/models/asr_model.h - what the stage `transcribe` knows of a speech recognition model.
 *
 * A family of models (Whisper) implements struct asr_ops, and has a row in asr_family.c. Its model
 * begins with struct asr_model, its session with struct asr_session, so that one is cast to the
 * other. A model hears windows of audio with an encoder and writes tokens with a decoder.
 *
 * A model is immutable once it is open. A session adds device memory for `slots` windows in work:
 * each slot holds one window's encoder output, and the decoder's cache for each of its branches.
 * One thread per session; several sessions may share a model.
 *
 * On a deterministic device a window's result does not depend on the other slots, the order of
 * calls, or the number of rows of a call. */
#ifndef NIGHTSHIFT_WORKERS_MODELS_ASR_MODEL_H
#define NIGHTSHIFT_WORKERS_MODELS_ASR_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "gpu/precision.h"

#define ASR_RATE_HZ 16000
#define ASR_WINDOW_MAX 480000 /* samples of a window at most: 30 s */
#define ASR_PROMPT_MAX 16     /* tokens that asr_ops.prompt writes at most */
#define ASR_SHORT_TEXT 224    /* struct asr_shape, short_text */
#define ASR_BRANCHES_MAX 32
#define ASR_FOLLOWS (-2)    /* struct asr_row */
#define ASR_AHEAD 2         /* steps under way at most */
#define ASR_WAVES 2         /* calls of the encoder under way at most */
#define ASR_ALIGN_WINDOWS 4 /* asr_shape.align_windows where a device likes many rows at once */

struct asr_model;
struct asr_session;
struct backend; /* gpu/backend.h, as the next five: */
struct rules_spec;
struct choice_ask;
struct choice;
struct candidate;
struct align_hold;
struct vocabulary; /* workers/text/tokenizer/vocabulary.h */

/* The size of a session. It allocates all of its device memory when it is created. */
struct asr_shape {
    uint32_t slots;    /* windows in work; at least 1 */
    uint32_t branches; /* hypotheses of a window, each with its own decoder cache: beams, or
                          candidates of a sampling; 1 .. ASR_BRANCHES_MAX; 0 is taken as 1 */
    uint32_t windows;  /* that the encoder takes at once (1 where the device gains nothing by more,
                          and with `deterministic`); 0: chosen. Fewer go one by one */
    uint32_t align_heads;   /* > 0: align is going to be called, with at most so many heads */
    uint32_t align_windows; /* align has room for so many windows of `positions` tokens; more that
                               are shorter; 0: chosen */
    bool short_text; /* of a window's prompt only asr_ops.prompt is fed, and its text, decoded or
                        aligned, has at most ASR_SHORT_TEXT tokens, or half of the positions where
                        that is more: branches need no room for all positions. A row behind that
                        room, or a longer alignment, is ERR_DEVICE */
};

/* One window for one slot. pcm: n <= window_samples samples in [-1, 1] at ASR_RATE_HZ.
 * sparse_silence: where the device can, the silence behind the audio is computed at fewer places:
 * faster, and nearly the same. */
struct asr_window {
    uint32_t slot;
    const float *pcm;
    size_t n;
    bool sparse_silence;
};

/* One decoder position of one hypothesis: `token` at position `pos` (0-based). pos must not be past
 * the number of tokens that this branch has seen since the window was encoded; a lower one
 * overwrites from there (that is how a window is decoded again at another temperature), and
 * branches that have it from this one (asr_move) have seen no more than what was before it. */
struct asr_row {
    uint32_t slot, branch, pos;
    int32_t token;
};

/* Branch `to` of a slot goes on from where branch `from` is: they share its cache so far. Others
 * that share with `to` what it had beyond that lose it with the next row of `to`, as with a lower
 * one. */
struct asr_move {
    uint32_t slot, from, to;
};

/* A window whose tokens align places in its audio. */
struct asr_alignment {
    uint32_t slot;
    uint32_t frames; /* of frame_samples that hold audio: 1 .. window_samples / frame_samples */
    const int32_t *tokens;         /* [n]: prompt (without timestamps), text, the end */
    uint32_t n;                    /* 2 .. positions, or a short text's (struct asr_shape) */
    uint32_t text;                 /* the first one that is placed, behind the prompt: 1 .. n - 1 */
    const struct align_hold *hold; /* NULL, or [n - text]: the only frames where each may be said */
    uint32_t *first_frame; /* [n - text], is set: the frame at which each token from `text` on
                              begins, as openai-whisper says it: 0 for the first one, ascending,
                              the last is the end's */
    double *logprob;       /* [n], is set: of tokens[i] after those before it, among the text
                              tokens; 0 for i = 0 and for tokens that are no text */
};

/* How to transcribe a window. */
struct asr_task {
    int32_t language; /* its token; any number where the vocabulary has no languages */
    bool translate;   /* into English */
    bool timestamps;
};

/* Sizes and costs, for measurements. */
struct asr_meter {
    uint64_t weight_bytes; /* device memory of the weights, */
    uint64_t slot_bytes;   /*   and what one slot of this shape adds */
    double encoder_flop;   /* of one window: multiply-adds, twice */
    double step_bytes;     /* that a step of all slots must read: the decoder's weights, and each
                              slot's window */
};

/* Time spent since a session was made, from each call to the end of the work that it started. */
struct asr_times {
    int64_t encode_ns; /* of windows, until that was noticed; steps may run meanwhile */
    /* Its parts; cross: what the decoder keeps of a window. A device that works asynchronously (any
     * but the host) adds to them only in calls with `apart` set: timing a part stops the device. */
    int64_t mel_ns, encoder_ns, cross_ns;
    int64_t step_ns; /* steps, choices and alignments; and branches that a step waited for */
    uint64_t windows, steps, tokens;
};

/* Functions return 0 or a negative code and fill err: ERR_VRAM (not enough device memory),
 * ERR_DEVICE (the device, or a call that breaks these rules), ERR_MODEL, ERR_NOMEM. */
struct asr_ops {
    void (*free)(struct asr_model *m); /* NULL is fine; no session is left */

    /* A good number of slots of this shape for this device, whatever shape.slots is; at least 1. */
    uint32_t (*default_slots)(const struct asr_model *m, struct asr_shape shape);
    /* Bytes of the weights and such a session, as they would have been foretold before the model
     * was loaded (asr_family.predict). */
    uint64_t (*predict)(const struct asr_model *m, bool halves, struct asr_shape shape);
    void (*meter)(const struct asr_model *m, struct asr_shape shape, struct asr_meter *ret);

    /* The tokens that a window's text comes after: 1 .. prompt_max of them. The first one is
     * vocabulary_ids()->sot whatever the task: its row tells the language, and whether anybody
     * speaks, before the rest is known. Pure. */
    uint32_t (*prompt)(const struct vocabulary *v, struct asr_task task, int32_t *ret);

    int (*session_new)(struct asr_model *m, struct asr_shape shape, struct asr_session **ret,
                       struct err *err);
    void (*session_free)(struct asr_session *s); /* NULL is fine */
    /* The rules by which tokens are chosen; before the first choose_begin. The spec is copied. */
    int (*session_rules)(struct asr_session *s, const struct rules_spec *spec, struct err *err);

    /* Sets n windows of different slots going through the encoder, a *wave*, and has taken their
     * audio when it returns; their slots have no window until `encoded` has said that they are
     * there. Their decoder caches start empty. ASR_WAVES waves may be under way, of different
     * slots, so that the device need not wait for the host. ERR_VRAM: nothing was lost, call again
     * with fewer. On a device that does one thing at a time (the host) windows are there when it
     * returns. */
    int (*encode_begin)(struct asr_session *s, const struct asr_window *windows, uint32_t n,
                        struct err *err);
    /* The oldest wave under way, whole: how many windows it has; 0: they are not there yet, or none
     * is under way. wait: it sleeps until they are. */
    int (*encoded)(struct asr_session *s, bool wait, uint32_t *ret, struct err *err);

    /* Sets a step going: at most s->rows rows, of different branches, or of one branch at positions
     * that follow each other in the order of the rows (others may stand between them). asks: how to
     * choose from each row's logits (gpu/backend.h: choose); what = 0 only fills caches. top:
     * candidates are wanted, too, in a session of several branches.
     *
     * If s->ahead is set, two steps may be under way, so that the device does not wait for the
     * host; otherwise one. Between begin and end only encode_begin, encoded and,
     * with s->ahead, align may be called on the session; an error in them ends all steps under way.
     *
     * Before the answer is there, a row's token may be ASR_FOLLOWS: the token that the previous
     * step chooses for this slot. Its ask then sets only what, temperature and uniform. If the
     * previous step ended the slot's text (end token, or no usable choice), the row's result is
     * discarded and its choice has token -1.
     *
     * A slot's cache has a row's position from `begin` on. Rows that turn out not to be wanted need
     * not be taken back: a later row at a lower position overwrites them. */
    int (*choose_begin)(struct asr_session *s, const struct asr_row *rows,
                        const struct choice_ask *asks, uint32_t n, bool top, struct err *err);
    /* The choices of the oldest step that has no answer yet; sleeps until it is there. top: NULL
     * unless it was begun so: room for n x (branches + 1) candidates of the rows that asked for a
     * token (gpu/backend.h: top). */
    int (*choose_end)(struct asr_session *s, struct choice *ret, struct candidate *top,
                      struct err *err);
    /* n moves, done as if one after the other; no branch is both a source and a destination, none
     * twice a destination. A call that these rules refuse (ERR_DEVICE) changes nothing. */
    int (*branch)(struct asr_session *s, const struct asr_move *moves, uint32_t n, struct err *err);

    /* How the tokens of n decoded windows, of different slots, follow their audio: feeds them once
     * more (to branch 0 of each slot, whose cache holds just them afterwards, and nothing after an
     * error). They have at most align_tokens tokens together. After session_rules, in a session
     * that was made for it. Called only where align_heads > 0. What a window gets does not depend
     * on the others, as far as the device allows.
     * ERR_MODEL where the logits of a token are not usable (struct choice), or a token is none of
     * the model's: of one of the windows. They may be aligned again, to learn of which. */
    int (*align)(struct asr_session *s, const struct asr_alignment *windows, uint32_t n,
                 struct err *err);
};

/* The first member of a family's model. The family sets all of it when it opens the model. */
struct asr_model {
    const struct asr_ops *ops;
    struct vocabulary *vocab; /* owned: tokenizer, special tokens, languages, and what is never
                                 said; NULL where asr_setup.text was not set */
    uint32_t window_samples;  /* longest window: 1 .. ASR_WINDOW_MAX */
    uint32_t positions;       /* tokens of the decoder's context, prompt included */
    uint32_t vocab_size;      /* logits of a row; at least the vocabulary's size */
    uint32_t prompt_max;      /* tokens of a prompt at most: 1 .. ASR_PROMPT_MAX */
    uint32_t align_heads;   /* attention heads by which align tells where words are; 0: it cannot */
    uint32_t frame_samples; /* audio of one of align's columns */
    const char *language;   /* its only one ("en"), where the vocabulary has no languages */
    enum precision precision;   /* never AUTO */
    enum cache_precision cache; /* how sessions keep windows; never AUTO */
};

/* The first member of a family's session. */
struct asr_session {
    uint32_t rows;         /* that one step takes: at least slots * branches */
    uint32_t windows;      /* that the encoder takes at once */
    uint32_t align_tokens; /* that one call of align takes: at least positions */
    bool ahead;            /* steps may be begun before the one before has its answers */
    bool apart; /* set by the caller: time the encoder's parts, which holds the device up */
    struct asr_times times;
};

struct asr_setup {
    const char *dir; /* the model's folder or file */
    enum precision precision;
    enum cache_precision cache;
    bool text; /* with the vocabulary; false: for who measures, and wants no text */
};

/* A row of asr_family.c. */
struct asr_family {
    const char *own_language; /* code of the one that a model knows whose vocabulary names none */
    /* be is borrowed until ops->free. ERR_MODEL says what is wrong with which file. */
    int (*open)(const struct asr_setup *setup, struct backend *be, struct asr_model **ret,
                struct err *err);
    /* The model's vocabulary alone; ERR_MODEL. Free it with vocabulary_free. */
    int (*vocabulary)(const char *dir, struct vocabulary **ret, struct err *err);
    /* Checks, by headers alone, that the weights are complete and fit the vocabulary, so that a
     * worker does not find out at night. positions: of the decoder. ERR_MODEL. */
    int (*check)(const char *dir, const struct vocabulary *v, uint32_t *positions, struct err *err);
    /* Bytes of device memory that the weights and such a session take, from the sizes that the
     * model's files tell: a prediction within a few percent. precision: not AUTO. halves: of a
     * device that keeps float32 weights of decoder steps as float16 (backend_host_halves).
     * shape.align_heads: any but 0 stands for the model's own number. ERR_MODEL. */
    int (*predict)(const struct asr_setup *setup, bool halves, struct asr_shape shape,
                   uint64_t *ret, struct err *err);
};

#endif
