#include "store/search/spelling.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* What stands before -our and -or, in words and in what is made of them: harbour, harbours,
 * harboured; favourite; neighbourhood. */
static const char *const our[] = {
    "arb",    "ard",    "arm",  "behavi",    "cand",   "clam", "col",  "demean", "discol",
    "disfav", "dishon", "enam", "endeav",    "fav",    "ferv", "flav", "glam",   "harb",
    "hon",    "hum",    "lab",  "misdemean", "neighb", "od",   "parl", "ranc",   "rig",
    "rum",    "savi",   "sav",  "splend",    "succ",   "tum",  "val",  "vap",    "vig",
};

/* What stands before -re and -er: centre, centres, centred, centring. */
static const char *const re[] = {
    "calib",  "cent",  "centilit", "centimet", "epicent", "fib",   "goit",       "kilomet",   "lit",
    "lust",   "meag",  "millilit", "millimet", "met",     "mit",   "och",        "reconnoit", "sab",
    "salpet", "scept", "sepulch",  "somb",     "spect",   "theat", "amphitheat",
};

/* Both ways, at the beginning of a word, with what follows: aeroplanes and airplanes. */
static const struct {
    const char *british, *american;
} beginnings[] = {
    {"aeroplane", "airplane"},
    {"aesthet", "esthet"},
    {"aluminium", "aluminum"},
    {"anaem", "anem"},
    {"anaesth", "anesth"},
    {"analyse", "analyze"},
    {"analysi", "analyzi"},
    {"archaeolog", "archeolog"},
    {"artefact", "artifact"},
    {"axe", "ax"},
    {"behove", "behoove"},
    {"caesarean", "cesarean"},
    {"catalyse", "catalyze"},
    {"catalysi", "catalyzi"},
    {"cosy", "cozy"},
    {"cosi", "cozi"},
    {"defence", "defense"},
    {"diarrhoea", "diarrhea"},
    {"doughnut", "donut"},
    {"draught", "draft"},
    {"encyclopaed", "encycloped"},
    {"enquir", "inquir"},
    {"enrolment", "enrollment"},
    {"faec", "fec"},
    {"foetu", "fetu"},
    {"foeta", "feta"},
    {"fulfilment", "fulfillment"},
    {"gaol", "jail"},
    {"grey", "gray"},
    {"gynaecolog", "gynecolog"},
    {"haemo", "hemo"},
    {"haema", "hema"},
    {"homoeopath", "homeopath"},
    {"instalment", "installment"},
    {"jewellery", "jewelry"},
    {"jeweller", "jeweler"},
    {"judgement", "judgment"},
    {"kerb", "curb"},
    {"leukaemi", "leukemi"},
    {"licence", "license"},
    {"likeable", "likable"},
    {"manoeuvre", "maneuver"},
    {"manoeuvring", "maneuvering"},
    {"manoeuvred", "maneuvered"},
    {"maths", "math"},
    {"mediaeval", "medieval"},
    {"mould", "mold"},
    {"moult", "molt"},
    {"moustache", "mustache"},
    {"mum", "mom"},
    {"oesophag", "esophag"},
    {"oestrogen", "estrogen"},
    {"offence", "offense"},
    {"orthopaed", "orthoped"},
    {"paediatric", "pediatric"},
    {"paralyse", "paralyze"},
    {"paralysi", "paralyzi"},
    {"plough", "plow"},
    {"practise", "practice"},
    {"pretence", "pretense"},
    {"programme", "program"},
    {"pyjama", "pajama"},
    {"sceptic", "skeptic"},
    {"skilful", "skillful"},
    {"smoulder", "smolder"},
    {"speciality", "specialty"},
    {"specialities", "specialties"},
    {"sulphur", "sulfur"},
    {"tranquillity", "tranquility"},
    {"tyre", "tire"},
    {"whisky", "whiskey"},
    {"wilful", "willful"},
    {"woollen", "woolen"},
    {"yoghurt", "yogurt"},
    {"acknowledgement", "acknowledgment"},
    {"ageing", "aging"},
    {"enrol", "enroll"},
    {"fulfil", "fulfill"},
    {"distil", "distill"},
    {"instil", "instill"},
};

/* Whole words. */
static const struct {
    const char *british, *american;
} wholes[] = {
    {"burnt", "burned"},       {"dreamt", "dreamed"},       {"leant", "leaned"},
    {"leapt", "leaped"},       {"learnt", "learned"},       {"smelt", "smelled"},
    {"spelt", "spelled"},      {"spoilt", "spoiled"},       {"spilt", "spilled"},
    {"towards", "toward"},     {"afterwards", "afterward"}, {"forwards", "forward"},
    {"backwards", "backward"}, {"upwards", "upward"},       {"downwards", "downward"},
    {"amongst", "among"},      {"whilst", "while"},
};

