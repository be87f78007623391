/* A Whisper model that plays scripts instead of computing, and fails when told to; tokens are
 * chosen by the host backend's own rules. It has the sizes of the nano model and its vocabulary.
 *
 * Audio chooses the script: the first sample of a window that is not zero is about
 * (index + 1) / 1000. */
#ifndef NIGHTSHIFT_TESTS_FAKE_WHISPER_H
#define NIGHTSHIFT_TESTS_FAKE_WHISPER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FAKE_ATTEMPTS 6
#define FAKE_SCRIPTS 16
#define FAKE_PREVIOUS 300
#define FAKE_PROMPTS 64

struct fake_attempt {
    const int32_t *tokens; /* what the model wants to say; then the end, unless endless */
    uint32_t count;
    bool unsure;  /* thirty words are nearly as likely */
    bool endless; /* the tokens again and again */
};

struct fake_script {
    int32_t language;  /* id that is likeliest */
    int32_t rival;     /* 0: no other language is likely; else this one has */
    double rival_prob; /*   this much of the languages' probability, below one half */
    double no_speech;  /* probability */
    bool broken;       /* logits are no numbers */
    uint32_t attempts; /* a further attempt repeats the last */
    struct fake_attempt attempt[FAKE_ATTEMPTS];
};

/* The tokens before the start of a window's text; with count 0 there were none. */
struct fake_prompt {
    int32_t tokens[FAKE_PREVIOUS];
    uint32_t count, script;
};

struct asr_window;
/* What the fake does and has done. One test at a time. */
struct fake_state {
    struct fake_script scripts[FAKE_SCRIPTS];
    uint32_t windows; /* that the encoder takes at once; 0: one */
    /* ERR_VRAM above; 0: no limit. Slots of a session, slots and windows at once in the encoder,
     * rows of a step. */
    uint32_t session_max, encode_max, windows_max, step_max;
    bool vram_gone;          /* ERR_VRAM from every new session and every encoding */
    int64_t device_fails_at; /* the step call that returns ERR_DEVICE; -1: none */
    uint32_t encode_ms;      /* that a window takes, at least */
    uint32_t encode_asks;    /* how often one has to ask for windows before they are there */
    uint32_t encode_waits;   /* how often somebody waited for them */
    uint32_t encode_calls, windows_encoded, step_calls;
    uint32_t long_sessions; /* whose texts need not be short */
    uint32_t largest_encode;
    uint32_t most_waves; /* under way together */
    uint32_t largest_step;
    uint32_t align_calls, align_fails;        /* windows; ERR_VRAM of the align_fails-th; 0: none */
    uint32_t largest_align;                   /* windows of a call */
    struct fake_prompt prompts[FAKE_PROMPTS]; /* the first ones, as their windows' text begins */
    uint32_t prompt_count;
    void (*on_window)(const struct asr_window *w); /* told of all that is encoded */
};
extern struct fake_state fake;

struct asr_model;
struct vocabulary;
/* With this vocabulary, borrowed. Static: one test at a time. */
struct asr_model *fake_whisper(struct vocabulary *vocab);
float fake_audio(uint32_t script);

#endif
