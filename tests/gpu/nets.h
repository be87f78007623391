/* tests/gpu/nets.h - the networks that tell speakers and sounds and make vectors, each behind one
 * face: items go in, values come out. Weights come from the parity tests' formulas, in two sizes.
 *
 * An item is what the network takes at a time: a window of audio, or a text. Item i of a network is
 * the same audio or text on every device and in every call. Files lie in the current folder while
 * they are needed; what cannot be made there ends the program. */
#ifndef NIGHTSHIFT_TESTS_GPU_NETS_H
#define NIGHTSHIFT_TESTS_GPU_NETS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "gpu/precision.h"

struct backend;

struct net_setup {
    bool published; /* the published model's sizes; else small ones, for emulated devices */
    bool measured;  /* items as a long recording or a transcript has them, all of one length */
    enum precision precision; /* of a network that has a choice */
    uint32_t items;           /* that there are: 0 .. items - 1 */
    uint32_t at_once;         /* of a call at most */
};

struct net_model; /* one network, loaded */

struct net {
    const char *small, *published; /* names; NULL: not in that size */
    const char *items;             /* what they are: "windows" */
    double seconds;                /* of a recording for each item; 0: a text */
    bool choice;                   /* of precisions; without one it is float32 */
    bool narrow; /* without one: its convolutions are float16, or else TF32, where there is any */
    /* Writes the weights; once for any number of models. */
    void (*make)(const struct net_setup *s);
    int (*open)(const struct net_setup *s, struct backend *be, struct net_model **ret,
                struct err *err);
    /* Items first .. first + n - 1 in one call. ret: [n][values]; undefined where they are
     * measured: then it is what a stage asks for, wherever that goes. */
    int (*run)(struct net_model *m, uint32_t first, uint32_t n, float *ret, struct err *err);
    void (*close)(struct net_model *m);
};

/* What every network's own struct begins with. */
struct net_model {
    size_t values;      /* of an item */
    double item_tokens; /* of a text, special ones included; else 0 */
};

extern const struct net net_pyannet, net_resnet, net_ge2e;                /* nets_voices.c */
extern const struct net net_yamnet, net_clap_audio;                       /* nets_sounds.c */
extern const struct net net_bert, net_bert_base, net_xlmr, net_clap_text; /* nets_texts.c */

#define NETS 9
extern const struct net *const nets[NETS];

/* Which precision a network without a choice takes on a device: float16 or TF32 of its
 * convolutions, or none but float32. */
enum precision net_takes(const struct net *n, const struct backend *be);
/* As n->open in s->precision. One without a choice whose convolutions may be narrow has them in at
 * most that: what is better is kept from it. */
int net_open(const struct net *n, const struct net_setup *s, struct backend *be,
             struct net_model **ret, struct err *err);
/* The last precision, in their order, that a network is tried in. */
enum precision net_last(const struct net *n);
/* NULL: not in that size, or not asked for, with part of a name in $NIGHTSHIFT_GPU_NETWORK. */
const char *net_name(const struct net *n, bool published);
/* Where make() writes, in the current folder: a file, or a folder. */
#define NET_FILE "net.safetensors"
#define NET_FOLDER "net"
/* Takes away what make() wrote. */
void net_clean(void);

/* For nets_*.c: memory, or the end. */
void *net_memory(size_t count, size_t each);

#endif