/* Behind at least three letters, whatever these are. */
static const struct {
    const char *british, *american;
} endings[] = {
    {"ise", "ize"},   {"ises", "izes"},   {"ised", "ized"},       {"ising", "izing"},
    {"iser", "izer"}, {"isers", "izers"}, {"isation", "ization"}, {"isations", "izations"},
    {"ogue", "og"},   {"ogues", "ogs"},   {"ogued", "oged"},
};

/* Of words of two syllables and more: travelled, traveled. Of one syllable both are words of their
 * own: filling, filing. */
static const char *const doubled[] = {"ed", "ing", "ings", "er", "ers", "or", "ors"};

struct giving {
    void (*give)(void *arg, const char *other);
    void *arg;
};

/* The first n letters of the word, and then the others. */
static void give(const struct giving *g, const char *word, size_t n, const char *a, const char *b)
{
    char other[SPELLING_BYTES];
    int len = snprintf(other, sizeof(other), "%.*s%s%s", (int)n, word, a, b);

    if (len > 0 && (size_t)len < sizeof(other))
        g->give(g->arg, other);
}

static bool begins(const char *s, const char *with) { return strncmp(s, with, strlen(with)) == 0; }

static void give_our(const struct giving *g, const char *word)
{
    for (size_t i = 0; i < sizeof(our) / sizeof(our[0]); i++) {
        const size_t n = strlen(our[i]);

        if (!begins(word, our[i]))
            continue;
        if (begins(word + n, "our"))
            give(g, word, n, "or", word + n + 3);
        else if (begins(word + n, "or"))
            give(g, word, n, "our", word + n + 2);
    }
}

static void give_re(const struct giving *g, const char *word)
{
    static const char *const ends[][2] = {
        {"re", "er"}, {"res", "ers"}, {"red", "ered"}, {"ring", "ering"}};

    for (size_t i = 0; i < sizeof(re) / sizeof(re[0]); i++) {
        const size_t n = strlen(re[i]);

        if (!begins(word, re[i]))
            continue;
        for (size_t k = 0; k < sizeof(ends) / sizeof(ends[0]); k++)
            for (int way = 0; way < 2; way++)
                if (strcmp(word + n, ends[k][way]) == 0)
                    give(g, word, n, ends[k][!way], "");
    }
}

static void give_beginnings(const struct giving *g, const char *word)
{
    for (size_t i = 0; i < sizeof(beginnings) / sizeof(beginnings[0]); i++) {
        const char *ways[] = {beginnings[i].british, beginnings[i].american};

        for (int way = 0; way < 2; way++)
            if (begins(word, ways[way]))
                give(g, "", 0, ways[!way], word + strlen(ways[way]));
    }
}

static void give_wholes(const struct giving *g, const char *word)
{
    for (size_t i = 0; i < sizeof(wholes) / sizeof(wholes[0]); i++) {
        if (strcmp(word, wholes[i].british) == 0)
            give(g, "", 0, wholes[i].american, "");
        if (strcmp(word, wholes[i].american) == 0)
            give(g, "", 0, wholes[i].british, "");
    }
}

/* Where the ending begins, of a word that has at least `before` letters in front; 0: it has not. */
static size_t ends(const char *word, const char *ending, size_t before)
{
    const size_t n = strlen(word), e = strlen(ending);

    return n >= before + e && strcmp(word + n - e, ending) == 0 ? n - e : 0;
}

static void give_endings(const struct giving *g, const char *word)
{
    for (size_t i = 0; i < sizeof(endings) / sizeof(endings[0]); i++) {
        const char *ways[] = {endings[i].british, endings[i].american};

        for (int way = 0; way < 2; way++) {
            const size_t at = ends(word, ways[way], 3);

            if (at > 0)
                give(g, word, at, ways[!way], "");
        }
    }
}

static unsigned syllables(const char *word, size_t n)
{
    unsigned count = 0;
    bool in = false;

    for (size_t i = 0; i < n; i++) {
        const bool is = strchr("aeiouy", word[i]) != NULL;

        count += is && !in;
        in = is;
    }
    return count;
}

static void give_doubled(const struct giving *g, const char *word)
{
    for (size_t i = 0; i < sizeof(doubled) / sizeof(doubled[0]); i++) {
        const size_t at = ends(word, doubled[i], 4);

        if (at == 0 || word[at - 1] != 'l' || syllables(word, at) < 2)
            continue;
        if (word[at - 2] == 'l')
            give(g, word, at - 1, doubled[i], "");
        else if (strchr("aeiou", word[at - 2]))
            give(g, word, at, "l", doubled[i]);
    }
}

void spelling_each(const char *word, void (*fn)(void *arg, const char *other), void *arg)
{
    const struct giving g = {fn, arg};

    give_our(&g, word);
    give_re(&g, word);
    give_beginnings(&g, word);
    give_wholes(&g, word);
    give_endings(&g, word);
    give_doubled(&g, word);
}
